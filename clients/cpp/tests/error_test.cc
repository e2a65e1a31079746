#include "headrace/error.h"

#include <cstdint>
#include <limits>

#include "check.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace {

using headrace::Error;

google::rpc::ErrorInfo info_of(const std::string& reason, const std::string& domain) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(domain);
  return info;
}

template <typename... Details>
Error error_with(grpc::StatusCode code, const std::string& message, const Details&... details) {
  google::rpc::Status status;
  (status.add_details()->PackFrom(details), ...);
  return Error(grpc::Status(code, message, status.SerializeAsString()));
}

TEST(an_error_tells_its_reason_and_its_field) {
  google::rpc::BadRequest request;
  request.add_field_violations()->set_field("sampling.top_p");
  request.add_field_violations()->set_field("sampling.top_k");
  const Error error = error_with(grpc::StatusCode::INVALID_ARGUMENT, "top_p is 2.",
                                 info_of("INVALID_FIELD", "headrace"), request);
  EXPECT_EQUAL(error.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQUAL(error.reason(), "INVALID_FIELD");
  EXPECT_EQUAL(error.field(), "sampling.top_p");
  EXPECT_EQUAL(error.message(), "top_p is 2.");
  EXPECT_EQUAL(std::string(error.what()), "INVALID_FIELD: top_p is 2.");
  EXPECT_EQUAL(error.retry_delay().has_value(), false);
}

TEST(an_error_tells_when_to_try_again) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  const Error error = error_with(grpc::StatusCode::RESOURCE_EXHAUSTED, "Full.",
                                 info_of("OVERLOADED", "headrace"), retry);
  EXPECT_EQUAL(error.retry_delay().value_or(std::chrono::milliseconds(0)).count(), 1500);
  EXPECT_EQUAL(error.field(), "");
}

TEST(a_delay_that_nobody_can_wait_for_is_none) {
  for (const std::int64_t seconds : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(seconds);
    const Error error = error_with(grpc::StatusCode::UNAVAILABLE, "Gone.", retry);
    EXPECT_EQUAL(error.retry_delay().has_value(), false);
  }
}

TEST(a_reason_of_another_domain_is_none) {
  const Error error = error_with(grpc::StatusCode::PERMISSION_DENIED, "No.",
                                 info_of("API_DISABLED", "proxy.example"));
  EXPECT_EQUAL(error.reason(), "");
  EXPECT_EQUAL(std::string(error.what()), "PERMISSION_DENIED: No.");
}

TEST(an_error_without_details_has_the_name_of_its_code) {
  const Error error(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused"));
  EXPECT_EQUAL(std::string(error.what()), "UNAVAILABLE: connection refused");
}

TEST(details_that_cannot_be_read_are_none) {
  const Error error(grpc::Status(grpc::StatusCode::INTERNAL, "Broken.", "\xff\xff"));
  EXPECT_EQUAL(std::string(error.what()), "INTERNAL: Broken.");
  EXPECT_EQUAL(error.reason(), "");
}

TEST(every_code_has_a_name) {
  EXPECT_EQUAL(headrace::name_of(grpc::StatusCode::OK), "OK");
  EXPECT_EQUAL(headrace::name_of(grpc::StatusCode::CANCELLED), "CANCELLED");
  EXPECT_EQUAL(headrace::name_of(grpc::StatusCode::DATA_LOSS), "DATA_LOSS");
  EXPECT_EQUAL(headrace::name_of(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQUAL(headrace::name_of(grpc::StatusCode::DO_NOT_USE), "UNKNOWN");
}

}  // namespace
