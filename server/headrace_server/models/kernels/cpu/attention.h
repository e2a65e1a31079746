// Attention of a few query rows over one paged context, read in place.
//
// The keys of a block lie [head_dim, block_size], so that the scores of eight or sixteen tokens
// are one vector; the values lie [block_size, head_dim]. The query heads that share a KV head are
// computed together, in prompts those of neighbouring positions too. The arithmetic for a query
// depends on its own context only: it is the same to the bit in a prompt, in a part of one, and
// while decoding.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "panel.h"
#include "rows.h"

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

#if defined(__AVX512F__)
constexpr int kQueryRows = 12;  // sums that are registers together
#else
constexpr int kQueryRows = 6;
#endif

constexpr int kValueBlocks = 16;  // whose values stay in the L1 cache while heads are gone through

// Heads and neighbouring positions that meet one KV head: row r is head r % heads of the
// position first_position + r / heads.
struct QueryTile {
  int first_position;
  int positions;
  int heads;

  int rows() const { return positions * heads; }
  int position(int row) const { return first_position + row / heads; }
  int last_position() const { return first_position + positions - 1; }
};

// What a tile is computed in; rows are those of the tile.
struct TileMemory {
  float* queries;  // [rows, head_dim]
  float* sums;     // [rows, head_dim]
  float* scores;   // [rows, stride]
  int64_t stride;  // at least the context, rounded up to whole blocks

  static size_t floats(int head_dim, int64_t stride) {
    return static_cast<size_t>(kQueryRows) * (2 * head_dim + stride);
  }
  TileMemory(float* memory, int head_dim, int64_t stride)
      : queries(memory),
        sums(memory + kQueryRows * head_dim),
        scores(memory + 2 * kQueryRows * head_dim),
        stride(stride) {}
};

// Scores of the rows with a vector of tokens of a block.
template <class Vector, int rows, class T>
void score(const TileMemory& memory, const T* keys, int head_dim, int block_size, float scale,
           float* scores) {
  Vector acc[rows];
  for (Vector& each : acc) each = filled<Vector>(0);
  Rows<rows> queries(memory.queries, head_dim);
  for (int d = 0; d < head_dim; ++d, queries.advance()) {
    const Vector key = load_as<Vector>(keys + d * block_size);
    for (int r = 0; r < rows; ++r) acc[r] = fma(filled<Vector>(queries[r]), key, acc[r]);
  }
  for (int r = 0; r < rows; ++r) store(scores + r * memory.stride, acc[r] * filled<Vector>(scale));
}

// Adds the values of the first `tokens` of the blocks, weighted, to a vector at `d` of all rows'
// sums.
template <class Vector, int rows, class T>
void add_values(const TileMemory& memory, const float* weights, const Cache<T>& cache, int kv_head,
                const int32_t* blocks, int tokens, int d) {
  Vector acc[rows];
  float* sums = memory.sums + d;
  for (int r = 0; r < rows; ++r) acc[r] = load_as<Vector>(sums + r * cache.head_dim);
  Rows<rows> weight(weights, memory.stride);
  const T* values = nullptr;
  // One loop over tokens and not two: compilers keep the sums in memory within the inner one.
  for (int left = 0; tokens > 0; --tokens, --left) {
    if (left == 0) {
      values = cache.values + cache.offset(*blocks++, kv_head) + d;
      left = cache.block_size;
    }
    const Vector value = load_as<Vector>(values);
    for (int r = 0; r < rows; ++r) acc[r] = fma(filled<Vector>(weight[r]), value, acc[r]);
    weight.advance();
    values += cache.head_dim;
  }
  for (int r = 0; r < rows; ++r) store(sums + r * cache.head_dim, acc[r]);
}

// Calls `work(vector type, at)` until `size`, a multiple of 8, is covered.
template <class Work>
void for_each_vector(int size, Work work) {
  int at = 0;
  for (; at + kPanel <= size; at += kPanel) work(Panel(), at);
  if (at < size) work(Floats(), at);
}

// Softmax weights of scores [begin, end), unscaled; what is outside becomes 0. Returns their sum.
inline float exponentiate(float* scores, int begin, int end, int padded_end) {
  const float hidden = -std::numeric_limits<float>::infinity();
  std::fill(scores, scores + begin, hidden);
  std::fill(scores + end, scores + padded_end, hidden);
  Floats top = load(scores);
  for (int t = 0; t < padded_end; t += kLanes) top = max(load(scores + t), top);
  const Floats shift = broadcast(largest(top));
  Floats total = zero();
  for (int t = 0; t < padded_end; t += kLanes) {
    const Floats weight = exp(load(scores + t) - shift);
    store(scores + t, weight);
    total = total + weight;
  }
  return sum(total);
}

// Turns `memory.queries` into `memory.sums`. A window of 0 has no limit.
template <int rows, class T>
void attend(const QueryTile& tile, const Cache<T>& cache, int kv_head, const int32_t* blocks,
            int window, float scale, const TileMemory& memory) {
  const int size = cache.block_size;
  const auto begin_of = [&](int position) { return window > 0 ? std::max(0, position + 1 - window) : 0; };
  const int first_block = begin_of(tile.first_position) / size;
  const int last_block = tile.last_position() / size;
  const int base = first_block * size;
  for (int b = first_block; b <= last_block; ++b) {
    const T* keys = cache.keys + cache.offset(blocks[b], kv_head);
    for_each_vector(size, [&](auto vector, int t) {
      score<decltype(vector), rows>(memory, keys + t, cache.head_dim, size, scale,
                                    memory.scores + b * size - base + t);
    });
  }
  float totals[rows];
  for (int r = 0; r < rows; ++r) {
    const int position = tile.position(r);
    totals[r] = exponentiate(memory.scores + r * memory.stride, begin_of(position) - base,
                             position + 1 - base, (last_block + 1) * size - base);
  }
  std::fill(memory.sums, memory.sums + rows * cache.head_dim, 0.0f);
  for (int b = first_block; b <= last_block; b += kValueBlocks) {
    // Behind the last position lies what an earlier owner of the block left.
    const int tokens = std::min(kValueBlocks * size, tile.last_position() + 1 - b * size);
    for_each_vector(cache.head_dim, [&](auto vector, int d) {
      add_values<decltype(vector), rows>(memory, memory.scores + b * size - base, cache, kv_head,
                                         blocks + b, tokens, d);
    });
  }
  for (int r = 0; r < rows; ++r) {
    float* sums = memory.sums + r * cache.head_dim;
    const Floats inverse = broadcast(1.0f / totals[r]);
    for (int d = 0; d < cache.head_dim; d += kLanes) store(sums + d, load(sums + d) * inverse);
  }
}

}  // namespace headrace
