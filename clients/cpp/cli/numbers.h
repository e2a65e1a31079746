// Numbers of a command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace headrace::cli {

// A whole number of 32 bits. Throws UsageError, which names the flag.
std::int32_t to_int32(const std::string& flag, const std::string& text);

// A number of seconds above 0. Throws UsageError, which names the flag.
std::chrono::milliseconds to_duration(const std::string& flag, const std::string& text);

}  // namespace headrace::cli
