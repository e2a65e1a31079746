// Asks a server one question and prints the answer as it is made.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "flags.h"
#include "headrace/client.h"
#include "interrupt.h"
#include "numbers.h"

namespace headrace::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;
constexpr char kUsageLine[] =
    "usage: headrace-cpp [--target localhost:1920] [--tls] [--ca-certs FILE]\n"
    "                    [--certfile FILE --keyfile FILE] [--api-key KEY] [--max-tokens N]\n"
    "                    [--timeout SECONDS] PROMPT\n";

// What the command line asks for.
struct Command {
  Connection connection;
  v1::GenerateRequest request;
  std::optional<std::chrono::milliseconds> timeout;
};

Command parse_command(int argc, char** argv) {
  Command command;
  std::optional<std::int32_t> max_tokens;
  if (const char* keys = std::getenv("HEADRACE_API_KEY")) {
    const std::string all = keys;
    command.connection.api_key = all.substr(0, all.find(','));
  }
  const auto words = parse(
      argc, argv, command.connection,
      {{"max-tokens", [&](const auto& text) { max_tokens = to_int32("--max-tokens", text); }},
       {"timeout", [&](const auto& text) { command.timeout = to_duration("--timeout", text); }}});
  if (words.size() != 1) throw UsageError("give one PROMPT");
  command.request = user_prompt(words.front());
  if (max_tokens) command.request.mutable_stopping()->set_max_output_tokens(*max_tokens);
  return command;
}

// Prints the answer and returns the exit status.
int run(const Command& command) {
  const Client client(command.connection.target, command.connection.client_options());
  Stream stream = client.stream(command.request, [&](grpc::ClientContext& context) {
    if (command.timeout) {
      context.set_deadline(std::chrono::system_clock::now() + *command.timeout);
    }
  });
  const InterruptWatcher watcher([canceller = stream.canceller()] { canceller.cancel(); });
  const char* ending = "";
  try {
    for (const v1::GenerateResponse& response : stream) {
      std::cout << text_of(response) << std::flush;
      if (!std::cout) break;
      ending = "\n";
    }
    std::cout << ending << std::flush;
    if (std::cout) return 0;
    std::cerr << "error: the answer cannot be written" << std::endl;
    return kFailed;
  } catch (const Error& error) {
    std::cout << ending << std::flush;
    if (watcher.interrupted()) return kInterrupted;
    std::cerr << "error: " << error.what();
    if (const auto delay = error.retry_delay()) {
      std::fprintf(stderr, "; retry in %.1f s", static_cast<double>(delay->count()) / 1000);
    }
    std::cerr << std::endl;
    return kFailed;
  }
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
  using namespace headrace::cli;
  if (std::find(argv + 1, argv + argc, std::string_view("--help")) != argv + argc) {
    std::cout << kUsageLine;
    return 0;
  }
  hold_interrupts();
  try {
    return run(parse_command(argc, argv));
  } catch (const UsageError& error) {
    std::cerr << kUsageLine << "error: " << error.what() << std::endl;
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return kFailed;
  }
}
