// The multiply-adds per second of all cores on numbers that stay in registers: what no product of
// that arithmetic can pass.
#include <omp.h>

#include <chrono>
#include <cstdio>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Lets the compiler know nothing about a register, so that it leaves nothing out.
#if defined(__x86_64__)
#define OPAQUE(x) asm volatile("" : "+x"(x))
#else
#define OPAQUE(x) asm volatile("" : "+w"(x))
#endif

namespace {

constexpr int kChains = 12;  // independent sums, more than the units' latency needs
constexpr int kRounds = 2'000'000;
constexpr int kTries = 5;

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

struct Fp32Peak {
  using Vector = float __attribute__((vector_size(kVectorBytes)));
  static constexpr int kPerStep = kVectorBytes / sizeof(float);
  static Vector add(Vector sum, Vector x) { return sum + x * x; }
};

#if defined(__AVX512VNNI__)
struct Int8Peak {
  using Vector = __m512i;
  static constexpr int kPerStep = 64;
  static Vector add(Vector sum, Vector x) { return _mm512_dpbusd_epi32(sum, x, x); }
};
#elif defined(__AVXVNNI__)
struct Int8Peak {
  using Vector = __m256i;
  static constexpr int kPerStep = 32;
  static Vector add(Vector sum, Vector x) { return _mm256_dpbusd_avx_epi32(sum, x, x); }
};
#elif defined(__AVX2__)
struct Int8Peak {  // into 16 bits, the fastest that there is without VNNI
  using Vector = __m256i;
  static constexpr int kPerStep = 32;
  static Vector add(Vector sum, Vector x) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, x));
  }
};
#endif

template <class Peak>
void multiply_and_add() {
  typename Peak::Vector sums[kChains] = {}, x = {};
  for (int round = 0; round < kRounds; ++round) {
    for (auto& sum : sums) {
      OPAQUE(x);
      sum = Peak::add(sum, x);
    }
  }
  typename Peak::Vector total = {};
  for (const auto& sum : sums) total += sum;
  volatile typename Peak::Vector kept = total;
  (void)kept;
}

template <class Peak>
double measure() {
  double most = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel
    multiply_and_add<Peak>();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double count = 1.0 * kRounds * kChains * Peak::kPerStep * omp_get_max_threads();
    if (count / seconds.count() > most) most = count / seconds.count();
  }
  return most;
}

}  // namespace

int main() {
  std::printf("fp32 %.6g\n", measure<Fp32Peak>());
#if defined(__AVX2__)
  std::printf("int8 %.6g\n", measure<Int8Peak>());
#endif
}
