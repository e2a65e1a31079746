// The error of a call.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

namespace headrace {

// A call that failed. what() is its name and its message in one line.
class Error : public std::runtime_error {
 public:
  // The error for a status that is not OK.
  explicit Error(const grpc::Status& status);

  // The status of gRPC.
  grpc::StatusCode code() const { return code_; }
  // What happened and what to do, in one sentence.
  const std::string& message() const { return message_; }
  // A value of headrace.v1.ErrorReason without its prefix, such as "OVERLOADED"; empty where the
  // error is not the server's but that of a proxy or of the connection.
  const std::string& reason() const { return reason_; }
  // The field of the request that is at fault, such as "sampling.temperature"; empty where no
  // single one is.
  const std::string& field() const { return field_; }
  // The time to wait before another try, where the server says one.
  std::optional<std::chrono::milliseconds> retry_delay() const { return retry_delay_; }

 private:
  grpc::StatusCode code_;
  std::string message_;
  std::string reason_;
  std::string field_;
  std::optional<std::chrono::milliseconds> retry_delay_;
};

// The name of a status code as gRPC writes it, such as "INVALID_ARGUMENT".
std::string name_of(grpc::StatusCode code);

}  // namespace headrace
