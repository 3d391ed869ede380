#include "tests/unit/exec/by_strides.hpp"

#include <cmath>

#include "exec/kernels/convert.hpp"

namespace orrery::test {
namespace {

using cudnn::AttentionOperands;
using cudnn::AttentionShape;
using cudnn::Strided;

/// One call, whose first pair lies `pair` pairs on.
class Call {
 public:
  Call(const AttentionShape& s, const AttentionOperands& o, std::int64_t pair) : s_(s), o_(o), pair_(pair) {}

  void forward() const {
    each_query([&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const std::vector<double> scores = scores_of(b, h, i);
      double sum = 0.0;
      for (const double x : scores) sum += std::exp(x);
      put(o_.row_sums, DType::f32, s_.row_sums(), b, h, i, 0, std::log(sum));
      for (std::int64_t c = 0; c < s_.value; ++c) {
        double out = 0.0;
        for (std::int64_t j = 0; j < s_.keys_length; ++j) out += std::exp(scores[row(j)]) / sum * v(b, j, c);
        put(o_.context, s_.type, s_.context(), b, h, i, c, out);
      }
    });
  }
  void backward() const {
    const auto sums = [&](const Strided& t) { return std::vector<double>(row(count(t)), 0.0); };
    const Strided queries = s_.query_gradients(), keys = s_.keys(), values = s_.values();
    std::vector<double> dq = sums(queries), dk = sums(keys), dv = sums(values);
    each_query([&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const std::vector<double> scores = scores_of(b, h, i);
      const double sum = get(o_.row_sums, DType::f32, s_.row_sums(), b, h, i, 0);
      double dot = 0.0;
      for (std::int64_t c = 0; c < s_.value; ++c) dot += dc(b, h, i, c) * context(b, h, i, c);
      for (std::int64_t j = 0; j < s_.keys_length; ++j) {
        const double p = std::exp(scores[row(j)] - sum);
        double dp = 0.0;
        for (std::int64_t c = 0; c < s_.value; ++c) {
          dp += dc(b, h, i, c) * v(b, j, c);
          dv[place(values, b, 0, j, c)] += p * dc(b, h, i, c);
        }
        const double ds = p * (dp - dot) * s_.scale;
        for (std::int64_t c = 0; c < s_.dim; ++c) {
          dq[place(queries, b, h, i, c)] += ds * k(b, j, c);
          dk[place(keys, b, 0, j, c)] += ds * q(b, h, i, c);
        }
      }
    });
    put_all(o_.dqueries, queries, dq);
    put_all(o_.dkeys, keys, dk);
    put_all(o_.dkeys, values, dv);
  }

 private:
  static std::size_t row(std::int64_t i) { return static_cast<std::size_t>(i); }
  static std::int64_t count(const Strided& t) { return t.size[0] * t.size[1] * t.size[2] * t.size[3]; }
  /// The number of an element among those of the tensor.
  static std::size_t place(const Strided& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    return row(((b * t.size[1] + h) * t.size[2] + i) * t.size[3] + c);
  }
  template <class F>
  void each_query(F f) const {
    for (std::int64_t b = 0; b < s_.pairs; ++b) {
      for (std::int64_t h = 0; h < s_.group; ++h) {
        for (std::int64_t i = 0; i < s_.length; ++i) f(b, h, i);
      }
    }
  }
  [[nodiscard]] std::uint64_t at(const Strided& t, std::int64_t b, std::int64_t h, std::int64_t i,
                                 std::int64_t c) const {
    return static_cast<std::uint64_t>(t.at(b, h, i, c) + pair_ * t.stride[0]);
  }
  [[nodiscard]] double get(const std::byte* x, DType type, const Strided& t, std::int64_t b, std::int64_t h,
                           std::int64_t i, std::int64_t c) const {
    double value = 0.0;
    load_elements(type, x, at(t, b, h, i, c), 1, &value);
    return value;
  }
  void put(std::byte* x, DType type, const Strided& t, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c,
           double value) const {
    store_elements(type, x, at(t, b, h, i, c), 1, &value);
  }
  void put_all(std::byte* x, const Strided& t, const std::vector<double>& values) const {
    for (std::int64_t b = 0; b < t.size[0]; ++b) {
      for (std::int64_t h = 0; h < t.size[1]; ++h) {
        for (std::int64_t i = 0; i < t.size[2]; ++i) {
          for (std::int64_t c = 0; c < t.size[3]; ++c) put(x, s_.type, t, b, h, i, c, values[place(t, b, h, i, c)]);
        }
      }
    }
  }
  [[nodiscard]] double q(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return get(o_.queries, s_.type, s_.queries(), b, h, i, c);
  }
  [[nodiscard]] double k(std::int64_t b, std::int64_t j, std::int64_t c) const {
    return get(o_.keys, s_.type, s_.keys(), b, 0, j, c);
  }
  [[nodiscard]] double v(std::int64_t b, std::int64_t j, std::int64_t c) const {
    return get(o_.keys, s_.type, s_.values(), b, 0, j, c);
  }
  [[nodiscard]] double context(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return get(o_.context, s_.type, s_.context(), b, h, i, c);
  }
  [[nodiscard]] double dc(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return get(o_.dcontext, s_.type, s_.context(), b, h, i, c);
  }
  [[nodiscard]] std::vector<double> scores_of(std::int64_t b, std::int64_t h, std::int64_t i) const {
    std::vector<double> scores(row(s_.keys_length), -INFINITY);
    const std::int64_t diagonal = i + s_.keys_length - s_.length;
    for (std::int64_t j = 0; j < s_.keys_length; ++j) {
      if ((s_.causal && j > diagonal) || (s_.window > 0 && j + s_.window <= diagonal)) continue;
      double product = 0.0;
      for (std::int64_t c = 0; c < s_.dim; ++c) product += q(b, h, i, c) * k(b, j, c);
      scores[row(j)] = product * s_.scale;
    }
    return scores;
  }

  const AttentionShape& s_;
  const AttentionOperands& o_;
  std::int64_t pair_;
};

}  // namespace

void attend_by_strides(const AttentionShape& s, const AttentionOperands& o) {
  for (std::int64_t call = 0; call < s.calls(); ++call) {
    const Call one(s, o, call * s.pairs);
    s.backward ? one.backward() : one.forward();
  }
}

}  // namespace orrery::test
