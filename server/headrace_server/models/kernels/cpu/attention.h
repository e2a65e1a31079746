// Attention of one query position over a paged context, read in place.
//
// The keys of a block lie [head_dim, block_size], so that the scores of eight tokens are one
// vector; the values lie [block_size, head_dim]. The arithmetic for a query depends on its own
// context only: it is the same to the bit in a prompt, in a part of one, and while decoding.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.h"

namespace headrace {

// The KV cache of one layer: keys [blocks, kv_heads, head_dim, block_size] and
// values [blocks, kv_heads, block_size, head_dim].
template <class T>
struct Cache {
  T* keys;
  T* values;
  int32_t kv_heads;
  int32_t head_dim;    // a multiple of 8
  int32_t block_size;  // a multiple of 8

  int64_t head_elements() const { return static_cast<int64_t>(head_dim) * block_size; }
  int64_t offset(int64_t block, int head) const {
    return (block * kv_heads + head) * head_elements();
  }
};

constexpr int kMaxShared = 4;   // query heads computed together
constexpr int kValueLanes = 3;  // vectors of a head computed together: 4 x 3 sums are registers

// Scores of `shared` query heads, [shared, stride], for `lanes` vectors of tokens.
template <class T, int shared, int lanes>
void score(const float* queries, const T* keys, int head_dim, int block_size, Floats scale,
           float* scores, int64_t stride) {
  Floats acc[shared][lanes];
  for (int h = 0; h < shared; ++h) {
    for (int l = 0; l < lanes; ++l) acc[h][l] = zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    Floats key[lanes];
    for (int l = 0; l < lanes; ++l) key[l] = load(keys + d * block_size + l * kLanes);
    for (int h = 0; h < shared; ++h) {
      const Floats query = broadcast(queries[h * head_dim + d]);
      for (int l = 0; l < lanes; ++l) acc[h][l] = fma(query, key[l], acc[h][l]);
    }
  }
  for (int h = 0; h < shared; ++h) {
    for (int l = 0; l < lanes; ++l) store(scores + h * stride + l * kLanes, acc[h][l] * scale);
  }
}

template <class T, int shared>
void score_block(const float* queries, const T* keys, int head_dim, int block_size, Floats scale,
                 float* scores, int64_t stride) {
  int t = 0;
  for (; t + 2 * kLanes <= block_size; t += 2 * kLanes) {
    score<T, shared, 2>(queries, keys + t, head_dim, block_size, scale, scores + t, stride);
  }
  if (t < block_size) {
    score<T, shared, 1>(queries, keys + t, head_dim, block_size, scale, scores + t, stride);
  }
}

// Adds the values of a block, weighted, to `lanes` vectors of `shared` heads.
template <class T, int shared, int lanes>
void add_values(const float* weights, int64_t stride, const T* values, int tokens, int head_dim,
                float* out) {
  Floats acc[shared][lanes];
  for (int h = 0; h < shared; ++h) {
    for (int l = 0; l < lanes; ++l) acc[h][l] = load(out + h * head_dim + l * kLanes);
  }
  for (int t = 0; t < tokens; ++t) {
    Floats value[lanes];
    for (int l = 0; l < lanes; ++l) value[l] = load(values + t * head_dim + l * kLanes);
    for (int h = 0; h < shared; ++h) {
      const Floats weight = broadcast(weights[h * stride + t]);
      for (int l = 0; l < lanes; ++l) acc[h][l] = fma(weight, value[l], acc[h][l]);
    }
  }
  for (int h = 0; h < shared; ++h) {
    for (int l = 0; l < lanes; ++l) store(out + h * head_dim + l * kLanes, acc[h][l]);
  }
}

// Softmax weights of scores [begin, end), unscaled; what is outside becomes 0. Returns their sum.
inline float exponentiate(float* scores, int padded_begin, int begin, int end, int padded_end) {
  const float hidden = -std::numeric_limits<float>::infinity();
  std::fill(scores + padded_begin, scores + begin, hidden);
  std::fill(scores + end, scores + padded_end, hidden);
  Floats top = load(scores + padded_begin);
  for (int t = padded_begin; t < padded_end; t += kLanes) top = max(load(scores + t), top);
  const Floats shift = broadcast(largest(top));
  Floats total = zero();
  for (int t = padded_begin; t < padded_end; t += kLanes) {
    const Floats weight = exp(load(scores + t) - shift);
    store(scores + t, weight);
    total = total + weight;
  }
  return sum(total);
}

// Attends for the `shared` query heads, [shared, head_dim], of one KV head at `position`.
//
// `scores` is working memory for `shared` times `stride` floats, `stride` at least the context
// rounded up to whole blocks. A window of 0 has no limit.
template <class T, int shared>
void attend(const float* queries, const Cache<T>& cache, int kv_head, const int32_t* blocks,
            int position, int window, float scale, float* scores, int64_t stride, float* out) {
  const int size = cache.block_size;
  const int end = position + 1;
  const int begin = window > 0 ? std::max(0, end - window) : 0;
  const int first_block = begin / size;
  const int last_block = position / size;
  const int64_t base = static_cast<int64_t>(first_block) * size;
  const Floats scales = broadcast(scale);
  for (int b = first_block; b <= last_block; ++b) {
    const T* keys = cache.keys + cache.offset(blocks[b], kv_head);
    score_block<T, shared>(queries, keys, cache.head_dim, size, scales,
                           scores + static_cast<int64_t>(b) * size - base, stride);
  }
  const int padded = (last_block - first_block + 1) * size;
  float totals[shared];
  for (int h = 0; h < shared; ++h) {
    totals[h] = exponentiate(scores + h * stride, 0, static_cast<int>(begin - base),
                             static_cast<int>(end - base), padded);
  }
  std::fill(out, out + shared * cache.head_dim, 0.0f);
  for (int b = first_block; b <= last_block; ++b) {
    const T* values = cache.values + cache.offset(blocks[b], kv_head);
    const int64_t at = static_cast<int64_t>(b) * size - base;
    // Behind the query's own position lies what an earlier owner of the block left.
    const int tokens = std::min(size, end - b * size);
    int d = 0;
    for (; d + kValueLanes * kLanes <= cache.head_dim; d += kValueLanes * kLanes) {
      add_values<T, shared, kValueLanes>(scores + at, stride, values + d, tokens, cache.head_dim,
                                         out + d);
    }
    for (; d < cache.head_dim; d += kLanes) {
      add_values<T, shared, 1>(scores + at, stride, values + d, tokens, cache.head_dim, out + d);
    }
  }
  for (int h = 0; h < shared; ++h) {
    const Floats inverse = broadcast(1.0f / totals[h]);
    for (int d = 0; d < cache.head_dim; d += kLanes) {
      store(out + h * cache.head_dim + d, load(out + h * cache.head_dim + d) * inverse);
    }
  }
}

template <class T>
void attend(const float* queries, const Cache<T>& cache, int heads, int kv_head,
            const int32_t* blocks, int position, int window, float scale, float* scores,
            int64_t stride, float* out) {
  while (heads > 0) {
    const int shared = std::min(heads, kMaxShared);
    switch (shared) {
      case 1: attend<T, 1>(queries, cache, kv_head, blocks, position, window, scale, scores, stride, out); break;
      case 2: attend<T, 2>(queries, cache, kv_head, blocks, position, window, scale, scores, stride, out); break;
      case 3: attend<T, 3>(queries, cache, kv_head, blocks, position, window, scale, scores, stride, out); break;
      default: attend<T, 4>(queries, cache, kv_head, blocks, position, window, scale, scores, stride, out); break;
    }
    heads -= shared;
    queries += shared * cache.head_dim;
    out += shared * cache.head_dim;
  }
}

}  // namespace headrace
