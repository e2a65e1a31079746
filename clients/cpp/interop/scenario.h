// The lines of the runner: what they ask for and what they tell.
#pragma once

#include <google/protobuf/struct.pb.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headrace/error.h"
#include "headrace/stream.h"

namespace headrace::interop {

// A line of the input.
struct Scenario {
  std::string id;
  std::string method;
  std::vector<std::string> requests;  // one for each call, in JSON
  std::map<std::string, std::string> metadata;
  std::string api_key;  // empty: none is sent
  std::optional<std::chrono::microseconds> timeout;
  std::chrono::microseconds read_pause{0};
  bool gzip = false;
  bool cancel_after_headers = false;
  bool cancel_after_first_message = false;
};

// What was seen of one call.
struct Result {
  std::optional<Error> error;
  Metadata headers;
  Metadata trailers;
  std::vector<google::protobuf::Value> responses;
  std::chrono::microseconds elapsed{0};
};

// Reads a line, which may replace the key. Throws std::invalid_argument.
Scenario parse_scenario(const std::string& line, const std::string& api_key);

// The line that answers a scenario.
std::string to_line(const Scenario& scenario, const std::vector<Result>& results);

}  // namespace headrace::interop
