#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"
#include "planner/study/tensor_layer_time.hpp"
#include "planner/study/tensor_volumes.hpp"

// Experiments E2, E3, E11, E12 and E13: measured speed-ups of 2D, 2.5D and 3D
// over 1D.  The papers' bodies, with models and batches, were not read, so a
// range of transformer layers is priced on each published machine: a claim
// follows when it lies in what the range gives.

namespace orrery {
namespace {

constexpr TensorMode modes[] = {TensorMode::one_d, TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d};
constexpr std::uint64_t positions = 512;
constexpr std::uint64_t head_size = 64;

struct Machine {
  std::string name;
  ClusterSpec cluster;
  Calibration calibration;
};

Machine machine(const Library& library, const std::string& cluster, std::uint32_t gpus) {
  Machine m{cluster, study_cluster(library, cluster, gpus), {}};
  m.calibration = study_calibration(library, m.cluster.device);
  return m;
}

/// 64 GPUs of a machine that the abstracts name by GPU and place only: four to
/// a node; PCIe 3 x16 or NVLink inside and 100 Gbit/s between nodes, assumed.
Machine assumed_machine(const Library& library, const std::string& name, const std::string& device, Bandwidth inside) {
  Machine m{name, {}, {}};
  m.cluster.name = name;
  m.cluster.device = study_device(library, device);
  m.cluster.nodes = 16;
  m.cluster.devices_per_node = 4;
  m.cluster.levels = {{"node", 4, inside, Seconds::of(2e-6)},
                      {"infiniband", 16, Bandwidth::of(100e9 / 8.0 / 4.0), Seconds::of(5e-6)}};
  m.calibration = study_calibration(library, m.cluster.device);
  return m;
}

/// One layer on one machine, in all modes that its number of devices allows.
struct Case {
  std::string machine;
  std::uint64_t devices = 0;
  std::uint64_t hidden = 0;
  std::uint64_t sequences = 0;
  std::map<TensorMode, Seconds> time;  ///< serial

  /// Speed of `mode` over 1D; empty where one of the two does not exist.
  [[nodiscard]] std::optional<double> speedup(TensorMode mode) const { return over(mode, TensorMode::one_d); }
  [[nodiscard]] std::optional<double> over(TensorMode mode, TensorMode base) const {
    const auto a = time.find(mode);
    const auto b = time.find(base);
    if (a == time.end() || b == time.end()) return std::nullopt;
    return b->second / a->second;
  }
};

std::vector<Case> price_cases(const Machine& m, std::uint64_t devices) {
  std::vector<Case> cases;
  for (const std::uint64_t hidden : {1024U, 2048U, 4096U, 8192U}) {
    const std::uint64_t heads = hidden / head_size;
    if (heads % devices != 0) continue;  // 1D cuts whole heads
    for (const std::uint64_t sequences : {16U, 64U, 256U}) {
      Case c{m.name, devices, hidden, sequences, {}};
      for (const TensorMode mode : modes) {
        const std::optional<TensorGrid> grid = tensor_grid(mode, devices);
        if (!grid || sequences % (devices / grid->side) != 0) continue;
        if (mode == TensorMode::two_and_half_d && grid->depth == 1) continue;  // 2D
        c.time[mode] =
            tensor_layer_time(*grid, {sequences, positions, hidden, heads}, m.cluster, m.calibration).serial();
      }
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

struct Span {
  double low = 0.0;
  double high = 0.0;
  bool any = false;
  void add(std::optional<double> x) {
    if (!x) return;
    low = any ? std::min(low, *x) : *x;
    high = any ? std::max(high, *x) : *x;
    any = true;
  }
};

Span span_of(const std::vector<Case>& cases, const std::string& machine, TensorMode mode,
             TensorMode base = TensorMode::one_d) {
  Span s;
  for (const Case& c : cases) {
    if (c.machine == machine) s.add(c.over(mode, base));
  }
  return s;
}

/// A published ratio against what the layers priced give.  Since the paper's
/// own layer is not known, that some layer gives it shows only that it can be.
Claim ranged(std::string what, double published, const std::vector<Case>& cases, const std::string& machine,
             TensorMode mode, TensorMode base = TensorMode::one_d) {
  Claim c{std::move(what), number(published, 2, "x"), Evidence::abstract_, plain("-"), Verdict::undecided, {}};
  const Span s = span_of(cases, machine, mode, base);
  if (!s.any) return c;
  const Case* nearest = nullptr;
  for (const Case& other : cases) {
    if (other.machine != machine || !other.over(mode, base)) continue;
    if (nearest == nullptr ||
        std::abs(*other.over(mode, base) - published) < std::abs(*nearest->over(mode, base) - published)) {
      nearest = &other;
    }
  }
  const double found = *nearest->over(mode, base);
  c.computed = {fmt::format("{:.2f}x to {:.2f}x", s.low, s.high), found};
  const std::string where =
      fmt::format("nearest: {:.2f}x at h {}, batch {}", found, nearest->hidden, nearest->sequences);
  if (s.high <= 1.0) {
    c.verdict = Verdict::does_not_follow;
    c.reason = fmt::format("{} is faster in every layer priced; {}", name_of(base), where);
  } else {
    c.verdict = Verdict::in_part;
    c.reason = fmt::format("{}; {}. Model and batch of the paper, and the links of its machine, are not known here",
                           published > s.high ? "the direction follows, so large a gain does not"
                                              : "such a gain is within what the model gives, and so is less",
                           where);
  }
  return c;
}

void fill_best(StudyResult& r, const std::vector<Case>& cases) {
  constexpr double published = 2.76;
  const Case* nearest = nullptr;
  TensorMode nearest_mode = TensorMode::two_d;
  for (const Case& c : cases) {
    for (const TensorMode mode : {TensorMode::two_d, TensorMode::two_and_half_d}) {
      const std::optional<double> s = c.speedup(mode);
      if (!s) continue;
      if (nearest == nullptr || std::abs(*s - published) < std::abs(*nearest->speedup(nearest_mode) - published)) {
        nearest = &c;
        nearest_mode = mode;
      }
    }
  }
  if (nearest == nullptr) return;
  const double found = *nearest->speedup(nearest_mode);
  r.claims.push_back(
      {"best speed-up over the baselines", number(published, 2, "x"), Evidence::abstract_, number(found, 2, "x"),
       std::abs(found / published - 1.0) < 0.1 ? Verdict::in_part : Verdict::does_not_follow,
       fmt::format(
           "reached by {} on {} with {} devices, h {}, batch {}: such settings exist; which one was measured is "
           "not known here",
           name_of(nearest_mode), nearest->machine, nearest->devices, nearest->hidden, nearest->sequences)});
}

/// "1D wins" or "1D loses" on a machine, against the span of ratios.
Claim order(const std::string& what, bool one_d_wins, const Span& s, std::string reason) {
  const bool always = one_d_wins ? s.high < 1.0 : s.low > 1.0;
  const bool never = one_d_wins ? s.low > 1.0 : s.high < 1.0;
  return {what,
          plain(one_d_wins ? "1D wins" : "1D loses"),
          Evidence::unverified,
          {fmt::format("{:.2f}x to {:.2f}x", s.low, s.high), s.high},
          always  ? Verdict::follows
          : never ? Verdict::does_not_follow
                  : Verdict::in_part,
          std::move(reason)};
}

void fill_order(StudyResult& r, const std::vector<Case>& four, const std::vector<Case>& eight) {
  r.claims.push_back(order("4 GPUs, NVLink between all pairs, 2D over 1D", true,
                           span_of(four, "colossal-system-1", TensorMode::two_d),
                           "links are fast enough that the extra steps and the smaller blocks of 2D decide"));
  r.claims.push_back(order("8 GPUs, NVLink between all pairs, 2.5D over 1D", true,
                           span_of(eight, "colossal-system-1", TensorMode::two_and_half_d),
                           "with many tokens 2.5D's smaller volume wins, with few its many steps lose"));
  r.claims.push_back(
      order("4 GPUs, NVLink between neighbours only, 2D over 1D", false,
            span_of(four, "colossal-system-2", TensorMode::two_d),
            "with many tokens: rows of the grid lie on NVLink pairs and carry the activations, only weights "
            "cross PCIe; with few tokens and wide layers the weights weigh more"));
  r.claims.push_back(order("8 GPUs, NVLink between neighbours only, 2.5D over 1D", false,
                           span_of(eight, "colossal-system-2", TensorMode::two_and_half_d), "the same"));
}

}  // namespace

StudyResult tensor_speedup_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E2", "E3", "E11", "E12", "E13"};
  r.sources = {
      "Bian et al., Colossal-AI, arXiv 2110.14883 (2.76x: abstract; systems I and II: as recalled, unverified)",
      "Xu et al., Optimus, arXiv 2104.05343, abstract", "Wang et al., Tesseract, arXiv 2105.14500, abstract",
      "Bian et al., 3D, arXiv 2105.14450, abstract"};
  r.inputs = {"clusters colossal-system-1 to -4", "devices rtx-5000, v100, a100-40 with their calibrations"};
  r.formulas = {"tensor_layer_time", "linear_volume"};
  r.assumptions = {
      "Transformer layers of width 1024 to 8192 (as many as 1D's heads allow), 512 positions, head size 64, batch 16, "
      "64 "
      "and 256; fp16; forward and backward; nothing overlaps.",
      "The same batch in all modes: what a larger batch in 2D adds is in the study vit-batch.",
      "Machines of the abstracts: 16 nodes of 4 GPUs; inside 12 GB/s (RTX 5000, PCIe) or 150 and 300 GB/s (V100, A100, "
      "NVLink), between nodes 100 Gbit/s for the four: assumed, not in the sources read.",
      "Norms and elementwise kernels, embedding and loss are left out; they would bring every ratio nearer to 1."};

  const std::vector<Machine> machines = {machine(library, "colossal-system-1", 4),
                                         machine(library, "colossal-system-2", 4),
                                         machine(library, "colossal-system-3", 64),
                                         machine(library, "colossal-system-4", 64),
                                         assumed_machine(library, "frontera-rtx", "rtx-5000", Bandwidth::of(12e9)),
                                         assumed_machine(library, "longhorn-v100", "v100", Bandwidth::of(150e9)),
                                         assumed_machine(library, "a100-4-a-node", "a100-40", Bandwidth::of(300e9))};
  std::vector<Case> cases;
  for (const Machine& m : machines) {
    for (Case& c : price_cases(m, m.cluster.devices())) cases.push_back(std::move(c));
  }
  const std::vector<Case> eight = [&] {
    std::vector<Case> out;
    for (const char* name : {"colossal-system-1", "colossal-system-2"}) {
      for (Case& c : price_cases(machine(library, name, 8), 8)) out.push_back(std::move(c));
    }
    return out;
  }();

  StudyTable table{"One transformer layer, ms, and speed over 1D",
                   {"<machine", "GPUs", "h", "batch", "1D", "2D", "2.5D", "3D", "2D/1D", "2.5D/1D", "3D/1D"},
                   {}};
  const auto add = [&](const Case& c) {
    std::vector<Figure> row = {plain(c.machine), number(static_cast<double>(c.devices), 0),
                               number(static_cast<double>(c.hidden), 0), number(static_cast<double>(c.sequences), 0)};
    for (const TensorMode mode : modes) {
      const auto found = c.time.find(mode);
      row.push_back(found == c.time.end() ? plain("") : number(found->second.in(millisecond), 2));
    }
    for (const TensorMode mode : {TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d}) {
      const std::optional<double> s = c.speedup(mode);
      row.push_back(s ? number(*s, 2, "x") : plain(""));
    }
    table.rows.push_back(std::move(row));
  };
  for (const Case& c : cases) add(c);
  for (const Case& c : eight) add(c);

  fill_best(r, cases);
  fill_order(r, cases, eight);
  r.claims.push_back(ranged("2D over 1D, training, 64 RTX 5000", 1.48, cases, "frontera-rtx", TensorMode::two_d));
  r.claims.push_back({"2D over 1D, inference, 64 RTX 5000", number(1.78, 2, "x"), Evidence::abstract_, plain("-"),
                      Verdict::undecided, "inference is not in Orrery's model"});
  r.claims.push_back(
      ranged("2.5D over 1D, strong scaling, 64 GPUs", 1.38, cases, "a100-4-a-node", TensorMode::two_and_half_d));
  r.claims.push_back(ranged("2.5D over 2D, strong scaling, 64 GPUs", 1.53, cases, "a100-4-a-node",
                            TensorMode::two_and_half_d, TensorMode::two_d));
  r.claims.push_back(
      ranged("2.5D over 1D, weak scaling, up to", 3.4, cases, "a100-4-a-node", TensorMode::two_and_half_d));
  r.claims.push_back(ranged("2.5D over 2D, weak scaling, up to", 1.7, cases, "a100-4-a-node",
                            TensorMode::two_and_half_d, TensorMode::two_d));
  r.claims.push_back({"2.5D, weak scaling, inference, up to", plain("4.0x and 1.7x"), Evidence::abstract_, plain("-"),
                      Verdict::undecided, "inference is not in Orrery's model"});
  r.claims.push_back(ranged("3D over 1D, 64 V100", 2.32, cases, "longhorn-v100", TensorMode::three_d));
  r.claims.push_back(
      ranged("3D over 2D, 64 V100", 1.57, cases, "longhorn-v100", TensorMode::three_d, TensorMode::two_d));

  Chart chart{"Speed over 1D, the best of the layers priced", "", "times 1D", false, true, {}, {}};
  const TensorMode drawn[] = {TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d};
  for (const TensorMode mode : drawn) chart.series.push_back({std::string(name_of(mode)), {}});
  for (std::size_t i = 0; i < machines.size(); ++i) {
    chart.categories.push_back(machines[i].name);
    for (std::size_t m = 0; m < std::size(drawn); ++m) {
      const Span s = span_of(cases, machines[i].name, drawn[m]);
      if (s.any) chart.series[m].points.push_back({static_cast<double>(i), s.high});
    }
  }
  r.charts.push_back(std::move(chart));
  r.tables.push_back(std::move(table));
  r.conclusions = {
      "Whether 2D to 3D beat 1D is decided by the slowest link that 1D's one ring crosses, and by tokens per device.",
      "As shipped upstream, 2.5D does not cut the batch over its depth; every published benchmark configuration of it "
      "has "
      "depth 1 and is 2D (configurations read). Here 2.5D is as its paper describes it."};
  return r;
}

}  // namespace orrery
