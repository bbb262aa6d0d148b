// A text of the scheduler, from its submission to its end.
#include "engine/scheduled_text.h"

#include <utility>

#include "base/error.h"

namespace kimi_k3 {
namespace {

void CheckTokens(std::span<const TokenId> tokens, const Engine& engine) {
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<size_t>(token) >= engine.vocabulary()) {
      Fail(ErrorKind::kUsage, "token id {} is outside the model's vocabulary of {}", token,
           engine.vocabulary());
    }
  }
}

}  // namespace

ScheduledText::ScheduledText(TextRequest given, std::shared_ptr<TextConsumer> taker)
    : request(std::move(given)),
      consumer(std::move(taker)),
      sampler(request.sampling),
      history(request.prompt) {
  history.insert(history.end(), request.begun.begin(), request.begun.end());
}

std::span<const TokenId> ScheduledText::reusable() const {
  return std::span(history).first(request.score_from.value_or(known_tokens()));
}

bool ScheduledText::IsScored(size_t position) const {
  return request.score_from && position >= *request.score_from && position < request.prompt.size();
}

void CheckTextRequest(const TextRequest& request, const Engine& engine) {
  if (request.prompt.empty()) Fail(ErrorKind::kUsage, "the prompt is empty");
  if (request.prompt.size() > engine.context()) {
    Fail(ErrorKind::kUsage, "the prompt has {} tokens, but the context has only {} positions",
         request.prompt.size(), engine.context());
  }
  if (request.begun.size() > engine.context() - request.prompt.size() + 1) {
    Fail(ErrorKind::kUsage, "prompt and answer so far have no room in the context's {} positions",
         engine.context());
  }
  if (!request.begun.empty() && request.likely_tokens) {
    Fail(ErrorKind::kUsage, "the probabilities of an answer that was begun are not known");
  }
  const size_t first = request.score_from.value_or(1);
  if (first == 0 || (request.score_from && first >= request.prompt.size())) {
    Fail(ErrorKind::kUsage,
         "the first token to be scored is none of the prompt's {} after the first",
         request.prompt.size());
  }
  CheckTokens(request.prompt, engine);
  CheckTokens(request.begun, engine);
}

}  // namespace kimi_k3
