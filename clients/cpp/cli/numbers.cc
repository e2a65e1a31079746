#include "numbers.h"

#include <charconv>
#include <sstream>

#include "flags.h"

namespace headrace::cli {
namespace {

constexpr double kLongestSeconds = 1e9;  // the clock holds more, but nobody waits so long

}  // namespace

std::int32_t to_int32(const std::string& flag, const std::string& text) {
  std::int32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    throw UsageError(flag + ": " + text + " is not a whole number of 32 bits");
  }
  return number;
}

std::chrono::milliseconds to_duration(const std::string& flag, const std::string& text) {
  std::istringstream in(text);  // from_chars has no fractions in every library
  double seconds = 0;
  if (!(in >> seconds) || !in.eof() || !(seconds > 0 && seconds < kLongestSeconds)) {
    throw UsageError(flag + ": " + text + " is not a number of seconds above 0");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace headrace::cli
