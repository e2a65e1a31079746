// Messages as JSON, by protobuf's own printer and parser.
#pragma once

#include <google/protobuf/util/json_util.h>

#include <stdexcept>
#include <string>

namespace headrace::interop {

// Throws std::invalid_argument.
inline void from_json(const std::string& json, google::protobuf::Message* message) {
  const auto status = google::protobuf::util::JsonStringToMessage(json, message);
  if (!status.ok()) throw std::invalid_argument(status.ToString());
}

// Throws std::invalid_argument.
inline std::string to_json(const google::protobuf::Message& message) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json);
  if (!status.ok()) throw std::invalid_argument(status.ToString());
  return json;
}

}  // namespace headrace::interop
