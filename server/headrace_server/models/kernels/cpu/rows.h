// Rows of floats that are computed together, so that what is loaded for one serves all.
#pragma once

#include <cstdint>
#include <type_traits>

namespace headrace {

// The same place in each of `rows` rows, `stride` floats apart.
template <int rows>
class Rows {
 public:
  Rows(const float* first, int64_t stride) : stride_(stride) {
    for (int r = 0; r < rows; r += 4) every_fourth_[r / 4] = first + r * stride;
  }
  float operator[](int row) const { return every_fourth_[row / 4][row % 4 * stride_]; }
  void advance() {
    for (const float*& row : every_fourth_) {
      ++row;
      // Keeps the compiler from making a pointer to each row: they do not fit the registers.
      asm("" : "+r"(row));
    }
  }

 private:
  const float* every_fourth_[(rows + 3) / 4];
  int64_t stride_;
};

// Calls `work(std::integral_constant<int, rows>)` for `rows` from 1 to `most`.
template <int most, class Work>
void with_rows(int rows, Work work) {
  if constexpr (most > 0) {
    if (rows == most) return work(std::integral_constant<int, most>());
    with_rows<most - 1>(rows, work);
  }
}

// Cuts `rows` into as few tiles of at most `most` rows as there can be, all nearly equal, since
// small ones leave units idle: `work(first row, constant number of rows)`.
template <int most, class Work>
void for_each_tile(int rows, Work work) {
  const int tiles = (rows + most - 1) / most;
  for (int tile = 0, row = 0; tile < tiles; ++tile) {
    const int end = static_cast<int>(static_cast<int64_t>(rows) * (tile + 1) / tiles);
    with_rows<most>(end - row, [&](auto count) { work(row, count); });
    row = end;
  }
}

}  // namespace headrace
