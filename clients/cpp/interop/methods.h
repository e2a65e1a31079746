// The methods that scenarios can name, and calls of them.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>

#include "headrace/client.h"

namespace headrace::interop {

// A call that is read to its end.
class Running {
 public:
  virtual ~Running() = default;
  virtual Metadata headers() = 0;
  // The next response, or null at the end of a complete answer. Throws Error.
  virtual std::unique_ptr<google::protobuf::Message> next() = 0;
  virtual Metadata trailers() const = 0;
  virtual void cancel() = 0;
};

// Begins a call: Generate by the client that is tried, the others on its connection. Throws
// std::invalid_argument where the request is not one of the method's.
std::unique_ptr<Running> begin(const Client& client, const std::string& method,
                               const std::string& request_json, const PrepareCall& prepare);

}  // namespace headrace::interop
