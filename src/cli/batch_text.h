// One text of a batch on its way: takes the tokens, and makes a line of results of the answer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_journal.h"
#include "kimi_k3/error.h"
#include "kimi_k3/scheduler.h"
#include "server/prepared_answer.h"

namespace kimi_k3 {

// A text that has ended.
struct FinishedText {
  size_t index = 0;  // of the input's line
  std::string line;  // of the results
  size_t prompt_tokens = 0;
  size_t tokens = 0;             // generated, those of earlier runs included
  std::optional<Error> failure;  // then there is no result
};

// Hands finished texts from the scheduler's thread to the one that writes.
class FinishedTexts {
 public:
  void Push(FinishedText text);
  // All there are; waits for the first at most so long.
  std::vector<FinishedText> Take(std::chrono::milliseconds wait);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FinishedText> texts_;
};

// Whose text it is.
struct BatchTextOrigin {
  size_t index = 0;  // of the input's line
  BatchId id;
  std::string custom_id;
  size_t prompt_tokens = 0;
  size_t begun = 0;  // tokens that the journal has already
};

class BatchText : public TextConsumer {
 public:
  // journal: null where nothing is to be noted. What it is given must outlive it.
  BatchText(BatchTextOrigin origin, std::shared_ptr<server::Answer> answer,
            std::unique_ptr<server::AnswerWriter> writer, BatchJournal* journal,
            FinishedTexts& finished);

  void Score(const ChosenToken& token) override { answer_->Score(token); }
  void Constrain(std::span<float> logits) override { answer_->Constrain(logits); }
  bool Take(const ChosenToken& token) override;
  void End(const TextResult& result) override;

 private:
  const BatchTextOrigin origin_;
  const std::shared_ptr<server::Answer> answer_;
  const std::unique_ptr<server::AnswerWriter> writer_;
  BatchJournal* const journal_;
  FinishedTexts& finished_;
  size_t taken_ = 0;
  size_t calls_ = 0;
};

}  // namespace kimi_k3
