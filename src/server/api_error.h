// What a client is told went wrong: an HTTP status and OpenAI's error object.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kimi_k3/error.h"

namespace kimi_k3::server {

// The request is answered with `status` and {"error": {message, type, param, code}}.
class ApiError : public Error {
 public:
  // code, param: empty ones are null.
  ApiError(int status, std::string code, std::string param, const std::string& message)
      : Error(ErrorKind::kUsage, message),
        status_(status),
        code_(std::move(code)),
        param_(std::move(param)) {}

  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::string& param() const { return param_; }
  // "invalid_request_error", "authentication_error", "rate_limit_error" or "server_error".
  std::string type() const {
    if (status_ == 401) return "authentication_error";
    if (status_ == 429) return "rate_limit_error";
    return status_ >= 500 ? "server_error" : "invalid_request_error";
  }

 private:
  int status_;
  std::string code_;
  std::string param_;
};

// Throws an ApiError(400) about one field of a request.
template <typename... Args>
[[noreturn]] void RefuseField(const std::string& param, fmt::format_string<Args...> format,
                              Args&&... args) {
  throw ApiError(400, "invalid_value", param,
                 param + ": " + fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kimi_k3::server
