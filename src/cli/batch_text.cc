// One text of a batch on its way: takes the tokens, and makes a line of results of the answer.
#include "cli/batch_text.h"

#include <fmt/format.h>

#include <utility>

namespace kimi_k3 {

void FinishedTexts::Push(FinishedText text) {
  const std::lock_guard lock(mutex_);
  texts_.push_back(std::move(text));
  changed_.notify_one();
}

std::vector<FinishedText> FinishedTexts::Take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return !texts_.empty(); });
  return std::exchange(texts_, {});
}

BatchText::BatchText(BatchTextOrigin origin, std::shared_ptr<server::Answer> answer,
                     std::unique_ptr<server::AnswerWriter> writer, BatchJournal* journal,
                     FinishedTexts& finished)
    : origin_(std::move(origin)),
      answer_(std::move(answer)),
      writer_(std::move(writer)),
      journal_(journal),
      finished_(finished) {}

bool BatchText::Take(const ChosenToken& token) {
  const size_t place = taken_++;
  if (journal_ != nullptr && place >= origin_.begun) {
    journal_->Note(origin_.index, place, token.token);
  }
  return answer_->Take(token);
}

void BatchText::End(const TextResult& result) {
  FinishedText text = {.index = origin_.index,
                       .line = {},
                       .prompt_tokens = origin_.prompt_tokens,
                       .tokens = result.tokens.size(),
                       .failure = result.error};
  if (!text.failure) {
    answer_->End(result);
    while (std::optional<server::AnswerPiece> piece =
               answer_->queue().Take(std::chrono::milliseconds(0))) {
      // The same answer has the same bytes, whatever run it is of.
      for (ToolCall& call : piece->tool_calls) {
        call.id = fmt::format("call_{}_{}", origin_.id.Hex(), calls_++);
      }
      writer_->Collect(std::move(*piece));
    }
    server::AnswerEnd end = answer_->queue().end().value_or(server::AnswerEnd{});
    end.cached_tokens = 0;
    text.line = BatchResultLine(origin_.id, origin_.custom_id, 200, writer_->Whole(end));
  }
  finished_.Push(std::move(text));
}

}  // namespace kimi_k3
