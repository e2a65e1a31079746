# frozen_string_literal: true

# Makes the calls of tests/interop: one scenario per line on stdin, what was seen on stdout.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "grpc/health/v1/health_services_pb"
require "headrace"
require "optparse"
require_relative "call"

PREFIXES = {
  Headrace::V1::InferenceService::Service => "",
  Headrace::V1::ModelService::Service => "",
  Grpc::Health::V1::Health::Service => "Health"
}.freeze
# The service and the method of each name that a scenario can have.
METHODS = PREFIXES.flat_map do |service, prefix|
  service.rpc_descs.map { |name, method| ["#{prefix}#{name}", [service.service_name, method]] }
end.to_h.freeze

# Returns the requests of a scenario, one for each call.
def requests_of(scenario, method)
  listed = scenario["requests"] || ([scenario.fetch("request", {})] * scenario.fetch("count", 1))
  listed.map { |fields| method.input.decode_json(JSON.generate(fields)) }
end

def metadata_of(scenario, api_key)
  metadata = scenario.fetch("metadata", {}).dup
  key = scenario.fetch("api_key", api_key)
  metadata["authorization"] = "Bearer #{key}" if key
  # gRPC takes this one for itself: the encoding of the request.
  metadata["grpc-internal-encoding-request"] = scenario["compression"] if scenario["compression"]
  metadata
end

def run(channel, scenario, api_key)
  service, method = METHODS.fetch(scenario["method"])
  threads = requests_of(scenario, method).map do |request|
    Thread.new { Call.new(channel, service, method, scenario).make(request, metadata_of(scenario, api_key)) }
  end
  { id: scenario["id"], calls: threads.map(&:value) }
rescue KeyError, Google::Protobuf::ParseError => e
  { id: scenario["id"], unsupported: e.message }
end

given = {}
OptionParser.new do |options|
  %w[target ca-certs certfile keyfile api-key].each { |name| options.on("--#{name} VALUE") }
end.parse!(into: given)
files = { ca_certs: given[:"ca-certs"], certfile: given[:certfile], keyfile: given[:keyfile] }
tls = Headrace::Client::Tls.new(**files) if given[:"ca-certs"]
$stdout.sync = true
$stdin.set_encoding(Encoding::UTF_8)

# The key is not the client's: a scenario may replace it.
Headrace::Client.open(given[:target], tls: tls, max_attempts: 1) do |client|
  $stdin.each_line { |line| puts JSON.generate(run(client.channel, JSON.parse(line), given[:"api-key"])) }
end
