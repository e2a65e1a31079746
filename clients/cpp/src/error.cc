#include "headrace/error.h"

#include <google/protobuf/util/time_util.h>

#include <array>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace headrace {
namespace {

constexpr char kDomain[] = "headrace";  // of the reasons that are of headrace.v1.ErrorReason

// The details of a status; empty where there are none, or where a proxy put something else there.
google::rpc::Status details_of(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return details;
}

std::string reason_of(const google::rpc::Status& details) {
  google::rpc::ErrorInfo info;
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&info) && info.domain() == kDomain) return info.reason();
  }
  return "";
}

// The time that a server asks for; none where it is no time that can be waited for.
std::optional<std::chrono::milliseconds> delay_of(const google::rpc::RetryInfo& retry) {
  const google::protobuf::Duration& delay = retry.retry_delay();
  if (!retry.has_retry_delay() || delay.seconds() < 0 || delay.nanos() < 0 ||
      delay.seconds() > google::protobuf::util::TimeUtil::kDurationMaxSeconds) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(delay.seconds() * 1000 + delay.nanos() / 1'000'000);
}

std::string line_of(const grpc::Status& status) {
  const std::string reason = reason_of(details_of(status));
  return (reason.empty() ? name_of(status.error_code()) : reason) + ": " + status.error_message();
}

}  // namespace

Error::Error(const grpc::Status& status)
    : std::runtime_error(line_of(status)),
      code_(status.error_code()),
      message_(status.error_message()) {
  const google::rpc::Status details = details_of(status);
  reason_ = reason_of(details);
  google::rpc::BadRequest request;
  google::rpc::RetryInfo retry;
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&request) && !request.field_violations().empty()) {
      field_ = request.field_violations(0).field();
    } else if (detail.UnpackTo(&retry)) {
      retry_delay_ = delay_of(retry);
    }
  }
}

std::string name_of(grpc::StatusCode code) {
  static constexpr std::array<const char*, 17> kNames = {
      "OK",
      "CANCELLED",
      "UNKNOWN",
      "INVALID_ARGUMENT",
      "DEADLINE_EXCEEDED",
      "NOT_FOUND",
      "ALREADY_EXISTS",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION",
      "ABORTED",
      "OUT_OF_RANGE",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DATA_LOSS",
      "UNAUTHENTICATED",
  };
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

}  // namespace headrace
