// Makes calls as the lines of stdin say and tells on stdout what it saw. It is how the tests of
// the service try this client; who copies the client leaves it out.
#include <future>
#include <iostream>

#include "call.h"
#include "flags.h"
#include "headrace/client.h"
#include "scenario.h"

namespace headrace::interop {
namespace {

// Makes the calls of a scenario at once, and returns when all have ended.
std::vector<Result> call_all(const Client& client, const Scenario& scenario) {
  std::vector<std::future<Result>> calls;
  for (const std::string& request : scenario.requests) {
    calls.push_back(std::async(std::launch::async, make_call, std::cref(client),
                               std::cref(scenario), std::cref(request)));
  }
  std::vector<Result> results;
  for (auto& call : calls) results.push_back(call.get());
  return results;
}

void run(int argc, char** argv) {
  cli::Connection connection;
  cli::parse(argc, argv, connection, {});
  ClientOptions options = connection.client_options();
  options.api_key.clear();  // each line has its own
  options.arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  const Client client(connection.target, std::move(options));
  for (std::string line; std::getline(std::cin, line);) {
    const Scenario scenario = parse_scenario(line, connection.api_key);
    std::cout << to_line(scenario, call_all(client, scenario)) << std::endl;
  }
}

}  // namespace
}  // namespace headrace::interop

int main(int argc, char** argv) {
  try {
    headrace::interop::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
