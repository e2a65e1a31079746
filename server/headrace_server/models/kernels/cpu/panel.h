// Sixteen outputs at a time: a row of a panel of weights in floats, and sums of products of bytes.
#pragma once

#include <type_traits>

#include "simd.h"

namespace headrace {

constexpr int kPanel = 16;  // outputs in a panel

#if defined(__AVX512F__)

struct Panel {
  __m512 v;
};

inline Panel load_panel(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Panel load_panel(const half* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Panel panel_of(float x) { return {_mm512_set1_ps(x)}; }
inline void store(float* p, Panel a) { _mm512_storeu_ps(p, a.v); }
inline Panel operator*(Panel a, Panel b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Panel fma(Panel a, Panel b, Panel c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

#else

struct Panel {
  Floats first, second;
};

inline Panel load_panel(const float* p) { return {load(p), load(p + kLanes)}; }
inline Panel load_panel(const half* p) { return {load(p), load(p + kLanes)}; }
inline Panel panel_of(float x) { return {broadcast(x), broadcast(x)}; }
inline void store(float* p, Panel a) {
  store(p, a.first);
  store(p + kLanes, a.second);
}
inline Panel operator*(Panel a, Panel b) { return {a.first * b.first, a.second * b.second}; }
inline Panel fma(Panel a, Panel b, Panel c) {
  return {fma(a.first, b.first, c.first), fma(a.second, b.second, c.second)};
}

#endif

// Vectors by their type, for what is computed in both widths.
template <class Vector>
Vector filled(float x);
template <>
inline Floats filled<Floats>(float x) { return broadcast(x); }
template <>
inline Panel filled<Panel>(float x) { return panel_of(x); }

template <class Vector, class T>
Vector load_as(const T* p) {
  if constexpr (std::is_same_v<Vector, Panel>) {
    return load_panel(p);
  } else {
    return load(p);
  }
}

// Weights of four neighbouring inputs for each output: 16 x 4 bytes.
//
// `Sums<Numbers>` is the sum for each output over at most 32 inputs, whose own sum `start` takes;
// `add` takes four weights of each and four inputs as the bytes of one word. All of it is exact.
enum class Numbers {
  kSigned,  // from -128 to 127, in eight bits
  kNibble,  // from 0 to 15, in four
};

template <Numbers numbers>
struct Sums;

#if defined(__AVX512VNNI__)

struct Quads {
  __m512i v;
};
using Words = __m512i;
inline Words all_words(int32_t x) { return _mm512_set1_epi32(x); }
inline Quads load_quads(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline Quads operator&(Quads a, int8_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(mask))};
}
inline Quads operator^(Quads a, int8_t mask) {
  return {_mm512_xor_si512(a.v, _mm512_set1_epi8(mask))};
}
inline Quads shifted_right(Quads a) { return {_mm512_srli_epi16(a.v, 4)}; }
inline Words dot(Words sum, Quads weights, int32_t inputs) {
  return _mm512_dpbusd_epi32(sum, weights.v, _mm512_set1_epi32(inputs));
}
inline Panel to_floats(Words a) { return {_mm512_cvtepi32_ps(a)}; }

#elif defined(__AVX2__)

struct Quads {
  __m256i lo, hi;
};
inline Quads load_quads(const uint8_t* p) {
  const __m256i* from = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
inline Quads operator&(Quads a, int8_t mask) {
  const __m256i all = _mm256_set1_epi8(mask);
  return {_mm256_and_si256(a.lo, all), _mm256_and_si256(a.hi, all)};
}
inline Quads operator^(Quads a, int8_t mask) {
  const __m256i all = _mm256_set1_epi8(mask);
  return {_mm256_xor_si256(a.lo, all), _mm256_xor_si256(a.hi, all)};
}
inline Quads shifted_right(Quads a) {
  return {_mm256_srli_epi16(a.lo, 4), _mm256_srli_epi16(a.hi, 4)};
}
inline Panel to_floats(__m256i lo, __m256i hi) {
  return {{_mm256_cvtepi32_ps(lo)}, {_mm256_cvtepi32_ps(hi)}};
}
#if defined(__AVXVNNI__)
struct Words {
  __m256i lo, hi;
};
inline Words all_words(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Panel to_floats(Words a) { return to_floats(a.lo, a.hi); }
inline Words dot(Words sum, Quads weights, int32_t inputs) {
  const __m256i all = _mm256_set1_epi32(inputs);
  return {_mm256_dpbusd_avx_epi32(sum.lo, weights.lo, all),
          _mm256_dpbusd_avx_epi32(sum.hi, weights.hi, all)};
}
#endif

#endif

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)

// The instruction takes unsigned bytes and signed ones, so the weights are raised by 128, and the
// sums begin at -128 times that of the inputs.
inline Quads load_signed(const uint8_t* p) { return load_quads(p) ^ static_cast<int8_t>(-128); }

template <>
struct Sums<Numbers::kSigned> {
  Words v;
  void start(int32_t input_sum) { v = all_words(-128 * input_sum); }
  void add(Quads weights, int32_t inputs) { v = dot(v, weights, inputs); }
  Panel floats() const { return to_floats(v); }
};

template <>
struct Sums<Numbers::kNibble> {
  Words v;
  void start(int32_t) { v = all_words(0); }
  void add(Quads weights, int32_t inputs) { v = dot(v, weights, inputs); }
  Panel floats() const { return to_floats(v); }
};

#elif defined(__AVX2__)

inline Quads load_signed(const uint8_t* p) { return load_quads(p); }
inline __m256i pairs_added(__m256i words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }

// Sums are two registers here and not one structure, with which GCC 12 makes steps 4 % slower.
template <>
struct Sums<Numbers::kSigned> {
  __m256i lo, hi;
  void start(int32_t) { lo = hi = _mm256_setzero_si256(); }
  void add(Quads weights, int32_t inputs) {
    const __m256i all = _mm256_set1_epi32(inputs);
    lo = _mm256_add_epi32(lo, product(weights.lo, all));
    hi = _mm256_add_epi32(hi, product(weights.hi, all));
  }
  Panel floats() const { return to_floats(lo, hi); }

 private:
  // The instruction takes unsigned bytes and signed ones, so the inputs take on the sign of the
  // weights. Two products of at most 128 x 127 fit 16 bits.
  static __m256i product(__m256i weights, __m256i inputs) {
    return pairs_added(
        _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(inputs, weights)));
  }
};

template <>
struct Sums<Numbers::kNibble> {
  __m256i lo, hi;  // 16 bits, as sixteen products of at most 15 x 127 fit
  void start(int32_t) { lo = hi = _mm256_setzero_si256(); }
  void add(Quads weights, int32_t inputs) {
    const __m256i all = _mm256_set1_epi32(inputs);
    lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(weights.lo, all));
    hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(weights.hi, all));
  }
  Panel floats() const { return to_floats(pairs_added(lo), pairs_added(hi)); }
};

#else

struct Quads {
  int8x16_t v[4];
};
inline Quads load_quads(const uint8_t* p) {
  const int8_t* from = reinterpret_cast<const int8_t*>(p);
  return {{vld1q_s8(from), vld1q_s8(from + 16), vld1q_s8(from + 32), vld1q_s8(from + 48)}};
}
inline Quads load_signed(const uint8_t* p) { return load_quads(p); }
inline Quads operator&(Quads a, int8_t mask) {
  for (int8x16_t& v : a.v) v = vandq_s8(v, vdupq_n_s8(mask));
  return a;
}
inline Quads shifted_right(Quads a) {
  for (int8x16_t& v : a.v) v = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(v), 4));
  return a;
}
inline int32x4_t dot(int32x4_t sum, int8x16_t weights, int8x16_t inputs) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, weights, inputs);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(inputs));
  const int16x8_t high = vmull_s8(vget_high_s8(weights), vget_high_s8(inputs));
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}

template <Numbers numbers>
struct Sums {
  int32x4_t v[4];
  void start(int32_t) {
    for (int32x4_t& each : v) each = vdupq_n_s32(0);
  }
  void add(const Quads& weights, int32_t inputs) {
    const int8x16_t all = vreinterpretq_s8_s32(vdupq_n_s32(inputs));
    for (int i = 0; i < 4; ++i) v[i] = dot(v[i], weights.v[i], all);
  }
  Panel floats() const {
    return {{vcvtq_f32_s32(v[0]), vcvtq_f32_s32(v[1])}, {vcvtq_f32_s32(v[2]), vcvtq_f32_s32(v[3])}};
  }
};

#endif

}  // namespace headrace
