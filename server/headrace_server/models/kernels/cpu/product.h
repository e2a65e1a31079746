// y = x Wᵀ with compressed weights under fp32 activations.
//
// A weight matrix [outputs, inputs] lies in panels of 16 outputs. In a panel the 16 numbers of
// one input are neighbours, so that they fill two vectors, and inputs follow each other.
//
// Every output is one sum over the inputs in rising order, whatever the number of rows: a row's
// result is the same to the bit alone and in any batch.
#pragma once

#include <algorithm>

#include "simd.h"

namespace headrace {

constexpr int kPanel = 2 * kLanes;  // outputs in a panel
constexpr int kGroup = 32;          // inputs that share a scale
constexpr int kSpan = 256;          // inputs whose decoded weights stay in the L1 cache
constexpr int kRows = 6;            // rows of a tile: 12 sums, 2 weights and 1 input are registers
constexpr int kTogether = 2;        // panels of one call

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

// Decoders: `group(g)` starts a group of inputs, `pair(i)` gives the weights of inputs 2 i and
// 2 i + 1 of the group.
struct Pair {
  Floats a0, a1, b0, b1;
};

class Fp16Decoder {
 public:
  Fp16Decoder() = default;
  explicit Fp16Decoder(const uint8_t* panel) : panel_(reinterpret_cast<const half*>(panel)) {}
  void group(int g) { at_ = panel_ + static_cast<int64_t>(g) * kGroup * kPanel; }
  Pair pair(int i) const {
    const half* p = at_ + i * 2 * kPanel;
    return {load(p), load(p + 8), load(p + 16), load(p + 24)};
  }

 private:
  const half* panel_ = nullptr;
  const half* at_ = nullptr;
};

// A group: 16 fp16 scales, then 32 x 16 signed bytes.
class Int8Decoder {
 public:
  Int8Decoder() = default;
  explicit Int8Decoder(const uint8_t* panel) : panel_(panel) {}
  void group(int g) {
    const uint8_t* p = panel_ + static_cast<int64_t>(g) * (kPanel * 2 + kGroup * kPanel);
    scale0_ = load(reinterpret_cast<const half*>(p));
    scale1_ = load(reinterpret_cast<const half*>(p) + 8);
    at_ = reinterpret_cast<const int8_t*>(p + kPanel * 2);
  }
  Pair pair(int i) const {
    const int8_t* p = at_ + i * 2 * kPanel;
    return {load(p) * scale0_, load(p + 8) * scale1_, load(p + 16) * scale0_,
            load(p + 24) * scale1_};
  }

 private:
  const uint8_t* panel_ = nullptr;
  const int8_t* at_ = nullptr;
  Floats scale0_, scale1_;
};

// A group: 16 fp16 scales, 16 fp16 offsets, then 16 x 16 bytes; the low half of a byte belongs to
// the even input. A weight is scale * number + offset: the blocks of GGUF's Q4_1.
class Int4Decoder {
 public:
  Int4Decoder() = default;
  explicit Int4Decoder(const uint8_t* panel) : panel_(panel) {}
  void group(int g) {
    const uint8_t* p = panel_ + static_cast<int64_t>(g) * (kPanel * 4 + kGroup * kPanel / 2);
    const half* scales = reinterpret_cast<const half*>(p);
    scale0_ = load(scales);
    scale1_ = load(scales + 8);
    offset0_ = load(scales + 16);
    offset1_ = load(scales + 24);
    at_ = p + kPanel * 4;
  }
  Pair pair(int i) const {
    const Nibbles nibbles = load_nibbles(at_ + i * kPanel);
    Pair w;
    to_floats(nibbles.low, w.a0, w.a1);
    to_floats(nibbles.high, w.b0, w.b1);
    return {fma(w.a0, scale0_, offset0_), fma(w.a1, scale1_, offset1_),
            fma(w.b0, scale0_, offset0_), fma(w.b1, scale1_, offset1_)};
  }

 private:
  const uint8_t* panel_ = nullptr;
  const uint8_t* at_ = nullptr;
  Floats scale0_, scale1_, offset0_, offset1_;
};

// Sums of `rows` rows with `panels` neighbouring panels, decoding while multiplying. Several
// panels are several independent chains of sums, which is what one row needs to keep the
// multipliers busy. `sums` is [panels, rows, 16].
template <class Decoder, int rows, int panels>
void multiply_few(const uint8_t* data, int64_t bytes_per_panel, int inputs, const float* x,
                  int64_t x_stride, float* sums) {
  Decoder decoders[panels];
  for (int p = 0; p < panels; ++p) decoders[p] = Decoder(data + p * bytes_per_panel);
  Floats acc[panels][rows][2];
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) acc[p][r][0] = acc[p][r][1] = zero();
  }
  for (int g = 0; g < inputs / kGroup; ++g) {
    for (int p = 0; p < panels; ++p) decoders[p].group(g);
    const float* at = x + g * kGroup;
    for (int i = 0; i < kGroup / 2; ++i) {
      for (int p = 0; p < panels; ++p) {
        const Pair w = decoders[p].pair(i);
        for (int r = 0; r < rows; ++r) {
          const Floats input = broadcast(at[r * x_stride + 2 * i]);
          acc[p][r][0] = fma(input, w.a0, acc[p][r][0]);
          acc[p][r][1] = fma(input, w.a1, acc[p][r][1]);
        }
        for (int r = 0; r < rows; ++r) {
          const Floats input = broadcast(at[r * x_stride + 2 * i + 1]);
          acc[p][r][0] = fma(input, w.b0, acc[p][r][0]);
          acc[p][r][1] = fma(input, w.b1, acc[p][r][1]);
        }
      }
    }
  }
  for (int p = 0; p < panels; ++p) {
    for (int r = 0; r < rows; ++r) {
      store(sums + (p * rows + r) * kPanel, acc[p][r][0]);
      store(sums + (p * rows + r) * kPanel + kLanes, acc[p][r][1]);
    }
  }
}

// Adds the products of decoded weights [inputs, 16] to the sums of `rows` rows.
template <int rows>
void multiply_tile(const float* weights, int inputs, const float* x, int64_t x_stride,
                   float* sums) {
  Floats acc[rows][2];
  for (int r = 0; r < rows; ++r) {
    acc[r][0] = load(sums + r * kPanel);
    acc[r][1] = load(sums + r * kPanel + kLanes);
  }
  for (int i = 0; i < inputs; ++i) {
    const Floats w0 = load(weights + i * kPanel);
    const Floats w1 = load(weights + i * kPanel + kLanes);
    for (int r = 0; r < rows; ++r) {
      const Floats input = broadcast(x[r * x_stride + i]);
      acc[r][0] = fma(input, w0, acc[r][0]);
      acc[r][1] = fma(input, w1, acc[r][1]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    store(sums + r * kPanel, acc[r][0]);
    store(sums + r * kPanel + kLanes, acc[r][1]);
  }
}

template <class Decoder>
void multiply_many(const uint8_t* panel, int inputs, const float* x, int64_t x_stride, int rows,
                   float* sums) {
  alignas(64) float decoded[kSpan * kPanel];
  Decoder decoder(panel);
  std::fill(sums, sums + static_cast<int64_t>(rows) * kPanel, 0.0f);
  for (int begin = 0; begin < inputs; begin += kSpan) {
    const int span = std::min(kSpan, inputs - begin);
    float* out = decoded;
    for (int g = 0; g < span / kGroup; ++g) {
      decoder.group(begin / kGroup + g);
      for (int i = 0; i < kGroup / 2; ++i, out += 2 * kPanel) {
        const Pair w = decoder.pair(i);
        store(out, w.a0);
        store(out + 8, w.a1);
        store(out + 16, w.b0);
        store(out + 24, w.b1);
      }
    }
    const float* at = x + begin;
    int row = 0;
    for (; row + kRows <= rows; row += kRows) {
      multiply_tile<kRows>(decoded, span, at + row * x_stride, x_stride, sums + row * kPanel);
    }
    const float* rest = at + row * x_stride;
    float* rest_sums = sums + row * kPanel;
    switch (rows - row) {
      case 1: multiply_tile<1>(decoded, span, rest, x_stride, rest_sums); break;
      case 2: multiply_tile<2>(decoded, span, rest, x_stride, rest_sums); break;
      case 3: multiply_tile<3>(decoded, span, rest, x_stride, rest_sums); break;
      case 4: multiply_tile<4>(decoded, span, rest, x_stride, rest_sums); break;
      case 5: multiply_tile<5>(decoded, span, rest, x_stride, rest_sums); break;
      default: break;
    }
  }
}

template <class Decoder>
void multiply_panels(const uint8_t* data, int64_t stride, int panels, int inputs, const float* x,
                     int64_t x_stride, int rows, float* sums) {
  if (panels == kTogether) {
    if (rows == 1) return multiply_few<Decoder, 1, kTogether>(data, stride, inputs, x, x_stride, sums);
    if (rows == 2) return multiply_few<Decoder, 2, kTogether>(data, stride, inputs, x, x_stride, sums);
  }
  for (int p = 0; p < panels; ++p, data += stride, sums += rows * kPanel) {
    switch (rows) {
      case 1: multiply_few<Decoder, 1, 1>(data, stride, inputs, x, x_stride, sums); break;
      case 2: multiply_few<Decoder, 2, 1>(data, stride, inputs, x, x_stride, sums); break;
      case 3: multiply_few<Decoder, 3, 1>(data, stride, inputs, x, x_stride, sums); break;
      case 4: multiply_few<Decoder, 4, 1>(data, stride, inputs, x, x_stride, sums); break;
      case 5: multiply_few<Decoder, 5, 1>(data, stride, inputs, x, x_stride, sums); break;
      case 6: multiply_few<Decoder, 6, 1>(data, stride, inputs, x, x_stride, sums); break;
      default: multiply_many<Decoder>(data, inputs, x, x_stride, rows, sums); break;
    }
  }
}

// The products of `rows` rows with up to `kTogether` panels, bias included: [panels, rows, 16].
inline void multiply_panels(const Weights& w, int first, int panels, const float* x,
                            int64_t x_stride, int rows, float* sums) {
  const int64_t stride = w.bytes_per_panel;
  const uint8_t* data = w.data + first * stride;
  switch (w.format) {
    case Format::kFp16: multiply_panels<Fp16Decoder>(data, stride, panels, w.inputs, x, x_stride, rows, sums); break;
    case Format::kInt8: multiply_panels<Int8Decoder>(data, stride, panels, w.inputs, x, x_stride, rows, sums); break;
    case Format::kInt4: multiply_panels<Int4Decoder>(data, stride, panels, w.inputs, x, x_stride, rows, sums); break;
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
