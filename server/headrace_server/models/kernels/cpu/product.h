// y = x Wᵀ with compressed weights.
//
// A weight matrix [outputs, inputs] lies in panels of 16 outputs. fp16 weights are decoded and
// multiplied with fp32 inputs; those in eight and four bits are multiplied as they are with inputs
// that are rounded to eight bits, in groups of 32 that share a scale.
//
// Every output is one sum over the inputs, or over the groups, in rising order, whatever the
// number of rows: a row's result is the same to the bit alone and in any batch.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "panel.h"
#include "rows.h"

namespace headrace {

constexpr int kGroup = 32;           // inputs that share a scale
constexpr int kSteps = kGroup / 8;   // of eight inputs
constexpr float kNothing = 1e-30f;   // inputs below it count as zero: their inverse has no float

// Rows whose sums are registers together: of floats, and of bytes.
#if defined(__AVX512F__)
constexpr int kFloatRows = 16;
constexpr int kByteRows = 8;
#else
constexpr int kFloatRows = 6;
constexpr int kByteRows = 4;
#endif

enum class Format : int32_t { kFp16 = 0, kInt8 = 1, kInt4 = 2 };

// `bytes_per_panel` is the distance between panels.
struct Weights {
  const uint8_t* data;
  const float* bias;  // [outputs] or null
  int64_t bytes_per_panel;
  int32_t outputs;
  int32_t inputs;
  Format format;
};

// 32 inputs, each about `scale` times its number.
struct InputGroup {
  int8_t numbers[kGroup];
  float scale;
  float sum;  // of the scaled numbers
  int32_t number_sum;
};

// The rows that a matrix is multiplied with, as its format wants them.
struct Inputs {
  const void* rows;

  const float* floats() const { return static_cast<const float*>(rows); }  // [rows, inputs]
  const InputGroup* groups() const { return static_cast<const InputGroup*>(rows); }  // [rows, inputs / 32]
};

inline int32_t four(const int8_t* numbers) {
  int32_t word;
  std::memcpy(&word, numbers, sizeof word);
  return word;
}

// Rounds the 32 floats of `x` to eight bits. NaN and infinity make the whole group NaN.
inline void round_group(const Floats (&x)[kGroup / kLanes], InputGroup* out) {
  Floats top = zero(), spoilt = zero();
  for (const Floats& v : x) {
    top = max(absolute(v), top);
    spoilt = fma(v, zero(), spoilt);
  }
  float most = largest(top);
  if (most < kNothing) most = 0;
  const Floats inverse = broadcast(most > 0 ? 127.0f / most : 0.0f);
  Floats total = zero();
  for (int i = 0; i < kGroup / kLanes; ++i) {
    const Floats number = round(x[i] * inverse);
    store_bytes(out->numbers + i * kLanes, number);
    total = total + number;
  }
  const float number_sum = sum(total);
  out->scale = most / 127.0f + sum(spoilt);
  out->sum = out->scale * number_sum;
  // NaN is no whole number; the scale spoils what is made of any.
  out->number_sum = std::isnan(out->sum) ? 0 : static_cast<int32_t>(number_sum);
}

// A group of a panel in eight bits: 16 fp16 scales, then 8 x 16 x 4 signed numbers.
struct Int8Group {
  static constexpr Numbers kNumbers = Numbers::kSigned;
  static constexpr bool kHasOffsets = false;
  static constexpr int kBytes = kPanel * 2 + kPanel * kGroup;

  const uint8_t* at;
  Panel scales() const { return load_panel(reinterpret_cast<const half*>(at)); }
  Panel offsets() const { return panel_of(0); }
  // Weights of eight inputs from 8 `step` on.
  std::pair<Quads, Quads> eight(int step) const {
    const uint8_t* p = at + kPanel * 2 + step * kPanel * 8;
    return {load_signed(p), load_signed(p + kPanel * 4)};
  }
};

// A group of a panel in four bits: 16 fp16 scales, 16 fp16 offsets, then 4 x 16 x 4 bytes; the
// low halves of 64 bytes belong to the first four of eight inputs. A weight is scale * number +
// offset: the blocks of GGUF's Q4_1.
struct Int4Group {
  static constexpr Numbers kNumbers = Numbers::kNibble;
  static constexpr bool kHasOffsets = true;
  static constexpr int kBytes = kPanel * 4 + kPanel * kGroup / 2;

  const uint8_t* at;
  Panel scales() const { return load_panel(reinterpret_cast<const half*>(at)); }
  Panel offsets() const { return load_panel(reinterpret_cast<const half*>(at) + kPanel); }
  std::pair<Quads, Quads> eight(int step) const {
    const Quads both = load_quads(at + kPanel * 4 + step * kPanel * 4);
    return {both & 15, shifted_right(both) & 15};
  }
};

// Has bytes of the panel to come brought into the L2 cache: with several rows there is time for it
// while this panel is multiplied. There may be none to come.
template <int bytes>
void read_ahead(const void* next) {
  const char* line = static_cast<const char*>(next);
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(line + i, 0, 2);
}

// Sums of `rows` rows with a panel, [rows, 16]. `stride` is in groups.
template <class Group, int rows>
void multiply_groups(const uint8_t* panel, int groups, const InputGroup* x, int64_t stride,
                     float* sums) {
  const int64_t panel_bytes = static_cast<int64_t>(groups) * Group::kBytes;
  Panel acc[rows];
  for (Panel& each : acc) each = panel_of(0);
  for (int g = 0; g < groups; ++g, ++x, panel += Group::kBytes) {
    const Group group{panel};
    read_ahead<Group::kBytes>(panel + panel_bytes);
    Sums<Group::kNumbers> numbers[rows];
    for (int r = 0; r < rows; ++r) numbers[r].start(x[r * stride].number_sum);
    for (int step = 0; step < kSteps; ++step) {
      const auto [first, second] = group.eight(step);
      for (int r = 0; r < rows; ++r) {
        const int8_t* inputs = x[r * stride].numbers + 8 * step;
        numbers[r].add(first, four(inputs));
        numbers[r].add(second, four(inputs + 4));
      }
    }
    const Panel scales = group.scales();
    for (int r = 0; r < rows; ++r) {
      acc[r] = fma(numbers[r].floats() * panel_of(x[r * stride].scale), scales, acc[r]);
    }
    if (Group::kHasOffsets) {
      const Panel offsets = group.offsets();
      for (int r = 0; r < rows; ++r) acc[r] = fma(panel_of(x[r * stride].sum), offsets, acc[r]);
    }
  }
  for (int r = 0; r < rows; ++r) store(sums + r * kPanel, acc[r]);
}

// Sums of `rows` rows with `panels` neighbouring panels of fp16, [panels, rows, 16], decoding
// while multiplying.
template <int rows, int panels>
void multiply_halves(const uint8_t* data, int64_t bytes_per_panel, int inputs, const float* x,
                     float* sums) {
  const half* at[panels];
  for (int p = 0; p < panels; ++p) {
    at[p] = reinterpret_cast<const half*>(data + p * bytes_per_panel);
  }
  Panel acc[panels][rows];
  for (int p = 0; p < panels; ++p) {
    for (Panel& each : acc[p]) each = panel_of(0);
  }
  Rows<rows> row(x, inputs);
  for (int i = 0; i < inputs; ++i, row.advance()) {
    for (int p = 0; p < panels; ++p) {
      const half* here = at[p] + static_cast<int64_t>(i) * kPanel;
      if (rows > 1) read_ahead<1>(here + inputs * kPanel);
      const Panel weights = load_panel(here);
      for (int r = 0; r < rows; ++r) acc[p][r] = fma(panel_of(row[r]), weights, acc[p][r]);
    }
  }
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) store(sums + (p * rows + r) * kPanel, acc[p][r]);
  }
}

constexpr int kTogether = 4;  // panels of one call

inline void multiply_halves(const uint8_t* data, int64_t stride, int panels, int inputs,
                            const float* x, int rows, float* sums) {
  // Several panels are several chains of sums, which is what one row needs to keep the multipliers
  // and the memory busy.
  if (rows == 1 && panels == kTogether) {
    return multiply_halves<1, kTogether>(data, stride, inputs, x, sums);
  }
  for (int p = 0; p < panels; ++p, data += stride, sums += rows * kPanel) {
    for_each_tile<kFloatRows>(rows, [&](int row, auto count) {
      multiply_halves<count.value, 1>(data, stride, inputs, x + static_cast<int64_t>(row) * inputs,
                                      sums + row * kPanel);
    });
  }
}

template <class Group>
void multiply_bytes(const uint8_t* data, int64_t stride, int panels, int groups,
                    const InputGroup* x, int rows, float* sums) {
  for (int p = 0; p < panels; ++p, data += stride, sums += rows * kPanel) {
    for_each_tile<kByteRows>(rows, [&](int row, auto count) {
      multiply_groups<Group, count.value>(data, groups, x + static_cast<int64_t>(row) * groups,
                                          groups, sums + row * kPanel);
    });
  }
}

// The products of `rows` rows with up to `kTogether` panels, bias included: [panels, rows, 16].
inline void multiply_panels(const Weights& w, int first, int panels, Inputs x, int rows,
                            float* sums) {
  const int64_t stride = w.bytes_per_panel;
  const uint8_t* data = w.data + first * stride;
  const int groups = w.inputs / kGroup;
  switch (w.format) {
    case Format::kFp16: multiply_halves(data, stride, panels, w.inputs, x.floats(), rows, sums); break;
    case Format::kInt8: multiply_bytes<Int8Group>(data, stride, panels, groups, x.groups(), rows, sums); break;
    case Format::kInt4: multiply_bytes<Int4Group>(data, stride, panels, groups, x.groups(), rows, sums); break;
  }
  if (w.bias == nullptr) return;
  for (int p = 0; p < panels; ++p) {
    const float* bias = w.bias + (first + p) * kPanel;
    const int width = std::min(kPanel, w.outputs - (first + p) * kPanel);
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < width; ++i) sums[(p * rows + r) * kPanel + i] += bias[i];
    }
  }
}

inline int panel_count(const Weights& w) { return (w.outputs + kPanel - 1) / kPanel; }

}  // namespace headrace
