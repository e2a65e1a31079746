#include "scenario.h"

#include <cmath>

#include "json.h"

namespace headrace::interop {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

const Value* find(const Struct& object, const std::string& key) {
  const auto found = object.fields().find(key);
  return found == object.fields().end() ? nullptr : &found->second;
}

std::string text_at(const Struct& object, const std::string& key) {
  const Value* value = find(object, key);
  return value ? value->string_value() : "";
}

std::chrono::microseconds milliseconds(double number) {
  return std::chrono::microseconds(std::llround(number * 1000));
}

std::vector<std::string> requests_of(const Struct& line) {
  std::vector<std::string> requests;
  if (const Value* several = find(line, "requests")) {
    for (const Value& request : several->list_value().values()) {
      requests.push_back(to_json(request));
    }
    return requests;
  }
  const Value* request = find(line, "request");
  const Value* count = find(line, "count");
  requests.assign(count ? static_cast<std::size_t>(count->number_value()) : 1,
                  request ? to_json(*request) : "{}");
  return requests;
}

Value text_or_null(const std::string& text) {
  Value value;
  if (text.empty()) {
    value.set_null_value(google::protobuf::NULL_VALUE);
  } else {
    value.set_string_value(text);
  }
  return value;
}

// The metadata that is text.
Value to_value(const Metadata& metadata) {
  Value value;
  auto& fields = *value.mutable_struct_value()->mutable_fields();
  for (const auto& [key, text] : metadata) {
    if (key.size() > 4 && key.compare(key.size() - 4, 4, "-bin") == 0) continue;
    std::string& joined = *fields[key].mutable_string_value();
    joined += joined.empty() ? text : ", " + text;
  }
  return value;
}

Value to_value(const Result& result) {
  Value value;
  auto& fields = *value.mutable_struct_value()->mutable_fields();
  const Error* error = result.error ? &*result.error : nullptr;
  const auto delay = error ? error->retry_delay() : std::nullopt;
  fields["code"].set_string_value(name_of(error ? error->code() : grpc::StatusCode::OK));
  fields["message"].set_string_value(error ? error->message() : "");
  fields["reason"] = text_or_null(error ? error->reason() : "");
  fields["field"] = text_or_null(error ? error->field() : "");
  fields["retry_delay_ms"] = text_or_null("");
  if (delay) fields["retry_delay_ms"].set_number_value(static_cast<double>(delay->count()));
  fields["headers"] = to_value(result.headers);
  fields["trailers"] = to_value(result.trailers);
  auto& responses = *fields["responses"].mutable_list_value();
  for (const Value& response : result.responses) *responses.add_values() = response;
  fields["elapsed_ms"].set_number_value(static_cast<double>(result.elapsed.count()) / 1000);
  return value;
}

}  // namespace

Scenario parse_scenario(const std::string& json, const std::string& api_key) {
  Struct line;
  from_json(json, &line);
  Scenario scenario;
  scenario.id = text_at(line, "id");
  scenario.method = text_at(line, "method");
  scenario.requests = requests_of(line);
  if (const Value* metadata = find(line, "metadata")) {
    for (const auto& [key, value] : metadata->struct_value().fields()) {
      scenario.metadata[key] = value.string_value();
    }
  }
  const Value* own_key = find(line, "api_key");
  scenario.api_key = own_key ? own_key->string_value() : api_key;
  if (const Value* timeout = find(line, "timeout_ms")) {
    scenario.timeout = milliseconds(timeout->number_value());
  }
  if (const Value* pause = find(line, "read_pause_ms")) {
    scenario.read_pause = milliseconds(pause->number_value());
  }
  scenario.gzip = text_at(line, "compression") == "gzip";
  scenario.cancel_after_headers = text_at(line, "cancel") == "after_headers";
  scenario.cancel_after_first_message = text_at(line, "cancel") == "after_first_message";
  return scenario;
}

std::string to_line(const Scenario& scenario, const std::vector<Result>& results) {
  Struct line;
  auto& fields = *line.mutable_fields();
  fields["id"].set_string_value(scenario.id);
  auto& calls = *fields["calls"].mutable_list_value();
  for (const Result& result : results) *calls.add_values() = to_value(result);
  return to_json(line);
}

}  // namespace headrace::interop
