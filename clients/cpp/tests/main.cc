#include "check.h"

int main() {
  using namespace headrace::tests;
  int num_failed = 0;
  for (const Test& test : all_tests()) {
    const int before = num_failures();
    test.run();
    const bool passed = num_failures() == before;
    std::cerr << (passed ? "ok     " : "FAILED ") << test.name << "\n";
    if (!passed) ++num_failed;
  }
  const auto num_tests = static_cast<int>(all_tests().size());
  std::cerr << num_tests - num_failed << " passed, " << num_failed << " failed" << std::endl;
  return num_failed == 0 && num_tests > 0 ? 0 : 1;
}
