#include "flags.h"

#include "check.h"
#include "numbers.h"

namespace {

using headrace::cli::Connection;
using headrace::cli::Flag;
using headrace::cli::UsageError;

std::vector<std::string> parse(std::vector<std::string> words, Connection& connection,
                               const std::vector<Flag>& flags = {}) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return headrace::cli::parse(static_cast<int>(words.size()), argv.data(), connection, flags);
}

std::string complaint_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(flags_say_where_and_as_whom) {
  Connection connection;
  std::string own;
  const auto rest =
      parse({"program", "--target", "host:1", "--api-key=k", "--tls", "--own", "-1", "Hi"},
            connection, {{"own", [&](const std::string& value) { own = value; }}});
  EXPECT_EQUAL(connection.target, "host:1");
  EXPECT_EQUAL(connection.api_key, "k");
  EXPECT_EQUAL(connection.tls, true);
  EXPECT_EQUAL(own, "-1");
  EXPECT_EQUAL(rest.size(), 1U);
  EXPECT_EQUAL(rest.front(), "Hi");
}

TEST(wrong_command_lines_are_refused_by_their_words) {
  Connection connection;
  EXPECT_EQUAL(complaint_of([&] { parse({"program", "--nothing"}, connection); }),
               "--nothing is not a flag of this program");
  EXPECT_EQUAL(complaint_of([&] { parse({"program", "--target"}, connection); }),
               "--target needs a value");
  EXPECT_EQUAL(complaint_of([&] { parse({"program", "-xy", "Hi"}, connection); }),
               "-xy is not a flag of this program");
  connection.certfile = "cert.pem";
  EXPECT_EQUAL(complaint_of([&] { connection.client_options(); }),
               "--certfile and --keyfile belong together: give both or none");
  connection = {};
  connection.ca_certs = "none.pem";
  EXPECT_EQUAL(complaint_of([&] { connection.client_options(); }),
               "--ca-certs: none.pem cannot be read");
}

TEST(a_connection_is_encrypted_only_when_asked) {
  Connection connection;
  EXPECT_EQUAL(connection.client_options().credentials == nullptr, true);
  connection.tls = true;
  EXPECT_EQUAL(connection.client_options().credentials == nullptr, false);
}

TEST(numbers_are_read_to_their_end) {
  using headrace::cli::to_duration, headrace::cli::to_int32;
  EXPECT_EQUAL(to_int32("--n", "-7"), -7);
  EXPECT_EQUAL(to_duration("--t", "1.5").count(), 1500);
  for (const char* text : {"", "x", "1x", "2147483648", "1.5"}) {
    EXPECT_EQUAL(complaint_of([&] { to_int32("--n", text); }),
                 std::string("--n: ") + text + " is not a whole number of 32 bits");
  }
  for (const char* text : {"", "x", "1x", "0", "-1", "nan", "1e99"}) {
    EXPECT_EQUAL(complaint_of([&] { to_duration("--t", text); }),
                 std::string("--t: ") + text + " is not a number of seconds above 0");
  }
}

}  // namespace
