// The fused operations of a decoder's step on a CPU; called from operations/fused_cpu.py; the
// structures of library.py mirror those here.
//
// Each is one parallel region: a pool of threads is woken five times per layer and not thirty.
// Work is cut by panels of weights or by heads, never within a sum.
#include <vector>

#include "attention.h"
#include "product.h"
#include "threads.h"

namespace headrace {
namespace {

// What a row of `x` is multiplied by before its weights.
float norm_factor(const float* x, float epsilon, int width) {
  Floats squares = zero();
  for (int i = 0; i < width; i += kLanes) {
    const Floats v = load(x + i);
    squares = fma(v, v, squares);
  }
  return 1.0f / std::sqrt(sum(squares) / width + epsilon);
}

void normalise(float* x, const float* weight, float epsilon, int width) {
  const Floats factor = broadcast(norm_factor(x, epsilon, width));
  for (int i = 0; i < width; i += kLanes) store(x + i, load(x + i) * factor * load(weight + i));
}

// Writes row `row` of a product with `w`: input i and the seven after it are `values(i)`.
template <class Values>
void write_row(const Weights& w, int64_t row, Values values, void* workspace) {
  if (w.format == Format::kFp16) {
    float* to = static_cast<float*>(workspace) + row * w.inputs;
    for (int i = 0; i < w.inputs; i += kLanes) store(to + i, values(i));
    return;
  }
  InputGroup* to = static_cast<InputGroup*>(workspace) + row * (w.inputs / kGroup);
  for (int i = 0; i < w.inputs; i += kGroup, ++to) {
    const Floats x[] = {values(i), values(i + 8), values(i + 16), values(i + 24)};
    round_group(x, to);
  }
}

Floats silu(Floats x) { return x / (broadcast(1.0f) + exp(zero() - x)); }

// Takes its share of the panels of `w` and hands each output of the product to
// `finish(row, output, y)`.
template <class Finish>
void multiply(const Weights& w, Inputs x, int rows, Shares& shares, Finish finish) {
  float* const sums = scratch(static_cast<size_t>(rows) * kTogether * kPanel);
  for (Range part; shares.take(kTogether, &part);) {
    const int panels = part.end - part.begin;
    multiply_panels(w, part.begin, panels, x, rows, sums);
    const float* panel = sums;
    for (int p = 0; p < panels; ++p) {
      const int first = (part.begin + p) * kPanel;
      const int width = std::min(kPanel, w.outputs - first);
      for (int r = 0; r < rows; ++r, panel += kPanel) {
        for (int i = 0; i < width; ++i) finish(r, first + i, panel[i]);
      }
    }
  }
}

}  // namespace
}  // namespace headrace

using namespace headrace;

extern "C" {

// Raised with every change of a structure or a signature below.
int32_t headrace_interface_version() { return 2; }

struct Norm {
  const float* weight;
  float epsilon;
};

// `rotations` is [tokens, head_dim / 2] pairs of cosine and sine. `half` says whether the cache
// holds fp16 or fp32.
struct Projection {
  Norm input_norm;
  Norm query_norm;  // weight null where there is none
  Norm key_norm;
  Weights qkv;
};

struct KvLayer {
  void* keys;
  void* values;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t block_size;
  int32_t half;
};

}  // extern "C"

namespace headrace {
namespace {

void rotate(float* head, const float* rotations, int head_dim) {
  for (int i = 0; i < head_dim; i += 2) {
    const float a = head[i], b = head[i + 1], cosine = rotations[i], sine = rotations[i + 1];
    head[i] = a * cosine - b * sine;
    head[i + 1] = a * sine + b * cosine;
  }
}

template <class T>
Cache<T> cache_of(const KvLayer& layer) {
  return {static_cast<T*>(layer.keys), static_cast<T*>(layer.values), layer.kv_heads,
          layer.head_dim, layer.block_size};
}

inline void put(float x, float* at) { *at = x; }
inline void put(float x, half* at) {
#if defined(__AVX2__)
  *at = static_cast<half>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
#else
  const __fp16 narrow = static_cast<__fp16>(x);
  std::memcpy(at, &narrow, sizeof *at);
#endif
}

template <class T>
void store_token(const float* keys, const float* values, const Cache<T>& cache, int64_t slot) {
  const int64_t block = slot / cache.block_size;
  const int at = static_cast<int>(slot % cache.block_size);
  for (int h = 0; h < cache.kv_heads; ++h) {
    T* key = cache.keys + cache.offset(block, h) + at;
    T* value = cache.values + cache.offset(block, h) + static_cast<int64_t>(at) * cache.head_dim;
    for (int d = 0; d < cache.head_dim; ++d) put(keys[h * cache.head_dim + d], key + d * cache.block_size);
    for (int d = 0; d < cache.head_dim; d += kLanes) store(value + d, load(values + h * cache.head_dim + d));
  }
}

// Makes row r of a product with `w` of row `source(r)` of `x`, normalised; each thread does a
// part, and all rows are there after it.
template <class Source>
Inputs normalised_rows(const float* x, const Norm& norm, const Weights& w, int rows, Source source,
                       void* workspace) {
  const Range part = my_part(rows);
  for (uint32_t r = part.begin; r < part.end; ++r) {
    const float* from = x + source(r) * w.inputs;
    const Floats factor = broadcast(norm_factor(from, norm.epsilon, w.inputs));
    write_row(w, r, [&](int i) { return load(from + i) * factor * load(norm.weight + i); },
              workspace);
  }
#pragma omp barrier
  return {workspace};
}

// The same of rows as they are.
Inputs plain_rows(const float* x, const Weights& w, int rows, void* workspace) {
  if (w.format == Format::kFp16) return {x};
  const Range part = my_part(rows);
  for (uint32_t r = part.begin; r < part.end; ++r) {
    const float* from = x + static_cast<int64_t>(r) * w.inputs;
    write_row(w, r, [&](int i) { return load(from + i); }, workspace);
  }
#pragma omp barrier
  return {workspace};
}

int64_t same_row(int row) { return row; }

// A tile of a step's tokens: `count` neighbours from `first` on.
struct TokenTile {
  int first;
  int count;
};

// Cuts tokens into neighbouring positions of one row, at most `most` (a power of two) and never
// across a multiple of it: what a position is computed with must not depend on a later block.
std::vector<TokenTile> cut_tokens(int tokens, const int32_t* positions, const int32_t* rows,
                                  int most) {
  std::vector<TokenTile> tiles;
  for (int token = 0; token < tokens; ++token) {
    const bool continues = token > 0 && rows[token] == rows[token - 1] &&
                           positions[token] == positions[token - 1] + 1 &&
                           positions[token] % most != 0;
    if (continues) {
      ++tiles.back().count;
    } else {
      tiles.push_back({token, 1});
    }
  }
  return tiles;
}

int largest_power_of_two(int at_most) {
  int power = 1;
  while (2 * power <= at_most) power *= 2;
  return power;
}

// Attends for the tokens of a tile with the query heads of one KV head.
template <class T>
void attend_tile(const float* queries, const Cache<T>& cache, int heads, int kv_head,
                 QueryTile tile, const int32_t* blocks, int window, float scale,
                 const TileMemory& memory, float* out) {
  const int shared = heads / cache.kv_heads;
  const int head_dim = cache.head_dim;
  const int64_t width = static_cast<int64_t>(heads) * head_dim;
  for (int first = 0; first < shared; first += kQueryRows) {
    tile.heads = std::min(kQueryRows, shared - first);
    const int64_t at = static_cast<int64_t>(kv_head * shared + first) * head_dim;
    const int row_floats = tile.heads * head_dim;
    for (int p = 0; p < tile.positions; ++p) {
      const float* from = queries + p * width + at;
      std::copy(from, from + row_floats, memory.queries + p * row_floats);
    }
    with_rows<kQueryRows>(tile.rows(), [&](auto rows) {
      attend<rows.value>(tile, cache, kv_head, blocks, window, scale, memory);
    });
    for (int p = 0; p < tile.positions; ++p) {
      const float* from = memory.sums + p * row_floats;
      std::copy(from, from + row_floats, out + p * width + at);
    }
  }
}

template <class T>
void attend_tokens(const float* queries, const KvLayer& layer, int heads, int tokens,
                   const int32_t* positions, const int32_t* token_rows,
                   const int32_t* block_tables, int table_width, int window, float scale,
                   float* out) {
  const Cache<T> cache = cache_of<T>(layer);
  const int64_t width = static_cast<int64_t>(heads) * cache.head_dim;
  const int64_t stride = static_cast<int64_t>(table_width) * cache.block_size;
  const int most = std::min(largest_power_of_two(kQueryRows / (heads / cache.kv_heads)), 8);
  const std::vector<TokenTile> tiles = cut_tokens(tokens, positions, token_rows, most);
  const int count = static_cast<int>(tiles.size());
#pragma omp parallel
  {
    const TileMemory memory(scratch(TileMemory::floats(cache.head_dim, stride)), cache.head_dim,
                            stride);
    // Contexts differ in length, so the threads take what is next; a KV head of neighbours stays.
#pragma omp for schedule(dynamic, 1)
    for (int item = 0; item < count * cache.kv_heads; ++item) {
      const TokenTile& tile = tiles[item % count];
      attend_tile(queries + tile.first * width, cache, heads, item / count,
                  {positions[tile.first], tile.count, 0},
                  block_tables + static_cast<int64_t>(token_rows[tile.first]) * table_width,
                  window, scale, memory, out + tile.first * width);
    }
  }
}

}  // namespace
}  // namespace headrace

extern "C" {

// `workspace` is memory for the inputs of a product: as many floats as the rows have inputs.

// queries [tokens, heads * head_dim] from hidden [tokens, inputs]; keys and values go to `slots`.
void headrace_project_and_store(const float* hidden, int32_t tokens, const Projection* projection,
                                const float* rotations, const int64_t* slots, const KvLayer* layer,
                                void* workspace, float* projected, float* queries) {
  const Weights& w = projection->qkv;
  const int head_dim = layer->head_dim;
  const int kv_width = layer->kv_heads * head_dim;
  const int query_width = w.outputs - 2 * kv_width;
  Shares shares(panel_count(w));
#pragma omp parallel
  {
    const Inputs x =
        normalised_rows(hidden, projection->input_norm, w, tokens, same_row, workspace);
    multiply(w, x, tokens, shares, [&](int row, int output, float y) {
      projected[static_cast<int64_t>(row) * w.outputs + output] = y;
    });
#pragma omp barrier
#pragma omp for schedule(static)
    for (int token = 0; token < tokens; ++token) {
      float* heads = projected + static_cast<int64_t>(token) * w.outputs;
      const float* turns = rotations + static_cast<int64_t>(token) * head_dim;
      for (int at = 0; at < query_width + kv_width; at += head_dim) {
        const Norm& norm = at < query_width ? projection->query_norm : projection->key_norm;
        if (norm.weight) normalise(heads + at, norm.weight, norm.epsilon, head_dim);
        rotate(heads + at, turns, head_dim);
      }
      std::copy(heads, heads + query_width, queries + static_cast<int64_t>(token) * query_width);
      const float* keys = heads + query_width;
      if (layer->half) {
        store_token(keys, keys + kv_width, cache_of<half>(*layer), slots[token]);
      } else {
        store_token(keys, keys + kv_width, cache_of<float>(*layer), slots[token]);
      }
    }
  }
}

// out [tokens, heads * head_dim]. `token_rows` names the row of `block_tables`
// [rows, table_width] of each token; a window of 0 has no limit.
void headrace_attend(const float* queries, const KvLayer* layer, int32_t heads, int32_t tokens,
                     const int32_t* positions, const int32_t* token_rows,
                     const int32_t* block_tables, int32_t table_width, int32_t window, float scale,
                     float* out) {
  if (layer->half) {
    attend_tokens<half>(queries, *layer, heads, tokens, positions, token_rows, block_tables,
                        table_width, window, scale, out);
  } else {
    attend_tokens<float>(queries, *layer, heads, tokens, positions, token_rows, block_tables,
                         table_width, window, scale, out);
  }
}

// hidden [rows, outputs] += x [rows, inputs] Wᵀ.
void headrace_add_product(float* hidden, const float* x, int32_t rows, const Weights* weights,
                          void* workspace) {
  const Weights& w = *weights;
  Shares shares(panel_count(w));
#pragma omp parallel
  {
    const Inputs inputs = plain_rows(x, w, rows, workspace);
    multiply(w, inputs, rows, shares, [&](int row, int output, float y) {
      hidden[static_cast<int64_t>(row) * w.outputs + output] += y;
    });
  }
}

// gated [rows, outputs] = silu(gate(norm(hidden))) * up(norm(hidden)); outputs fill their panels.
void headrace_gate(const float* hidden, int32_t rows, const Norm* norm, const Weights* gate,
                   const Weights* up, void* workspace, float* gated) {
  const Weights& w = *gate;
  Shares shares(panel_count(w));
#pragma omp parallel
  {
    const Inputs x = normalised_rows(hidden, *norm, w, rows, same_row, workspace);
    const size_t floats = static_cast<size_t>(rows) * kTogether * kPanel;
    float* sums = scratch(2 * floats);
    float* up_sums = sums + floats;
    for (Range part; shares.take(kTogether, &part);) {
      const int panels = part.end - part.begin;
      multiply_panels(*gate, part.begin, panels, x, rows, sums);
      multiply_panels(*up, part.begin, panels, x, rows, up_sums);
      for (int p = 0; p < panels; ++p) {
        for (int r = 0; r < rows; ++r) {
          const int64_t from = (static_cast<int64_t>(p) * rows + r) * kPanel;
          float* to = gated + static_cast<int64_t>(r) * w.outputs + (part.begin + p) * kPanel;
          for (int i = 0; i < kPanel; i += kLanes) {
            store(to + i, silu(load(sums + from + i)) * load(up_sums + from + i));
          }
        }
      }
    }
  }
}

// logits [rows, outputs] = head(norm(hidden)) of the tokens at `indices`.
void headrace_head(const float* hidden, const int64_t* indices, int32_t rows, const Norm* norm,
                   const Weights* head, void* workspace, float* logits) {
  const Weights& w = *head;
  Shares shares(panel_count(w));
#pragma omp parallel
  {
    const Inputs x = normalised_rows(
        hidden, *norm, w, rows, [&](int row) { return indices[row]; }, workspace);
    multiply(w, x, rows, shares, [&](int row, int output, float y) {
      logits[static_cast<int64_t>(row) * w.outputs + output] = y;
    });
  }
}

}  // extern "C"
