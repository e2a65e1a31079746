// The little that these tests need of a framework.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace headrace::tests {

struct Test {
  std::string name;
  std::function<void()> run;
};

// All tests, and the number of checks that have failed in them.
inline std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}
inline int& num_failures() {
  static int failures = 0;
  return failures;
}

struct Registration {
  Registration(std::string name, std::function<void()> run) {
    all_tests().push_back({std::move(name), std::move(run)});
  }
};

template <typename Got, typename Want>
void expect_equal(const Got& got, const Want& want, int line) {
  if (got == want) return;
  ++num_failures();
  std::cerr << "  line " << line << ": got \"" << got << "\", want \"" << want << "\"\n";
}

}  // namespace headrace::tests

#define TEST(name)                                                         \
  static void name();                                                      \
  static const headrace::tests::Registration register_##name(#name, name); \
  static void name()
#define EXPECT_EQUAL(got, want) headrace::tests::expect_equal(got, want, __LINE__)
