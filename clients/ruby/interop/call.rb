# frozen_string_literal: true

require "headrace/error"

# One call of a scenario, made with gRPC's core: the stubs do not tell when the headers came.
class Call
  include GRPC::Core::CallOps

  def initialize(channel, service, method, scenario)
    @request = method.input
    @response = method.output.is_a?(GRPC::RpcDesc::Stream) ? method.output.type : method.output
    @cancel = scenario["cancel"]
    @pause_seconds = scenario.fetch("read_pause_ms", 0) / 1000.0
    timeout = scenario["timeout_ms"]
    deadline = timeout ? Time.now + (timeout / 1000.0) : GRPC::Core::TimeConsts::INFINITE_FUTURE
    @call = channel.create_call(nil, nil, "/#{service}/#{method.name}", nil, deadline)
  end

  # Makes the call and returns what was seen of it.
  def make(request, metadata)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    headers = {}
    responses = []
    begin
      headers = open(request, metadata)
      read { |response| responses << response }
    rescue GRPC::Core::CallError # the status says why
      nil
    end
    status = @call.run_batch(RECV_STATUS_ON_CLIENT => nil).status
    {
      **told(status),
      headers: texts(headers), responses: responses.map { |response| JSON.parse(response.to_json) },
      elapsed_ms: (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000
    }
  ensure
    @call.close
  end

  private

  # Sends the request and returns the headers of the response.
  def open(request, metadata)
    message = @request.encode(request)
    @call.run_batch(SEND_INITIAL_METADATA => metadata, SEND_MESSAGE => message, SEND_CLOSE_FROM_CLIENT => nil)
    headers = @call.run_batch(RECV_INITIAL_METADATA => nil).metadata
    @call.cancel if @cancel == "after_headers"
    headers
  end

  def read
    while (message = @call.run_batch(RECV_MESSAGE => nil).message)
      yield @response.decode(message)
      @call.cancel if @cancel == "after_first_message"
      sleep @pause_seconds
    end
  end

  def told(status)
    error = Headrace::Error.from(status_error(status))
    {
      code: error.code, message: status.details, reason: error.reason, field: error.field,
      retry_delay_ms: error.retry_delay && (error.retry_delay * 1000).round,
      trailers: texts(status.metadata)
    }
  end

  def status_error(status)
    GRPC::BadStatus.new_status_exception(status.code, status.details, status.metadata)
  end

  # Of several values with one name gRPC makes a list.
  def texts(metadata)
    metadata.reject { |name, _| name.end_with?("-bin") }.transform_values { |value| Array(value).join(", ") }
  end
end
