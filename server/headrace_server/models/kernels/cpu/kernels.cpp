// The fused operations of a decoder's step on a CPU; called from operations/cpu.py, whose
// structures mirror those here.
//
// Each is one parallel region: a pool of threads is woken five times per layer and not thirty.
// Work is cut by panels of weights or by heads, never within a sum.
#include <omp.h>

#include <cstdlib>
#include <memory>

#include "attention.h"
#include "product.h"

namespace headrace {
namespace {

// Working memory of the calling thread, kept between calls.
float* scratch(size_t floats) {
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
  int begin, end;
};

// The thread's own part of `count` pieces, always the same for the same thread.
Range my_part(int count) {
  const int threads = omp_get_num_threads();
  const int me = omp_get_thread_num();
  return {static_cast<int>(static_cast<int64_t>(count) * me / threads),
          static_cast<int>(static_cast<int64_t>(count) * (me + 1) / threads)};
}

void normalise(const float* x, const float* weight, float epsilon, int width, float* out) {
  Floats squares = zero();
  for (int i = 0; i < width; i += kLanes) {
    const Floats v = load(x + i);
    squares = fma(v, v, squares);
  }
  const Floats factor = broadcast(1.0f / std::sqrt(sum(squares) / width + epsilon));
  for (int i = 0; i < width; i += kLanes) store(out + i, load(x + i) * factor * load(weight + i));
}

Floats silu(Floats x) { return x / (broadcast(1.0f) + exp(zero() - x)); }

// Multiplies the panels of the calling thread and hands each to
// `finish(first output, sums [rows, 16], width)`. `sums` holds `kTogether` panels.
template <class Finish>
void multiply(const Weights& w, const float* x, int rows, float* sums, Finish finish) {
  const Range part = my_part(panel_count(w));
  for (int first = part.begin; first < part.end; first += kTogether) {
    const int panels = std::min(kTogether, part.end - first);
    multiply_panels(w, first, panels, x, w.inputs, rows, sums);
    for (int p = 0; p < panels; ++p) {
      const int output = (first + p) * kPanel;
      finish(output, sums + static_cast<int64_t>(p) * rows * kPanel, std::min(kPanel, w.outputs - output));
    }
  }
}

template <class Finish>
void for_each_output(int rows, const float* sums, int width, Finish finish) {
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) finish(r, i, sums[r * kPanel + i]);
  }
}

}  // namespace
}  // namespace headrace

using namespace headrace;

extern "C" {

// Raised with every change of a structure or a signature below.
int32_t headrace_interface_version() { return 1; }

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

// Normalises all rows, each thread a part; all are there after it.
void normalise_rows(const float* x, const Norm& norm, int rows, int width, float* out) {
  const Range part = my_part(rows);
  for (int r = part.begin; r < part.end; ++r) {
    normalise(x + static_cast<int64_t>(r) * width, norm.weight, norm.epsilon, width,
              out + static_cast<int64_t>(r) * width);
  }
#pragma omp barrier
}

template <class T>
void attend_rows(const float* queries, const KvLayer& layer, int heads, int tokens,
                 const int32_t* positions, const int32_t* token_rows, const int32_t* block_tables,
                 int table_width, int window, float scale, float* out) {
  const Cache<T> cache = cache_of<T>(layer);
  const int shared = heads / cache.kv_heads;
  const int64_t width = static_cast<int64_t>(heads) * cache.head_dim;
  const int64_t stride = static_cast<int64_t>(table_width) * cache.block_size;
#pragma omp parallel
  {
    float* scores = scratch(static_cast<size_t>(kMaxShared) * stride);
    // Tokens differ in length, so the threads take what is next; a KV head of neighbours stays.
#pragma omp for schedule(dynamic, 4)
    for (int item = 0; item < tokens * cache.kv_heads; ++item) {
      const int token = item % tokens;
      const int kv_head = item / tokens;
      const int64_t at = token * width + static_cast<int64_t>(kv_head) * shared * cache.head_dim;
      attend<T>(queries + at, cache, shared, kv_head,
                block_tables + static_cast<int64_t>(token_rows[token]) * table_width,
                positions[token], window, scale, scores, stride, out + at);
    }
  }
}

}  // namespace
}  // namespace headrace

extern "C" {

// queries [tokens, heads * head_dim] from hidden [tokens, inputs]; keys and values go to `slots`.
void headrace_project_and_store(const float* hidden, int32_t tokens, const Projection* projection,
                                const float* rotations, const int64_t* slots, const KvLayer* layer,
                                float* normed, float* projected, float* queries) {
  const Weights& w = projection->qkv;
  const int head_dim = layer->head_dim;
  const int kv_width = layer->kv_heads * head_dim;
  const int query_width = w.outputs - 2 * kv_width;
#pragma omp parallel
  {
    normalise_rows(hidden, projection->input_norm, tokens, w.inputs, normed);
    float* sums = scratch(static_cast<size_t>(tokens) * kTogether * kPanel);
    multiply(w, normed, tokens, sums, [&](int first, const float* result, int width) {
      for_each_output(tokens, result, width, [&](int row, int i, float y) {
        projected[static_cast<int64_t>(row) * w.outputs + first + i] = y;
      });
    });
#pragma omp barrier
#pragma omp for schedule(static)
    for (int token = 0; token < tokens; ++token) {
      float* heads = projected + static_cast<int64_t>(token) * w.outputs;
      const float* turns = rotations + static_cast<int64_t>(token) * head_dim;
      for (int at = 0; at < query_width + kv_width; at += head_dim) {
        const Norm& norm = at < query_width ? projection->query_norm : projection->key_norm;
        if (norm.weight) normalise(heads + at, norm.weight, norm.epsilon, head_dim, heads + at);
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
    attend_rows<half>(queries, *layer, heads, tokens, positions, token_rows, block_tables,
                      table_width, window, scale, out);
  } else {
    attend_rows<float>(queries, *layer, heads, tokens, positions, token_rows, block_tables,
                       table_width, window, scale, out);
  }
}

// hidden [rows, outputs] += x [rows, inputs] Wᵀ.
void headrace_add_product(float* hidden, const float* x, int32_t rows, const Weights* weights) {
  const Weights& w = *weights;
#pragma omp parallel
  {
    float* sums = scratch(static_cast<size_t>(rows) * kTogether * kPanel);
    multiply(w, x, rows, sums, [&](int first, const float* result, int width) {
      for_each_output(rows, result, width, [&](int row, int i, float y) {
        hidden[static_cast<int64_t>(row) * w.outputs + first + i] += y;
      });
    });
  }
}

// gated [rows, outputs] = silu(gate(norm(hidden))) * up(norm(hidden)); outputs fill their panels.
void headrace_gate(const float* hidden, int32_t rows, const Norm* norm, const Weights* gate,
                   const Weights* up, float* normed, float* gated) {
  const Weights& w = *gate;
#pragma omp parallel
  {
    normalise_rows(hidden, *norm, rows, w.inputs, normed);
    const size_t floats = static_cast<size_t>(rows) * kTogether * kPanel;
    float* sums = scratch(2 * floats);
    float* up_sums = sums + floats;
    const Range part = my_part(panel_count(w));
    for (int first = part.begin; first < part.end; first += kTogether) {
      const int panels = std::min(kTogether, part.end - first);
      multiply_panels(*gate, first, panels, normed, w.inputs, rows, sums);
      multiply_panels(*up, first, panels, normed, w.inputs, rows, up_sums);
      for (int p = 0; p < panels; ++p) {
        for (int r = 0; r < rows; ++r) {
          const int64_t from = (static_cast<int64_t>(p) * rows + r) * kPanel;
          float* to = gated + static_cast<int64_t>(r) * w.outputs + (first + p) * kPanel;
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
                   const Weights* head, float* normed, float* logits) {
  const Weights& w = *head;
#pragma omp parallel
  {
    const Range part = my_part(rows);
    for (int r = part.begin; r < part.end; ++r) {
      normalise(hidden + indices[r] * w.inputs, norm->weight, norm->epsilon, w.inputs,
                normed + static_cast<int64_t>(r) * w.inputs);
    }
#pragma omp barrier
    float* sums = scratch(static_cast<size_t>(rows) * kTogether * kPanel);
    multiply(w, normed, rows, sums, [&](int first, const float* result, int width) {
      for_each_output(rows, result, width, [&](int row, int i, float y) {
        logits[static_cast<int64_t>(row) * w.outputs + first + i] = y;
      });
    });
  }
}

}  // extern "C"
