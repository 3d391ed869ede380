#include "exec/train/reference_mixture.hpp"

#include <algorithm>
#include <cmath>

#include "core/spec/routing.hpp"
#include "exec/train/reference_functions.hpp"

namespace orrery {
namespace {

/// Rows [first, first + count) of a matrix.
Matrix rows_of(const Matrix& m, std::uint64_t first, std::uint64_t count) {
  Matrix part(count, m.columns);
  std::copy_n(m.values.begin() + static_cast<std::ptrdiff_t>(first * m.columns), count * m.columns,
              part.values.begin());
  return part;
}
void add_rows(Matrix& m, std::uint64_t first, const Matrix& part) {
  for (std::uint64_t i = 0; i < part.rows; ++i) {
    for (std::uint64_t j = 0; j < part.columns; ++j) m(first + i, j) += part(i, j);
  }
}

/// The model with another feed-forward width, for its activation.
ModelSpec with_ffn(const ModelSpec& m, std::uint64_t ffn) {
  ModelSpec other = m;
  other.ffn = ffn;
  return other;
}

/// Undivided scores of a token's experts, and the derivative of each by its logit.
struct Scores {
  std::vector<double> score, slope;
};
Scores scores_of(const Mixture& m, const Matrix& logits, std::uint64_t position) {
  Scores s;
  double largest = -HUGE_VAL;
  for (std::uint64_t e = 0; e < m.experts; ++e) largest = std::max(largest, logits(position, e));
  for (std::uint64_t e = 0; e < m.experts; ++e) {
    const double x = logits(position, e);
    if (m.scores == Mixture::Scores::sigmoid) {
      const double y = 1.0 / (1.0 + std::exp(-x));
      s.score.push_back(y);
      s.slope.push_back(y * (1.0 - y));
    } else {
      s.score.push_back(std::exp(x - largest));
      s.slope.push_back(s.score.back());
    }
  }
  return s;
}

/// The experts whose scores sum to the divisor of a token's gates.
std::vector<std::uint32_t> divisors(const Mixture& m, const std::vector<std::uint32_t>& chosen) {
  if (m.scores != Mixture::Scores::softmax_all) return chosen;
  std::vector<std::uint32_t> all(m.experts);
  for (std::uint32_t e = 0; e < m.experts; ++e) all[e] = e;
  return all;
}

double sum_of(const std::vector<double>& values, const std::vector<std::uint32_t>& which) {
  double sum = 0.0;
  for (const std::uint32_t e : which) sum += values[e];
  return sum;
}

/// Experts in order of falling score, among equal ones the lower number first; only those of the best groups.
std::vector<std::uint32_t> by_score(const Mixture& m, const Matrix& logits, std::uint64_t position) {
  std::vector<std::uint32_t> order(m.experts);
  for (std::uint32_t e = 0; e < m.experts; ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return logits(position, a) > logits(position, b); });
  if (m.groups_per_token >= m.groups) return order;
  // The best two of each group come first in the order.
  const std::uint32_t size = m.experts / m.groups;
  const Scores s = scores_of(m, logits, position);
  std::vector<double> worth(m.groups, 0.0);
  std::vector<std::uint32_t> seen(m.groups, 0), groups;
  for (const std::uint32_t e : order) {
    const std::uint32_t g = e / size;
    if (seen[g]++ == 0) groups.push_back(g);  // by their best
    if (seen[g] <= 2) worth[g] += s.score[e];
  }
  if (m.group_score == Mixture::GroupScore::two_best) {
    std::sort(groups.begin(), groups.end());
    std::stable_sort(groups.begin(), groups.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return worth[a] > worth[b]; });
  }
  groups.resize(m.groups_per_token);
  std::erase_if(order,
                [&](std::uint32_t e) { return std::find(groups.begin(), groups.end(), e / size) == groups.end(); });
  return order;
}

/// Decides which token visits which expert: fills chosen, loads and the rows that each expert takes.
void route(const MixturePass& pass, MixtureRecord& r) {
  const Mixture& m = *pass.model.mixture;
  const std::uint64_t positions = r.logits.rows, group = routing_group(pass.workload);
  r.chosen.assign(positions, {});
  r.experts.assign(m.experts, {});
  r.loads.assign(positions / group, std::vector<std::uint64_t>(m.experts, 0));
  const auto take = [&](std::uint64_t position, std::uint32_t choice, std::uint32_t expert, bool kept) {
    r.chosen[position].push_back(expert);
    ++r.loads[position / group][expert];
    if (!kept) return;
    r.experts[expert].positions.push_back(position);
    r.experts[expert].choices.push_back(choice);
  };
  if (pass.workload.routing.kind == Routing::Kind::learned) {
    const std::uint64_t capacity = expert_capacity(pass.workload, m.experts, m.per_token);
    for (std::uint64_t p = 0; p < positions; ++p) {
      const std::vector<std::uint32_t> order = by_score(m, r.logits, p);
      for (std::uint32_t j = 0; j < m.per_token; ++j) {
        take(p, j, order[j], r.loads[p / group][order[j]] < capacity);
      }
    }
    return;
  }
  const LayerRouting routing(pass.workload, m.experts, m.per_token, static_cast<std::uint32_t>(pass.layer),
                             expert_groups(m));
  for (std::uint64_t p = 0; p < positions; ++p) {
    for (std::uint32_t j = 0; j < m.per_token; ++j) {
      const LayerRouting::Choice c = routing.choice(pass.sequence, p, j);
      take(p, j, c.expert, c.kept);
    }
  }
}

/// Weight of an expert's score at a position in the auxiliary loss.
double weight_of(const MixturePass& pass, const MixtureRecord& r, std::uint64_t position, std::uint32_t expert) {
  const Mixture& m = *pass.model.mixture;
  return auxiliary_weight(pass.workload, m.experts, m.per_token,
                          r.loads[position / routing_group(pass.workload)][expert]);
}

}  // namespace

Matrix mixture_forward(const MixturePass& pass, const Matrix& x, MixtureRecord& r) {
  const Mixture& m = *pass.model.mixture;
  const ModelSpec expert_model = with_ffn(pass.model, m.ffn);
  const std::uint64_t h = pass.model.hidden;
  r.logits = product(x, pass.weight("ffn.router.weight"));
  if (m.router_bias) add_to_rows(r.logits, pass.weight("ffn.router.bias"));
  r.gates = Matrix(x.rows, m.per_token);
  route(pass, r);
  for (std::uint64_t p = 0; p < x.rows; ++p) {
    const Scores s = scores_of(m, r.logits, p);
    const double sum = sum_of(s.score, divisors(m, r.chosen[p]));
    for (std::uint32_t j = 0; j < m.per_token; ++j) r.gates(p, j) = m.scale * s.score[r.chosen[p][j]] / sum;
    double all = 0.0;
    for (const double score : s.score) all += score;
    for (std::uint32_t e = 0; e < m.experts; ++e) {
      *pass.auxiliary += weight_of(pass, r, p, e) * s.score[e] / all;
    }
  }
  Matrix y(x.rows, h);
  if (m.shared_ffn > 0) {
    r.shared_pre = product(x, pass.weight("ffn.shared.up.weight"));
    pass.kept(r.shared_pre);
    r.shared_act = activation_forward(with_ffn(pass.model, m.shared_ffn), r.shared_pre);
    pass.kept(r.shared_act);
    y = product(r.shared_act, pass.weight("ffn.shared.down.weight"));
    pass.kept(y);
    if (m.shared_gate) {
      r.shared_out = y;
      r.gate = product(x, pass.weight("ffn.shared.gate.weight"));
      for (double& g : r.gate.values) g = 1.0 / (1.0 + std::exp(-g));
      for (std::uint64_t p = 0; p < y.rows; ++p) {
        for (std::uint64_t f = 0; f < h; ++f) y(p, f) *= r.gate(p, 0);
      }
    }
  }
  for (std::uint32_t e = 0; e < m.experts; ++e) {
    ExpertRecord& expert = r.experts[e];
    expert.x = Matrix(expert.positions.size(), h);
    for (std::size_t i = 0; i < expert.positions.size(); ++i) {
      for (std::uint64_t f = 0; f < h; ++f) expert.x(i, f) = x(expert.positions[i], f);
    }
    expert.pre = product(expert.x, rows_of(pass.weight("ffn.experts.up.weight"), e * h, h));
    if (m.expert_bias) add_to_rows(expert.pre, rows_of(pass.weight("ffn.experts.up.bias"), e, 1));
    pass.kept(expert.pre);
    expert.act = activation_forward(expert_model, expert.pre);
    pass.kept(expert.act);
    expert.out = product(expert.act, rows_of(pass.weight("ffn.experts.down.weight"), e * m.ffn, m.ffn));
    if (m.expert_bias) add_to_rows(expert.out, rows_of(pass.weight("ffn.experts.down.bias"), e, 1));
    pass.kept(expert.out);
    for (std::size_t i = 0; i < expert.positions.size(); ++i) {
      const std::uint64_t p = expert.positions[i];
      for (std::uint64_t f = 0; f < h; ++f) y(p, f) += r.gates(p, expert.choices[i]) * expert.out(i, f);
    }
  }
  pass.kept(y);
  return y;
}

Matrix mixture_backward(const MixturePass& pass, const Matrix& dy, const Matrix& x, const MixtureRecord& r) {
  const Mixture& m = *pass.model.mixture;
  const ModelSpec expert_model = with_ffn(pass.model, m.ffn);
  const std::uint64_t h = pass.model.hidden;
  Matrix dx(x.rows, h);
  Matrix dgate(x.rows, 1);  // before the sigmoid
  if (m.shared_ffn > 0) {
    Matrix dshared = dy;
    for (std::uint64_t p = 0; m.shared_gate && p < x.rows; ++p) {
      const double g = r.gate(p, 0);
      for (std::uint64_t f = 0; f < h; ++f) {
        dgate(p, 0) += dy(p, f) * r.shared_out(p, f) * g * (1.0 - g);
        dshared(p, f) *= g;
      }
    }
    add_transposed_product(pass.gradient("ffn.shared.down.weight"), r.shared_act, dshared);
    Matrix dact = product_transposed(dshared, pass.weight("ffn.shared.down.weight"));
    pass.signal(dact);
    Matrix dpre = activation_backward(with_ffn(pass.model, m.shared_ffn), dact, r.shared_pre);
    pass.signal(dpre);
    add_transposed_product(pass.gradient("ffn.shared.up.weight"), x, dpre);
    dx = product_transposed(dpre, pass.weight("ffn.shared.up.weight"));
    pass.signal(dx);
  }
  Matrix dgates(x.rows, m.per_token);
  for (std::uint32_t e = 0; e < m.experts; ++e) {
    const ExpertRecord& expert = r.experts[e];
    Matrix dout(expert.positions.size(), h);
    for (std::size_t i = 0; i < expert.positions.size(); ++i) {
      const std::uint64_t p = expert.positions[i];
      for (std::uint64_t f = 0; f < h; ++f) {
        dout(i, f) = r.gates(p, expert.choices[i]) * dy(p, f);
        dgates(p, expert.choices[i]) += dy(p, f) * expert.out(i, f);
      }
    }
    pass.signal(dout);
    const Matrix up = rows_of(pass.weight("ffn.experts.up.weight"), e * h, h);
    const Matrix down = rows_of(pass.weight("ffn.experts.down.weight"), e * m.ffn, m.ffn);
    Matrix ddown(m.ffn, h);
    add_transposed_product(ddown, expert.act, dout);
    add_rows(pass.gradient("ffn.experts.down.weight"), e * m.ffn, ddown);
    const auto add_bias = [&](const char* name, const Matrix& d) {
      if (!m.expert_bias) return;
      Matrix sum(1, d.columns);
      add_column_sums(sum, d);
      add_rows(pass.gradient(name), e, sum);
    };
    add_bias("ffn.experts.down.bias", dout);
    Matrix dact = product_transposed(dout, down);
    pass.signal(dact);
    Matrix dpre = activation_backward(expert_model, dact, expert.pre);
    pass.signal(dpre);
    Matrix dup(h, up.columns);
    add_transposed_product(dup, expert.x, dpre);
    add_rows(pass.gradient("ffn.experts.up.weight"), e * h, dup);
    add_bias("ffn.experts.up.bias", dpre);
    Matrix din = product_transposed(dpre, up);
    pass.signal(din);
    for (std::size_t i = 0; i < expert.positions.size(); ++i) {
      for (std::uint64_t f = 0; f < h; ++f) dx(expert.positions[i], f) += din(i, f);
    }
  }
  // Gates and the auxiliary loss are sums of scores over sums of scores.
  Matrix dlogits(x.rows, m.experts);
  for (std::uint64_t p = 0; p < x.rows; ++p) {
    const Scores s = scores_of(m, r.logits, p);
    std::vector<double> dscore(m.experts, 0.0);
    const std::vector<std::uint32_t> of = divisors(m, r.chosen[p]);
    const double sum = sum_of(s.score, of);
    double by_sum = 0.0;
    for (std::uint32_t j = 0; j < m.per_token; ++j) {
      dscore[r.chosen[p][j]] += m.scale * dgates(p, j) / sum;
      by_sum -= m.scale * dgates(p, j) * s.score[r.chosen[p][j]] / (sum * sum);
    }
    for (const std::uint32_t e : of) dscore[e] += by_sum;
    double all = 0.0;
    double weighted = 0.0;
    std::vector<double> weight(m.experts);
    for (std::uint32_t e = 0; e < m.experts; ++e) {
      weight[e] = weight_of(pass, r, p, e);
      all += s.score[e];
      weighted += weight[e] * s.score[e];
    }
    for (std::uint32_t e = 0; e < m.experts; ++e) {
      dscore[e] += weight[e] / all - weighted / (all * all);
      dlogits(p, e) = dscore[e] * s.slope[e];
    }
  }
  add_transposed_product(pass.gradient("ffn.router.weight"), x, dlogits);
  if (m.router_bias) add_column_sums(pass.gradient("ffn.router.bias"), dlogits);
  pass.signal(dx);
  add(dx, product_transposed(dlogits, pass.weight("ffn.router.weight")));
  if (m.shared_gate) {
    add_transposed_product(pass.gradient("ffn.shared.gate.weight"), x, dgate);
    add(dx, product_transposed(dgate, pass.weight("ffn.shared.gate.weight")));
  }
  pass.signal(dx);
  return dx;
}

}  // namespace orrery
