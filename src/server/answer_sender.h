// Sends an answer to its client while it is generated, with signs of life where it takes long.
#pragma once

#include <chrono>

#include "kimi_k3/scheduler.h"
#include "server/answer.h"
#include "server/api_json.h"
#include "server/request_log.h"
#include "server/response_writer.h"

namespace kimi_k3::server {

// Waits for the answer to its end and writes the response. stream: as server-sent events, with a
// comment after each silent `sign_of_life`; else as one JSON object, which white space precedes
// where it takes that long. Cancels the ticket and returns where the client is gone. Throws
// ApiError where the answer failed before anything was sent; after that a stream ends with an
// error event, and a JSON object is broken off, so that no client takes it for whole. Meanwhile the
// log hears of it.
void SendAnswer(Scheduler::Ticket& ticket, AnswerQueue& queue, AnswerWriter& writer, bool stream,
                std::chrono::milliseconds sign_of_life, RequestLog::Entry& entry,
                ResponseWriter& response);

}  // namespace kimi_k3::server
