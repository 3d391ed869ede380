#include "exec/train/dynamic_codes.hpp"

#include <algorithm>
#include <cmath>

#include "exec/train/matrix.hpp"

namespace orrery {

std::vector<double> dynamic_values(bool squares) {
  std::vector<double> list{0.0, 1.0};
  for (int decade = 0; decade < 7; ++decade) {
    const int parts = 1 << (decade + (squares ? 1 : 0));
    const double top = std::pow(10.0, decade - 6);
    for (int j = 0; j < parts; ++j) {
      const double low = 0.1 + 0.9 * j / parts, high = 0.1 + 0.9 * (j + 1) / parts;
      const double middle = rounded(top * (low + high) / 2.0, DType::f32);
      list.push_back(middle);
      if (!squares) list.push_back(-middle);
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

void round_to_dynamic_values(std::vector<double>& values, bool squares, std::size_t block) {
  const std::vector<double> list = dynamic_values(squares);
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    double most = 0.0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(values[i]));
    const double scale = rounded(most, DType::f32);
    for (std::size_t i = first; i < end; ++i) {
      if (scale == 0.0) {
        values[i] = 0.0;
        continue;
      }
      const double x = values[i] / scale;
      const auto above = std::lower_bound(list.begin(), list.end(), x);
      const double high = above == list.end() ? list.back() : *above;
      const double low = above == list.begin() ? list.front() : *std::prev(above);
      values[i] = scale * (high - x < x - low ? high : low);
    }
  }
}

}  // namespace orrery
