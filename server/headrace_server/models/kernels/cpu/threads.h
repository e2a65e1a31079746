// How the threads of a parallel region share its work and its memory.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace headrace {

// Working memory of the calling thread, kept between calls.
inline float* scratch(size_t floats) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<float, Free> memory;
  thread_local size_t capacity = 0;
  if (floats > capacity) {
    capacity = (floats + 1023) / 1024 * 1024;
    memory.reset(static_cast<float*>(std::aligned_alloc(64, capacity * sizeof(float))));
    if (!memory) std::abort();
  }
  return memory.get();
}

struct Range {
  uint32_t begin, end;
};

// The equal part of `count` pieces that belongs to a thread.
inline Range part_of(int count, int thread, int threads) {
  return {static_cast<uint32_t>(static_cast<int64_t>(count) * thread / threads),
          static_cast<uint32_t>(static_cast<int64_t>(count) * (thread + 1) / threads)};
}

inline Range my_part(int count) { return part_of(count, omp_get_thread_num(), omp_get_num_threads()); }

// Pieces of work of which every thread has an equal part, and who is done takes over from others:
// where the cores serve callers too, one of the threads is often kept waiting.
class Shares {
 public:
  explicit Shares(int count) : parts_(omp_get_max_threads()) {
    const int threads = static_cast<int>(parts_.size());
    for (int t = 0; t < threads; ++t) parts_[t].left.store(part_of(count, t, threads));
  }

  // Takes up to `most` neighbouring pieces; false when nothing is left.
  bool take(uint32_t most, Range* taken) {
    const size_t me = omp_get_thread_num();
    if (take_first(parts_[me].left, most, taken)) return true;
    for (size_t i = 1; i < parts_.size(); ++i) {
      if (take_last(parts_[(me + i) % parts_.size()].left, most, taken)) return true;
    }
    return false;
  }

 private:
  struct alignas(64) Part {
    std::atomic<Range> left;
  };

  static bool take_first(std::atomic<Range>& part, uint32_t most, Range* taken) {
    Range left = part.load();
    while (left.begin < left.end) {
      const uint32_t end = std::min(left.begin + most, left.end);
      *taken = {left.begin, end};
      if (part.compare_exchange_weak(left, {end, left.end})) return true;
    }
    return false;
  }

  // At most half of what is left, so that the owner need not wait in turn.
  static bool take_last(std::atomic<Range>& part, uint32_t most, Range* taken) {
    Range left = part.load();
    while (left.begin < left.end) {
      const uint32_t begin = left.end - std::min(most, (left.end - left.begin + 1) / 2);
      *taken = {begin, left.end};
      if (part.compare_exchange_weak(left, {left.begin, begin})) return true;
    }
    return false;
  }

  std::vector<Part> parts_;
};

}  // namespace headrace
