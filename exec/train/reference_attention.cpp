#include "exec/train/reference_attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery {

HeadColumns columns_of(const ModelSpec& m, std::uint64_t head) {
  const std::uint64_t shared = m.heads / m.kv_heads;
  const std::uint64_t key = key_width(m);
  const std::uint64_t group = (head / shared) * ((shared + 1) * key + value_width(m));
  return {group + head % shared * key, group + shared * key, group + (shared + 1) * key};
}

namespace {

/// How fast scores fall with distance, by head (Press et al., 2022): a geometric sequence from 2^(-8 / n) for n heads,
/// a power of two; other numbers of heads go on with every second one of twice as many.
std::vector<double> slopes(std::uint64_t heads) {
  std::uint64_t n = 1;
  while (2 * n <= heads) n *= 2;
  std::vector<double> out;
  for (std::uint64_t i = 1; i <= n; ++i)
    out.push_back(std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(n)));
  if (n == heads) return out;
  const std::vector<double> twice = slopes(2 * n);
  for (std::size_t i = 0; out.size() < heads; i += 2) out.push_back(twice[i]);
  return out;
}

double scale_of(const ModelSpec& m) {
  return m.attention_scale > 0.0 ? m.attention_scale : 1.0 / std::sqrt(static_cast<double>(key_width(m)));
}

/// One head: P[query, key], 0 for keys that are not seen; what the cap's derivative is there; the sink's share of each
/// row.
struct Head {
  Matrix probabilities, cap_derivative;
  std::vector<double> sink_share;
};

Head head_of(const ModelSpec& m, const AttentionOf& of, const Matrix& qkv, std::uint64_t head) {
  const HeadColumns at = columns_of(m, head);
  const double slope = m.positions == PositionEncoding::alibi ? slopes(m.heads)[head] : 0.0;
  Head out{Matrix(qkv.rows, qkv.rows), Matrix(qkv.rows, qkv.rows), std::vector<double>(qkv.rows, 0.0)};
  Matrix& p = out.probabilities;
  for (std::uint64_t i = 0; i < qkv.rows; ++i) {
    double largest = of.sinks != nullptr ? of.sinks->values[head] : -HUGE_VAL;
    for (std::uint64_t j = 0; j < qkv.rows; ++j) {
      if (!sees(m, of.layer, i, j)) continue;
      for (std::uint64_t f = 0; f < key_width(m); ++f) p(i, j) += qkv(i, at.query + f) * qkv(j, at.key + f);
      p(i, j) *= scale_of(m);
      out.cap_derivative(i, j) = 1.0;
      if (m.attention_softcap > 0.0) {
        const double bounded = std::tanh(p(i, j) / m.attention_softcap);
        p(i, j) = m.attention_softcap * bounded;
        out.cap_derivative(i, j) = 1.0 - bounded * bounded;
      }
      p(i, j) -= slope * (static_cast<double>(i) - static_cast<double>(j));
      largest = std::max(largest, p(i, j));
    }
    double sum = of.sinks != nullptr ? std::exp(of.sinks->values[head] - largest) : 0.0;
    out.sink_share[i] = sum;
    for (std::uint64_t j = 0; j < qkv.rows; ++j) {
      if (sees(m, of.layer, i, j)) sum += (p(i, j) = std::exp(p(i, j) - largest));
    }
    for (std::uint64_t j = 0; j < qkv.rows; ++j) p(i, j) /= sum;
    out.sink_share[i] /= sum;
  }
  return out;
}

double probability_dropout(const ModelSpec& m, const AttentionOf& of, std::uint64_t head, std::uint64_t length,
                           std::uint64_t query, std::uint64_t key) {
  return dropout_factor(of.dropout, ((of.sequence * m.heads + head) * length + query) * length + key);
}

}  // namespace

bool sees(const ModelSpec& m, std::uint64_t layer, std::uint64_t query, std::uint64_t key) {
  if (!is_causal(m)) return true;
  if (key > query) return false;
  if (!is_local(m, layer)) return true;
  const std::uint64_t size = m.local->size;
  return m.local->span == LocalAttention::Span::window ? query - key < size : query / size == key / size;
}

Matrix attention_forward(const ModelSpec& m, const AttentionOf& of, const Matrix& qkv) {
  const std::uint64_t width = value_width(m);
  Matrix context(qkv.rows, m.heads * width);
  for (std::uint64_t head = 0; head < m.heads; ++head) {
    const HeadColumns at = columns_of(m, head);
    const Head h = head_of(m, of, qkv, head);
    for (std::uint64_t i = 0; i < qkv.rows; ++i) {
      for (std::uint64_t j = 0; j < qkv.rows; ++j) {
        if (!sees(m, of.layer, i, j)) continue;
        const double kept = h.probabilities(i, j) * probability_dropout(m, of, head, qkv.rows, i, j);
        for (std::uint64_t f = 0; f < width; ++f) context(i, head * width + f) += kept * qkv(j, at.value + f);
      }
    }
  }
  return context;
}

Matrix attention_backward(const ModelSpec& m, const AttentionOf& of, const Matrix& dcontext, const Matrix& qkv,
                          const Matrix& context, Matrix* dsinks, double& largest,
                          const std::function<double(double)>& stored) {
  const std::uint64_t width = value_width(m);
  Matrix dqkv(qkv.rows, qkv.columns);
  for (std::uint64_t head = 0; head < m.heads; ++head) {
    const HeadColumns at = columns_of(m, head);
    Head h = head_of(m, of, qkv, head);
    Matrix& p = h.probabilities;
    if (stored) {
      for (double& x : p.values) x = stored(x);
    }
    for (std::uint64_t i = 0; i < qkv.rows; ++i) {
      // dP through value and dropout; dS = P (dP - sum_j dP P). The sink has no value: its dP is 0.
      std::vector<double> dp(qkv.rows, 0.0);
      double weighted = 0.0;
      for (std::uint64_t j = 0; j < qkv.rows; ++j) {
        if (!sees(m, of.layer, i, j)) continue;
        const double factor = probability_dropout(m, of, head, qkv.rows, i, j);
        for (std::uint64_t f = 0; f < width; ++f) {
          const double dc = dcontext(i, head * width + f);
          dp[j] += dc * qkv(j, at.value + f) * factor;
          dqkv(j, at.value + f) += p(i, j) * factor * dc;
        }
        weighted += dp[j] * p(i, j);
        largest = std::max(largest, std::abs(dp[j]));
      }
      // sum_j dP P, by the context: C = P v after dropout.
      for (std::uint64_t f = head * width; dsinks != nullptr && f < (head + 1) * width; ++f) {
        dsinks->values[head] -= h.sink_share[i] * dcontext(i, f) * context(i, f);
      }
      for (std::uint64_t j = 0; j < qkv.rows; ++j) {
        if (!sees(m, of.layer, i, j)) continue;
        const double ds = p(i, j) * (dp[j] - weighted) * h.cap_derivative(i, j);
        largest = std::max(largest, std::abs(ds));
        for (std::uint64_t f = 0; f < key_width(m); ++f) {
          dqkv(i, at.query + f) += ds * scale_of(m) * qkv(j, at.key + f);
          dqkv(j, at.key + f) += ds * scale_of(m) * qkv(i, at.query + f);
        }
      }
    }
  }
  return dqkv;
}

}  // namespace orrery
