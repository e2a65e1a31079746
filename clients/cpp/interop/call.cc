#include "call.h"

#include <thread>

#include "json.h"
#include "methods.h"

namespace headrace::interop {
namespace {

// Reads a call to its end, and cancels it where the scenario says. Throws Error.
void read(Running& call, const Scenario& scenario, Result& result) {
  result.headers = call.headers();
  if (scenario.cancel_after_headers) call.cancel();
  while (const auto response = call.next()) {
    from_json(to_json(*response), &result.responses.emplace_back());
    if (scenario.cancel_after_first_message) call.cancel();
    std::this_thread::sleep_for(scenario.read_pause);
  }
}

void prepare(const Scenario& scenario, grpc::ClientContext& context) {
  for (const auto& [key, value] : scenario.metadata) context.AddMetadata(key, value);
  if (!scenario.api_key.empty()) context.AddMetadata("authorization", "Bearer " + scenario.api_key);
  if (scenario.gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  if (scenario.timeout) {
    context.set_deadline(std::chrono::system_clock::now() + *scenario.timeout);
  }
}

}  // namespace

Result make_call(const Client& client, const Scenario& scenario, const std::string& request_json) {
  Result result;
  const auto began = std::chrono::steady_clock::now();
  const auto call = begin(client, scenario.method, request_json,
                          [&](grpc::ClientContext& context) { prepare(scenario, context); });
  try {
    read(*call, scenario, result);
  } catch (const Error& error) {
    result.error = error;
  }
  result.trailers = call->trailers();
  result.elapsed = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - began);
  return result;
}

}  // namespace headrace::interop
