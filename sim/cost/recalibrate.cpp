#include "sim/cost/recalibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "core/program/work_kind.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {
namespace {

enum class Kind : std::uint8_t { products, others, messages };

/// Ops of one price.
struct Same {
  std::vector<double> measured;  ///< s
  [[nodiscard]] double median() {
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::nth_element(measured.begin(), middle, measured.end());
    return *middle;
  }
  [[nodiscard]] double count() const { return static_cast<double>(measured.size()); }
};
/// By kind, and the parts of the price that come from latency and from bytes.
using ByPrice = std::map<std::tuple<Kind, Picoseconds, Picoseconds>, Same>;

void scale(RateTable& table, double factor) {
  for (double& value : table.values) value *= factor;
}

Calibration with_messages(const Calibration& calibration, const ClusterSpec& cluster) {
  Calibration c = calibration;
  if (c.messages || cluster.levels.empty()) return c;
  const NetworkLevel& level = cluster.levels.front();
  const RateTable rate{{{1.0}}, {level.bandwidth.base()}};
  c.messages = MessageRate{level.latency, level.latency, level.latency, rate, rate, rate};
  return c;
}

std::optional<Kind> kind_of(const Block& block, const Op& op) {
  if (!is_timed(op)) return std::nullopt;
  const WorkKind kind = work_kind_of(block, op);
  if (kind == WorkKind::gemm) return Kind::products;
  // Attention has the factor of products only where its own rates were measured.
  if (kind == WorkKind::attention || kind == WorkKind::copy) return std::nullopt;
  return is_transfer(kind) ? Kind::messages : Kind::others;
}

ByPrice by_price(const Program& program, const CostModel& whole, const CostModel& of_latency,
                 const std::vector<Trace>& traces) {
  constexpr double seconds = 1e-12;  // per picosecond
  ByPrice found;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Rank like = representative(program, c);
    std::map<std::pair<const Block*, std::uint32_t>, std::optional<std::tuple<Kind, Picoseconds, Picoseconds>>> known;
    for_each_op(program, program.classes[c].step, [&](const OpRun& run) {
      auto [at, is_new] = known.try_emplace({run.block, run.op_index});
      if (is_new) {
        if (const auto kind = kind_of(*run.block, *run.op)) {
          const Picoseconds price = whole.price(program, *run.block, *run.op, like);
          const Picoseconds latency =
              *kind == Kind::messages ? of_latency.price(program, *run.block, *run.op, like) : 0;
          if (price > 0) at->second = {*kind, latency, price - std::min(latency, price)};
        }
      }
      if (!at->second) return;
      std::vector<double>& measured = found[*at->second].measured;
      for (const Trace& trace : traces) {
        for (const RankTrace& rank : trace.ranks) {
          if (class_of(program, rank.rank) != c) continue;
          const Span& span = rank.spans[index(run.id)];
          measured.push_back(static_cast<double>(span.end - span.start) * seconds);
        }
      }
    });
  }
  return found;
}

/// Sums of the normal equations of latency and bytes.
struct Squares {
  double ll = 0.0, lb = 0.0, bb = 0.0, lm = 0.0, bm = 0.0;
  void add(double weight, double l, double b, double m) {
    ll += weight * l * l;
    lb += weight * l * b;
    bb += weight * b * b;
    lm += weight * l * m;
    bm += weight * b * m;
  }
};

}  // namespace

MeasuredFactors measured_factors(const Program& program, const PlannedRun& run, const Calibration& calibration,
                                 const std::vector<Trace>& traces) {
  const Calibration base = with_messages(calibration, *run.cluster);
  Calibration no_bytes = base;
  if (no_bytes.messages) {
    for (RateTable* table : {&no_bytes.messages->send, &no_bytes.messages->copy, &no_bytes.messages->add}) {
      scale(*table, 1e9);
    }
  }
  const Plan& plan = run.plan;
  const CostModel whole(*run.cluster, base, plan.mesh, plan.placement, plan.collective_algorithm);
  const CostModel of_latency(*run.cluster, no_bytes, plan.mesh, plan.placement, plan.collective_algorithm);

  std::map<Kind, std::pair<double, double>> kernels;  // time measured, and priced
  Squares squares;
  constexpr double seconds = 1e-12;
  for (auto& [price, same] : by_price(program, whole, of_latency, traces)) {
    const auto& [kind, latency, bytes] = price;
    if (same.measured.empty()) continue;
    const double m = std::max(same.median(), seconds), l = static_cast<double>(latency) * seconds,
                 b = static_cast<double>(bytes) * seconds;
    if (kind == Kind::messages) {
      squares.add(same.count() / (m * m), l, b, m);
    } else {
      kernels[kind].first += same.count() * m;
      kernels[kind].second += same.count() * (l + b);
    }
  }
  MeasuredFactors f;
  const auto ratio = [](const std::pair<double, double>& times) {
    return times.second > 0.0 ? times.first / times.second : 1.0;
  };
  f.products = ratio(kernels[Kind::products]);
  f.others = ratio(kernels[Kind::others]);
  const auto& [ll, lb, bb, lm, bm] = squares;
  const double determinant = ll * bb - lb * lb;
  if (determinant > 1e-9 * ll * bb) {
    f.latency = (bb * lm - lb * bm) / determinant;
    f.bytes = (ll * bm - lb * lm) / determinant;
  } else if (ll + bb > 0.0) {  // all messages of one shape: both parts have the same factor
    f.latency = f.bytes = (lm + bm) / (ll + 2.0 * lb + bb);
  }
  if (f.latency <= 0.0 && bb > 0.0) {
    f.latency = 0.0;
    f.bytes = bm / bb;
  } else if (f.bytes <= 0.0 && ll > 0.0) {
    f.bytes = 0.0;
    f.latency = lm / ll;
  }
  f.bytes = std::max(f.bytes, 1e-6);  // a rate stays finite
  return f;
}

Calibration scaled(const Calibration& calibration, const ClusterSpec& cluster, const MeasuredFactors& f) {
  Calibration c = with_messages(calibration, cluster);
  c.busy_compute_slowdown *= f.products;
  c.busy_memory_slowdown *= f.others;
  c.launch = f.others * c.launch;
  c.collective_launch = f.latency * c.collective_launch;
  if (c.messages) {
    MessageRate& m = *c.messages;
    m.latency = f.latency * m.latency;
    m.latency_shared = f.latency * m.latency_shared;
    m.wake = f.latency * m.wake;
    for (RateTable* table : {&m.send, &m.copy, &m.add}) scale(*table, 1.0 / f.bytes);
  }
  return c;
}

}  // namespace orrery
