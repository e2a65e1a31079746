// One call of a scenario.
#pragma once

#include <string>

#include "headrace/client.h"
#include "scenario.h"

namespace headrace::interop {

// Makes one call and returns what was seen of it. Throws std::invalid_argument where the
// scenario cannot be followed, never where the call failed.
Result make_call(const Client& client, const Scenario& scenario, const std::string& request_json);

}  // namespace headrace::interop
