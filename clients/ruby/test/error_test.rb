# frozen_string_literal: true

require "test_helper"
require "google/rpc/status_pb"

class ErrorTest < Minitest::Test
  def test_tells_reason_and_delay
    delay = Google::Protobuf::Duration.new(seconds: 1, nanos: 250_000_000)
    error = error_with(
      Google::Rpc::ErrorInfo.new(reason: "OVERLOADED", domain: "headrace"),
      Google::Rpc::RetryInfo.new(retry_delay: delay)
    )
    assert_equal ["Later.", :RESOURCE_EXHAUSTED, "OVERLOADED", 1.25],
                 [error.message, error.code, error.reason, error.retry_delay]
    assert_nil error.field
  end

  def test_tells_the_field
    violation = Google::Rpc::BadRequest::FieldViolation.new(field: "sampling.top_p")
    error = error_with(Google::Rpc::BadRequest.new(field_violations: [violation]))
    assert_equal "sampling.top_p", error.field
    assert_nil error.reason
    assert_nil error.retry_delay
  end

  def test_tells_the_id_of_the_request
    status = GRPC::BadStatus.new_status_exception(GRPC::Core::StatusCodes::INTERNAL, "No.", { "x-request-id" => "r1" })
    error = Headrace::Error.from(status)
    assert_equal %i[INTERNAL r1], [error.code, error.request_id.to_sym]
  end

  def test_passes_over_details_that_cannot_be_read
    malformed = Google::Protobuf::Any.new(type_url: "type.googleapis.com/google.rpc.RetryInfo", value: "no protobuf")
    error = error_with(malformed, Google::Rpc::ErrorInfo.new(reason: "OVERLOADED"))
    assert_equal "OVERLOADED", error.reason
    assert_nil error.retry_delay
  end

  private

  def error_with(*details)
    packed = details.map { |detail| detail.is_a?(Google::Protobuf::Any) ? detail : Google::Protobuf::Any.pack(detail) }
    status = Google::Rpc::Status.new(code: 8, message: "Later.", details: packed)
    trailers = { "grpc-status-details-bin" => Google::Rpc::Status.encode(status) }
    Headrace::Error.from(
      GRPC::BadStatus.new_status_exception(GRPC::Core::StatusCodes::RESOURCE_EXHAUSTED, "Later.", trailers)
    )
  end
end
