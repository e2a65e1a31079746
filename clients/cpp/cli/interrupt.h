// Ctrl-C, as a call of a function.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace headrace::cli {

// Keeps Ctrl-C (SIGINT) from ending the program: it waits until an InterruptWatcher is there.
// To be called before other threads are started, gRPC's too.
void hold_interrupts();

// Calls a function, in a thread of its own, at the first Ctrl-C. A second one ends the program.
class InterruptWatcher {
 public:
  explicit InterruptWatcher(std::function<void()> on_interrupt);
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;
  ~InterruptWatcher();

  bool interrupted() const { return interrupted_; }

 private:
  void watch();

  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_ = false;
  std::thread thread_;
};

}  // namespace headrace::cli
