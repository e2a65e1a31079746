// The flags by which the programs of this folder connect.
#pragma once

#include <getopt.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "headrace/client.h"

namespace headrace::cli {

// The command line is wrong; what() says how.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where and as whom a program connects.
struct Connection {
  std::string target = "localhost:1920";
  std::string api_key;
  bool tls = false;
  std::string ca_certs;
  std::string certfile;
  std::string keyfile;

  // The options of the client, with the files read. Throws UsageError.
  ClientOptions client_options() const;
};

// A flag with a value that only one program has.
struct Flag {
  const char* name;
  std::function<void(const std::string& value)> take;
};

// Reads a command line into `connection` and the flags of the program, and returns what is
// left: the words that are no flags. Throws UsageError.
std::vector<std::string> parse(int argc, char** argv, Connection& connection,
                               const std::vector<Flag>& flags);

}  // namespace headrace::cli
