// Eight floats at a time, on every instruction set that the kernels are built for.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#else
#error "no kernels for this instruction set"
#endif

namespace headrace {

constexpr int kLanes = 8;

using half = uint16_t;

#if defined(__AVX2__)

struct Floats {
  __m256 v;
};

inline Floats zero() { return {_mm256_setzero_ps()}; }
inline Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline Floats load(const half* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline void store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
inline void store(half* p, Floats a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
inline Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Floats round(Floats a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for whole n from -126 to 127.
inline Floats power_of_two(Floats n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
}
inline Floats absolute(Floats a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
// Whole numbers from -128 to 127.
inline void store_bytes(int8_t* p, Floats a) {
  const __m256i wide = _mm256_cvtps_epi32(a.v);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

#else

struct Floats {
  float32x4_t lo, hi;
};

inline Floats zero() { return {vdupq_n_f32(0), vdupq_n_f32(0)}; }
inline Floats broadcast(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
inline Floats load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline Floats load(const half* p) {
  const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
  return {vcvt_f32_f16(vget_low_f16(h)), vcvt_f32_f16(vget_high_f16(h))};
}
inline void store(float* p, Floats a) {
  vst1q_f32(p, a.lo);
  vst1q_f32(p + 4, a.hi);
}
inline void store(half* p, Floats a) {
  vst1q_u16(p, vreinterpretq_u16_f16(vcombine_f16(vcvt_f16_f32(a.lo), vcvt_f16_f32(a.hi))));
}
inline Floats operator+(Floats a, Floats b) { return {vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)}; }
inline Floats operator-(Floats a, Floats b) { return {vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)}; }
inline Floats operator*(Floats a, Floats b) { return {vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)}; }
inline Floats operator/(Floats a, Floats b) { return {vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)}; }
inline Floats fma(Floats a, Floats b, Floats c) {
  return {vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}
inline Floats max(Floats a, Floats b) { return {vmaxq_f32(a.lo, b.lo), vmaxq_f32(a.hi, b.hi)}; }
inline Floats min(Floats a, Floats b) { return {vminq_f32(a.lo, b.lo), vminq_f32(a.hi, b.hi)}; }
inline Floats round(Floats a) { return {vrndnq_f32(a.lo), vrndnq_f32(a.hi)}; }
inline float32x4_t power_of_two(float32x4_t n) {
  const int32x4_t biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(biased, 23));
}
inline Floats power_of_two(Floats n) { return {power_of_two(n.lo), power_of_two(n.hi)}; }
inline Floats absolute(Floats a) { return {vabsq_f32(a.lo), vabsq_f32(a.hi)}; }
inline void store_bytes(int8_t* p, Floats a) {
  const int16x8_t words =
      vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.lo)), vmovn_s32(vcvtnq_s32_f32(a.hi)));
  vst1_s8(p, vmovn_s16(words));
}

#endif

// The lanes are added in one fixed order.
inline float sum(Floats a) {
  float x[kLanes];
  store(x, a);
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

inline float largest(Floats a) {
  float x[kLanes];
  store(x, a);
  float result = x[0];
  for (int i = 1; i < kLanes; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// e^x to about 1 unit in the last place; 0 below -87, so that masked scores vanish. NaN stays.
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial for e^r (its coefficients are the
// Taylor series' to degree 7, which is enough on so short an interval).
inline Floats exp(Floats x) {
  const Floats least = broadcast(-87.0f);
  // The second operand is what comes out where one is NaN.
  const Floats bounded = min(broadcast(88.0f), max(least, x));
  const Floats n = round(bounded * broadcast(1.44269504088896341f));
  Floats r = fma(n, broadcast(-0.693359375f), bounded);
  r = fma(n, broadcast(2.12194440e-4f), r);
  Floats p = broadcast(1.0f / 5040);
  p = fma(p, r, broadcast(1.0f / 720));
  p = fma(p, r, broadcast(1.0f / 120));
  p = fma(p, r, broadcast(1.0f / 24));
  p = fma(p, r, broadcast(1.0f / 6));
  p = fma(p, r, broadcast(0.5f));
  p = fma(p, r, broadcast(1.0f));
  p = fma(p, r, broadcast(1.0f));
  const Floats result = p * power_of_two(n);
#if defined(__AVX2__)
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.v, least.v, _CMP_LT_OQ), result.v)};
#else
  const auto keep = [](float32x4_t value, float32x4_t input, float32x4_t bound) {
    return vreinterpretq_f32_u32(
        vbicq_u32(vreinterpretq_u32_f32(value), vcltq_f32(input, bound)));
  };
  return {keep(result.lo, x.lo, least.lo), keep(result.hi, x.hi, least.hi)};
#endif
}

}  // namespace headrace
