#include "flags.h"

#include <fstream>
#include <iterator>

namespace headrace::cli {
namespace {

std::string read_file(const std::string& flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || content.empty()) throw UsageError(flag + ": " + path + " cannot be read");
  return content;
}

}  // namespace

ClientOptions Connection::client_options() const {
  if (certfile.empty() != keyfile.empty()) {
    throw UsageError("--certfile and --keyfile belong together: give both or none");
  }
  ClientOptions options;
  options.api_key = api_key;
  if (!tls && ca_certs.empty() && certfile.empty()) return options;
  grpc::SslCredentialsOptions ssl;
  if (!ca_certs.empty()) ssl.pem_root_certs = read_file("--ca-certs", ca_certs);
  if (!certfile.empty()) {
    ssl.pem_cert_chain = read_file("--certfile", certfile);
    ssl.pem_private_key = read_file("--keyfile", keyfile);
  }
  options.credentials = grpc::SslCredentials(ssl);
  return options;
}

std::vector<std::string> parse(int argc, char** argv, Connection& connection,
                               const std::vector<Flag>& flags) {
  std::vector<Flag> all = flags;
  const auto text = [](std::string& place) {
    return [&place](const std::string& value) { place = value; };
  };
  all.push_back({"target", text(connection.target)});
  all.push_back({"api-key", text(connection.api_key)});
  all.push_back({"ca-certs", text(connection.ca_certs)});
  all.push_back({"certfile", text(connection.certfile)});
  all.push_back({"keyfile", text(connection.keyfile)});

  std::vector<option> options;
  for (const Flag& flag : all) options.push_back({flag.name, required_argument, nullptr, 0});
  const int tls = static_cast<int>(options.size());
  options.push_back({"tls", no_argument, nullptr, 0});
  options.push_back({});

  opterr = 0;  // the message is ours
  optind = 0;  // from the start, also for a second command line
  int index = 0;
  while (true) {
    const int found = getopt_long_only(argc, argv, ":", options.data(), &index);
    if (found == -1) break;
    if (found != 0) {
      throw UsageError(std::string(argv[optind - 1]) +
                       (found == ':' ? " needs a value" : " is not a flag of this program"));
    }
    if (index == tls) {
      connection.tls = true;
    } else {
      all[index].take(optarg);
    }
  }
  return {argv + optind, argv + argc};
}

}  // namespace headrace::cli
