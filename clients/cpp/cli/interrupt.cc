#include "interrupt.h"

#include <csignal>
#include <initializer_list>
#include <utility>

namespace headrace::cli {
namespace {

constexpr int kStop = SIGUSR1;  // tells the thread that nobody waits for Ctrl-C any more

sigset_t only(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void hold_interrupts() {
  const sigset_t held = only({SIGINT, kStop});
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

InterruptWatcher::InterruptWatcher(std::function<void()> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)), thread_([this] { watch(); }) {}

InterruptWatcher::~InterruptWatcher() {
  pthread_kill(thread_.native_handle(), kStop);
  thread_.join();
}

void InterruptWatcher::watch() {
  const sigset_t awaited = only({SIGINT, kStop});
  int signal = 0;
  sigwait(&awaited, &signal);
  if (signal == kStop) return;
  interrupted_ = true;
  on_interrupt_();
  const sigset_t interrupt = only({SIGINT}), stop = only({kStop});
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  sigwait(&stop, &signal);
}

}  // namespace headrace::cli
