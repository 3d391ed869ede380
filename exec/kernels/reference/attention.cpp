#include <cmath>
#include <vector>

#include "exec/kernels/convert.hpp"
#include "exec/kernels/reference/reference_kernels.hpp"

namespace orrery::reference {
namespace {

/// The index arithmetic of the packed layout, and the probabilities of one head.
class Head {
 public:
  Head(const Kernel& k, const std::vector<double>& qkv, std::uint64_t sequence, std::uint64_t head,
       const std::vector<double>& sinks)
      : k_(k), qkv_(qkv), sequence_(sequence), head_(head), group_(k.heads / k.kv_heads) {
    const std::uint64_t s = length();
    probabilities.assign(s * s, 0.0);
    cap_derivatives.assign(s * s, 1.0);
    sink_shares.assign(s, 0.0);
    for (std::uint64_t i = 0; i < s; ++i) {
      double total = sinks.empty() ? 0.0 : sink_shares[i] = std::exp(sinks[head]);
      for (std::uint64_t j = 0; j < s; ++j) {
        if (!sees(i, j)) continue;
        double score = 0.0;
        for (std::uint64_t c = 0; c < k.head_dim; ++c) score += qkv_[query(i, c)] * qkv_[key(j, c)];
        score *= scale();
        if (k.softcap > 0.0) {
          const double t = std::tanh(score / k.softcap);
          score = k.softcap * t;
          cap_derivatives[i * s + j] = 1.0 - t * t;
        }
        if (k.options.alibi) score += slope() * (static_cast<double>(j) - static_cast<double>(i));
        total += probabilities[i * s + j] = std::exp(score);
      }
      sink_shares[i] /= total;
      for (std::uint64_t j = 0; j < s; ++j) probabilities[i * s + j] /= total;
    }
  }

  [[nodiscard]] std::uint64_t length() const { return k_.rows / k_.batch; }
  [[nodiscard]] bool sees(std::uint64_t query, std::uint64_t key) const {
    if (k_.options.causal && key > query) return false;
    if (k_.window == 0) return true;
    return k_.options.chunked ? key / k_.window == query / k_.window : key + k_.window > query;
  }
  [[nodiscard]] double scale() const {
    return k_.scale > 0.0 ? k_.scale : 1.0 / std::sqrt(static_cast<double>(k_.head_dim));
  }
  /// ALiBi's, for numbers of heads that are powers of two.
  [[nodiscard]] double slope() const { return std::pow(2.0, -8.0 * static_cast<double>(head_ + 1) / k_.heads); }
  [[nodiscard]] std::uint64_t query(std::uint64_t position, std::uint64_t c) const {
    return at(position, head_ % group_, c);
  }
  [[nodiscard]] std::uint64_t key(std::uint64_t position, std::uint64_t c) const { return at(position, group_, c); }
  [[nodiscard]] std::uint64_t value(std::uint64_t position, std::uint64_t c) const {
    return at(position, group_ + 1, c);
  }
  [[nodiscard]] std::uint64_t context(std::uint64_t position, std::uint64_t c) const {
    return ((position * k_.batch + sequence_) * k_.heads + head_) * k_.head_dim + c;
  }

  std::vector<double> probabilities;    // [query, key]
  std::vector<double> cap_derivatives;  // [query, key]
  std::vector<double> sink_shares;      // [query]

 private:
  [[nodiscard]] std::uint64_t at(std::uint64_t position, std::uint64_t member, std::uint64_t c) const {
    const std::uint64_t row = position * k_.batch + sequence_;
    return ((row * k_.kv_heads + head_ / group_) * (group_ + 2) + member) * k_.head_dim + c;
  }

  const Kernel& k_;
  const std::vector<double>& qkv_;
  std::uint64_t sequence_;
  std::uint64_t head_;
  std::uint64_t group_;
};

std::vector<double> loaded(const Operand& x) {
  std::vector<double> values(x.count);
  load_elements(x.dtype, x.data, 0, x.count, values.data());
  return values;
}

}  // namespace

void attention_forward(const Kernel& k, const Operand& qkv, const Operand& context, const std::vector<double>& sinks) {
  const std::vector<double> x = loaded(qkv);
  std::vector<double> out(context.count, 0.0);
  for (std::uint64_t sequence = 0; sequence < k.batch; ++sequence) {
    for (std::uint64_t head = 0; head < k.heads; ++head) {
      const Head h(k, x, sequence, head, sinks);
      const std::uint64_t s = h.length();
      for (std::uint64_t i = 0; i < s; ++i) {
        for (std::uint64_t j = 0; j < s; ++j) {
          for (std::uint64_t c = 0; c < k.head_dim; ++c) {
            out[h.context(i, c)] += h.probabilities[i * s + j] * x[h.value(j, c)];
          }
        }
      }
    }
  }
  store_elements(context.dtype, context.data, 0, context.count, out.data());
}

std::vector<double> attention_backward(const Kernel& k, const Operand& dcontext, const Operand& qkv,
                                       const Operand& dqkv, const std::vector<double>& sinks) {
  std::vector<double> dsinks(sinks.size(), 0.0);
  const std::vector<double> x = loaded(qkv);
  const std::vector<double> dy = loaded(dcontext);
  std::vector<double> dx(dqkv.count, 0.0);
  for (std::uint64_t sequence = 0; sequence < k.batch; ++sequence) {
    for (std::uint64_t head = 0; head < k.heads; ++head) {
      const Head h(k, x, sequence, head, sinks);
      const std::uint64_t s = h.length();
      for (std::uint64_t i = 0; i < s; ++i) {
        std::vector<double> dp(s, 0.0);
        double mean = 0.0;  // of dp under the probabilities
        for (std::uint64_t j = 0; j < s; ++j) {
          for (std::uint64_t c = 0; c < k.head_dim; ++c) {
            dp[j] += dy[h.context(i, c)] * x[h.value(j, c)];
            dx[h.value(j, c)] += h.probabilities[i * s + j] * dy[h.context(i, c)];
          }
          mean += dp[j] * h.probabilities[i * s + j];
        }
        if (!sinks.empty()) dsinks[head] -= h.sink_shares[i] * mean;
        for (std::uint64_t j = 0; j < s; ++j) {
          const double dscore = h.probabilities[i * s + j] * (dp[j] - mean) * h.cap_derivatives[i * s + j] * h.scale();
          for (std::uint64_t c = 0; c < k.head_dim; ++c) {
            dx[h.query(i, c)] += dscore * x[h.key(j, c)];
            dx[h.key(j, c)] += dscore * x[h.query(i, c)];
          }
        }
      }
    }
  }
  store_elements(dqkv.dtype, dqkv.data, 0, dqkv.count, dx.data());
  return dsinks;
}

}  // namespace orrery::reference
