#include "exec/train/reference_functions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/random.hpp"
#include "exec/train/reference_attention.hpp"

namespace orrery {
namespace {

/// Mean (0 for rms) and 1 / deviation of one row.
struct RowStatistics {
  double mean = 0.0;
  double inverse = 0.0;
};

RowStatistics statistics(Norm norm, double epsilon, const Matrix& x, std::uint64_t row) {
  const auto n = static_cast<double>(x.columns);
  double mean = 0.0;
  if (norm == Norm::layer_norm) {
    for (std::uint64_t j = 0; j < x.columns; ++j) mean += x(row, j) / n;
  }
  double square = 0.0;
  for (std::uint64_t j = 0; j < x.columns; ++j) square += (x(row, j) - mean) * (x(row, j) - mean) / n;
  return {mean, 1.0 / std::sqrt(square + epsilon)};
}

}  // namespace

double dropout_factor(const DropoutKey& key, std::uint64_t element) {
  if (key.rate == 0.0) return 1.0;
  const std::uint64_t stream = mix(key.step) ^ mix(1000 * key.site + key.layer + 1);
  return random_uniform(key.seed, stream, element) >= key.rate ? 1.0 / (1.0 - key.rate) : 0.0;
}

Matrix norm_forward(Norm norm, double epsilon, const Matrix& x, const Matrix& gamma, const Matrix* beta) {
  Matrix y(x.rows, x.columns);
  for (std::uint64_t i = 0; i < x.rows; ++i) {
    const RowStatistics row = statistics(norm, epsilon, x, i);
    for (std::uint64_t j = 0; j < x.columns; ++j) {
      y(i, j) = (x(i, j) - row.mean) * row.inverse * gamma.values[j] + (beta != nullptr ? beta->values[j] : 0.0);
    }
  }
  return y;
}

Matrix norm_backward(Norm norm, double epsilon, const Matrix& dy, const Matrix& x, const Matrix& gamma, Matrix& dgamma,
                     Matrix* dbeta) {
  // With z = (x - mean) / deviation and g = dy * gamma:
  //   dx = (g - mean(g) - z mean(g z)) / deviation, without mean(g) for rms.
  const auto n = static_cast<double>(x.columns);
  Matrix dx(x.rows, x.columns);
  for (std::uint64_t i = 0; i < x.rows; ++i) {
    const RowStatistics row = statistics(norm, epsilon, x, i);
    double mean_g = 0.0;
    double mean_gz = 0.0;
    for (std::uint64_t j = 0; j < x.columns; ++j) {
      const double z = (x(i, j) - row.mean) * row.inverse;
      const double g = dy(i, j) * gamma.values[j];
      mean_g += g / n;
      mean_gz += g * z / n;
      dgamma.values[j] += dy(i, j) * z;
      if (dbeta != nullptr) dbeta->values[j] += dy(i, j);
    }
    if (norm == Norm::rms_norm) mean_g = 0.0;
    for (std::uint64_t j = 0; j < x.columns; ++j) {
      const double z = (x(i, j) - row.mean) * row.inverse;
      dx(i, j) = (dy(i, j) * gamma.values[j] - mean_g - z * mean_gz) * row.inverse;
    }
  }
  return dx;
}

namespace {

/// Rotates features of row p from column `first` on by its angles.
void rotate_row(const RotaryAngles& by, Matrix& x, std::uint64_t p, std::uint64_t first, double direction) {
  const std::uint64_t half = by.frequencies.size();
  for (std::uint64_t i = 0; i < half; ++i) {
    const double angle = direction * static_cast<double>(p) * by.frequencies[i];
    const double a = x(p, first + i);
    const double b = x(p, first + i + half);
    x(p, first + i) = by.length * (a * std::cos(angle) - b * std::sin(angle));
    x(p, first + i + half) = by.length * (a * std::sin(angle) + b * std::cos(angle));
  }
}

/// Columns of the heads of queries (or keys) that have one root mean square: those of each, or of all.
std::vector<std::vector<std::uint64_t>> normed_columns(const ModelSpec& m, bool keys) {
  std::vector<std::vector<std::uint64_t>> norms;
  const std::uint64_t shared = m.heads / m.kv_heads, heads = keys ? m.kv_heads : m.heads;
  for (std::uint64_t h = 0; h < heads; ++h) {
    if (norms.empty() || m.query_key_norm != QueryKeyNorm::whole) norms.emplace_back();
    const HeadColumns at = columns_of(m, keys ? h * shared : h);
    for (std::uint64_t f = 0; f < m.head_dim; ++f) norms.back().push_back((keys ? at.key : at.query) + f);
  }
  return norms;
}

}  // namespace

void rotate(const ModelSpec& m, std::uint64_t layer, Matrix& qkv, double direction) {
  const std::uint64_t shared = m.heads / m.kv_heads;
  const RotaryAngles by = rotary_angles(m, layer, qkv.rows);
  for (std::uint64_t p = 0; p < qkv.rows; ++p) {
    for (std::uint64_t group = 0; group < m.kv_heads; ++group) {
      for (std::uint64_t member = 0; member <= shared; ++member) {  // the group's queries and its key
        rotate_row(by, qkv, p, (group * (shared + 2) + member) * m.head_dim, direction);
      }
    }
  }
}

Matrix query_key_norm_forward(const ModelSpec& m, const Matrix& qkv, const Matrix* query_gamma,
                              const Matrix* key_gamma) {
  Matrix y = qkv;
  for (const bool keys : {false, true}) {
    const Matrix* gamma = keys ? key_gamma : query_gamma;
    for (const std::vector<std::uint64_t>& columns : normed_columns(m, keys)) {
      for (std::uint64_t p = 0; p < qkv.rows; ++p) {
        double square = 0.0;
        for (const std::uint64_t c : columns) square += qkv(p, c) * qkv(p, c) / static_cast<double>(columns.size());
        const double inverse = 1.0 / std::sqrt(square + m.norm_epsilon);
        for (std::size_t i = 0; i < columns.size(); ++i) {
          y(p, columns[i]) *= inverse * (gamma != nullptr ? gamma->values[i] : 1.0);
        }
      }
    }
  }
  return y;
}

Matrix query_key_norm_backward(const ModelSpec& m, const Matrix& dy, const Matrix& qkv, const Matrix* query_gamma,
                               const Matrix* key_gamma, Matrix* dquery_gamma, Matrix* dkey_gamma) {
  // As norm_backward for rms.
  Matrix dx = dy;
  for (const bool keys : {false, true}) {
    const Matrix* gamma = keys ? key_gamma : query_gamma;
    Matrix* dgamma = keys ? dkey_gamma : dquery_gamma;
    for (const std::vector<std::uint64_t>& columns : normed_columns(m, keys)) {
      const auto n = static_cast<double>(columns.size());
      for (std::uint64_t p = 0; p < qkv.rows; ++p) {
        double square = 0.0;
        for (const std::uint64_t c : columns) square += qkv(p, c) * qkv(p, c) / n;
        const double inverse = 1.0 / std::sqrt(square + m.norm_epsilon);
        double mean = 0.0;
        for (std::size_t i = 0; i < columns.size(); ++i) {
          const double z = qkv(p, columns[i]) * inverse;
          mean += dy(p, columns[i]) * (gamma != nullptr ? gamma->values[i] : 1.0) * z / n;
          if (dgamma != nullptr) dgamma->values[i] += dy(p, columns[i]) * z;
        }
        for (std::size_t i = 0; i < columns.size(); ++i) {
          const double g = dy(p, columns[i]) * (gamma != nullptr ? gamma->values[i] : 1.0);
          dx(p, columns[i]) = (g - qkv(p, columns[i]) * inverse * mean) * inverse;
        }
      }
    }
  }
  return dx;
}

Matrix latent_heads(const ModelSpec& m, const Matrix& queries, const Matrix& pairs, const Matrix& key) {
  const std::uint64_t n = m.head_dim, r = m.latent->rope_dim, v = m.latent->value_dim;
  const std::uint64_t width = 2 * (n + r) + v;
  const RotaryAngles by = rotary_angles(m, 0, queries.rows);
  Matrix qkv(queries.rows, m.heads * width);
  for (std::uint64_t p = 0; p < qkv.rows; ++p) {
    for (std::uint64_t head = 0; head < m.heads; ++head) {
      const std::uint64_t at = head * width;
      for (std::uint64_t f = 0; f < n + r; ++f) qkv(p, at + f) = queries(p, head * (n + r) + f);
      for (std::uint64_t f = 0; f < n; ++f) qkv(p, at + n + r + f) = pairs(p, head * (n + v) + f);
      for (std::uint64_t f = 0; f < r; ++f) qkv(p, at + 2 * n + r + f) = key(p, f);
      for (std::uint64_t f = 0; f < v; ++f) qkv(p, at + 2 * (n + r) + f) = pairs(p, head * (n + v) + n + f);
      rotate_row(by, qkv, p, at + n, 1.0);
      rotate_row(by, qkv, p, at + 2 * n + r, 1.0);
    }
  }
  return qkv;
}

LatentHeads latent_heads_backward(const ModelSpec& m, const Matrix& dqkv) {
  const std::uint64_t n = m.head_dim, r = m.latent->rope_dim, v = m.latent->value_dim;
  const std::uint64_t width = 2 * (n + r) + v;
  const RotaryAngles by = rotary_angles(m, 0, dqkv.rows);
  Matrix turned = dqkv;
  LatentHeads d{Matrix(dqkv.rows, m.heads * (n + r)), Matrix(dqkv.rows, m.heads * (n + v)), Matrix(dqkv.rows, r)};
  for (std::uint64_t p = 0; p < dqkv.rows; ++p) {
    for (std::uint64_t head = 0; head < m.heads; ++head) {
      const std::uint64_t at = head * width;
      rotate_row(by, turned, p, at + n, -1.0);
      rotate_row(by, turned, p, at + 2 * n + r, -1.0);
      for (std::uint64_t f = 0; f < n + r; ++f) d.queries(p, head * (n + r) + f) = turned(p, at + f);
      for (std::uint64_t f = 0; f < n; ++f) d.pairs(p, head * (n + v) + f) = turned(p, at + n + r + f);
      for (std::uint64_t f = 0; f < r; ++f) d.key(p, f) += turned(p, at + 2 * n + r + f);
      for (std::uint64_t f = 0; f < v; ++f) d.pairs(p, head * (n + v) + n + f) = turned(p, at + 2 * (n + r) + f);
    }
  }
  return d;
}

namespace {

// gelu(x) = x/2 (1 + tanh(c (x + a x^3))), c = sqrt(2/pi), a = 0.044715
constexpr double gelu_cubic = 0.044715;
const double gelu_scale = std::sqrt(2.0 / std::numbers::pi);

double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(gelu_scale * (x + gelu_cubic * x * x * x))); }

double gelu_derivative(double x) {
  const double t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * gelu_scale * (1.0 + 3.0 * gelu_cubic * x * x);
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// x sigmoid(1.702 x) (CLIP).
constexpr double quick_slope = 1.702;
double quick_gelu(double x) { return x * sigmoid(quick_slope * x); }
double quick_gelu_derivative(double x) {
  const double s = sigmoid(quick_slope * x);
  return s + quick_slope * x * s * (1.0 - s);
}

// gpt-oss: y = (1 + clip(up, -L, L)) g sigmoid(1.702 g), g = min(gate, L).
constexpr double gpt_oss_slope = 1.702;

double limited_gate(double gate, double up, double limit) {
  const double g = std::min(gate, limit);
  return (1.0 + std::clamp(up, -limit, limit)) * g * sigmoid(gpt_oss_slope * g);
}

std::pair<double, double> limited_gate_slopes(double gate, double up, double limit) {
  const double g = std::min(gate, limit), s = sigmoid(gpt_oss_slope * g);
  return {gate > limit ? 0.0 : (1.0 + std::clamp(up, -limit, limit)) * (s + gpt_oss_slope * g * s * (1.0 - s)),
          std::abs(up) > limit ? 0.0 : g * s};
}

}  // namespace

Matrix activation_forward(const ModelSpec& m, const Matrix& pre) {
  Matrix y(pre.rows, m.ffn);
  for (std::uint64_t i = 0; i < pre.rows; ++i) {
    for (std::uint64_t j = 0; j < m.ffn; ++j) {
      switch (m.activation) {
        case Activation::gelu: y(i, j) = gelu(pre(i, j)); break;
        case Activation::swiglu:
          y(i, j) = m.gate_limit > 0.0 ? limited_gate(pre(i, j), pre(i, m.ffn + j), m.gate_limit)
                                       : pre(i, j) * sigmoid(pre(i, j)) * pre(i, m.ffn + j);
          break;
        case Activation::geglu: y(i, j) = gelu(pre(i, j)) * pre(i, m.ffn + j); break;
        case Activation::relu: y(i, j) = std::max(pre(i, j), 0.0); break;
        case Activation::squared_relu: y(i, j) = std::max(pre(i, j), 0.0) * std::max(pre(i, j), 0.0); break;
        case Activation::quick_gelu: y(i, j) = quick_gelu(pre(i, j)); break;
      }
    }
  }
  return y;
}

Matrix activation_backward(const ModelSpec& m, const Matrix& dy, const Matrix& pre) {
  Matrix dpre(pre.rows, pre.columns);
  for (std::uint64_t i = 0; i < pre.rows; ++i) {
    for (std::uint64_t j = 0; j < m.ffn; ++j) {
      switch (m.activation) {
        case Activation::gelu: dpre(i, j) = dy(i, j) * gelu_derivative(pre(i, j)); break;
        case Activation::swiglu: {
          const double gate = pre(i, j);
          if (m.gate_limit > 0.0) {
            const auto [by_gate, by_up] = limited_gate_slopes(gate, pre(i, m.ffn + j), m.gate_limit);
            dpre(i, j) = dy(i, j) * by_gate;
            dpre(i, m.ffn + j) = dy(i, j) * by_up;
            break;
          }
          const double s = sigmoid(gate);
          dpre(i, j) = dy(i, j) * pre(i, m.ffn + j) * s * (1.0 + gate * (1.0 - s));
          dpre(i, m.ffn + j) = dy(i, j) * gate * s;
          break;
        }
        case Activation::geglu:
          dpre(i, j) = dy(i, j) * pre(i, m.ffn + j) * gelu_derivative(pre(i, j));
          dpre(i, m.ffn + j) = dy(i, j) * gelu(pre(i, j));
          break;
        case Activation::relu: dpre(i, j) = pre(i, j) > 0.0 ? dy(i, j) : 0.0; break;
        case Activation::squared_relu: dpre(i, j) = 2.0 * dy(i, j) * std::max(pre(i, j), 0.0); break;
        case Activation::quick_gelu: dpre(i, j) = dy(i, j) * quick_gelu_derivative(pre(i, j)); break;
      }
    }
  }
  return dpre;
}

Matrix cross_entropy(const ModelSpec& m, Matrix raw, const std::vector<std::int32_t>& targets, double share,
                     double& loss) {
  const double cap = m.logit_softcap;
  std::vector<double> row(raw.columns);
  for (std::uint64_t p = 0; p < raw.rows; ++p) {
    double largest = -HUGE_VAL;
    for (std::uint64_t v = 0; v < raw.columns; ++v) {
      const double scaled = raw(p, v) * m.logit_scale;
      row[v] = cap > 0.0 ? cap * std::tanh(scaled / cap) : scaled;
      largest = std::max(largest, row[v]);
    }
    double sum = 0.0;
    for (const double logit : row) sum += std::exp(logit - largest);
    const bool counts = targets[p] >= 0;
    const auto target = static_cast<std::uint64_t>(counts ? targets[p] : 0);
    if (counts) loss += (largest + std::log(sum) - row[target]) * share;
    // d loss / d logit = (probability - [v = target]) share, and d logit / d raw = scale (1 - tanh^2).
    for (std::uint64_t v = 0; v < raw.columns; ++v) {
      const double bent = cap > 0.0 ? row[v] / cap : 0.0;
      const double probability = std::exp(row[v] - largest) / sum;
      const double by_logit = counts ? (probability - (v == target ? 1.0 : 0.0)) * share : 0.0;
      raw(p, v) = by_logit * m.logit_scale * (1.0 - bent * bent);
    }
  }
  return raw;
}

}  // namespace orrery
