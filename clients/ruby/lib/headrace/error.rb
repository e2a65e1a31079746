# frozen_string_literal: true

require "grpc"
require "google/protobuf/well_known_types"
require "google/rpc/error_details_pb"

module Headrace
  # A call that failed. The message says in one sentence what happened.
  class Error < StandardError
    DETAILS = [Google::Rpc::ErrorInfo, Google::Rpc::BadRequest, Google::Rpc::RetryInfo].freeze
    private_constant :DETAILS

    # @return [Symbol] the status code of gRPC, such as :RESOURCE_EXHAUSTED
    attr_reader :code
    # @return [String, nil] the server's reason, such as "OVERLOADED"; nil where something else failed
    attr_reader :reason
    # @return [String, nil] the field at fault, such as "sampling.temperature"
    attr_reader :field
    # @return [Float, nil] the seconds to wait before another try, as the server wishes
    attr_reader :retry_delay
    # @return [String, nil] the id of the request in the server's log
    attr_reader :request_id

    # Returns the error for a GRPC::BadStatus, with what the details of its status tell.
    def self.from(status)
      # gRPC takes it for bytes.
      message = status.details.dup.force_encoding(Encoding::UTF_8).scrub
      new(message, code: code_name(status.code), request_id: status.metadata["x-request-id"],
                   **facts_of(status))
    end

    def initialize(message, code: :UNKNOWN, reason: nil, field: nil, retry_delay: nil, request_id: nil)
      super(message)
      @code = code
      @reason = reason
      @field = field
      @retry_delay = retry_delay
      @request_id = request_id
    end

    # Returns the name of a status code of gRPC.
    def self.code_name(code)
      GRPC::Core::StatusCodes.constants.find { |name| GRPC::Core::StatusCodes.const_get(name) == code } || :UNKNOWN
    end

    def self.facts_of(status)
      info, request, retry_info = DETAILS.map { |kind| detail(status, kind) }
      delay = retry_info&.retry_delay
      {
        reason: info&.reason,
        field: request&.field_violations&.first&.field,
        retry_delay: delay && (delay.seconds + (delay.nanos / 1e9))
      }
    end

    def self.detail(status, kind)
      packed = status.to_rpc_status&.details&.find { |any| any.is(kind) }
      packed&.unpack(kind)
    rescue Google::Protobuf::ParseError # a proxy may put anything there
      nil
    end

    private_class_method :facts_of, :detail
  end
end
