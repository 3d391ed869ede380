#include "tests/oracle/planner/small_space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/base/random.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/live_memory.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_bits(seed_, 0, count_++) % n; }
  bool once_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

void draw_model(Draw& draw, PlannedRun& run) {
  Workload& w = run.workload;
  w.precision = Precision::bf16;
  w.global_batch = draw.of<std::uint64_t>({2, 4, 6, 8, 12, 16, 32});
  w.sequence_length = draw.of<std::uint64_t>({32, 128, 512});
  Size size;
  size.layers = draw.of<std::uint64_t>({2, 3, 4, 5, 6, 8});
  size.hidden = draw.of<std::uint64_t>({64, 256, 1024});
  size.heads = draw.of<std::uint64_t>({4, 8});
  size.vocabulary = draw.of<std::uint64_t>({100, 1000, 16'000});
  size.positions = w.sequence_length;
  size.tied = draw.once_in(2);
  const std::uint64_t kind = draw.below(7);
  if (kind <= 1) size.kv_heads = size.heads / draw.of<std::uint64_t>({1, 2});
  run.model = kind == 0 || kind >= 5 ? tiny_gpt(size) : tiny_llama(size);
  ModelSpec& m = run.model;
  if (kind == 2 || kind == 3) {
    Mixture& mixture = m.mixture.emplace();
    mixture.experts = draw.of({4U, 8U});
    mixture.per_token = draw.of({1U, 2U});
    mixture.ffn = draw.of<std::uint64_t>({1, 2}) * size.hidden;
    mixture.shared_ffn = draw.once_in(3) ? size.hidden : 0;
    mixture.first_dense = draw.once_in(3) ? 1 : 0;
  }
  if (kind == 3 || kind == 4) {
    const std::uint64_t width = size.hidden / size.heads;
    m.kv_heads = m.heads;
    m.latent = LatentAttention{draw.once_in(2) ? 0 : size.hidden / 2, size.hidden / 4, width / 2, width};
  }
  if (kind == 5) {
    m.architecture = Architecture::bert;
    m.segments = 2;
    m.tied_embeddings = true;
  }
  if (kind == 6) {
    const std::uint64_t side = draw.of<std::uint64_t>({5, 7, 11});  // with the class token an even length
    m.architecture = Architecture::vit;
    m.tied_embeddings = false;
    m.image = Image{8 * side, 8, 3};
    m.max_positions = w.sequence_length = side * side + 1;
  }
  if (draw.once_in(4)) w.clip_norm = 1.0;
}

void draw_cluster(Draw& draw, PlannedRun& run) {
  const std::uint32_t devices = draw.of({1U, 2U, 2U, 3U, 4U, 4U, 6U, 8U, 8U, 12U, 16U});
  std::uint32_t per_node = draw.of({1U, 2U, 4U, 8U});
  while (devices % per_node != 0) per_node /= 2;
  ClusterSpec c = small_cluster(devices / per_node, per_node, gibibyte);  // of memory: later
  if (draw.once_in(3)) c.levels[1].bandwidth = c.levels[0].bandwidth;
  if (draw.once_in(2)) {
    c.device.peak[Precision::bf16] = 200.0 * teraflop_per_second;
    c.device.memory_bandwidth = 2000.0 * gigabyte_per_second;
  }
  if (const std::uint64_t host = draw.below(4); host >= 2) {
    c.host_link = draw.of({10.0, 50.0}) * gigabyte_per_second;
    c.host_bandwidth = 200.0 * gigabyte_per_second;
    const double states = 12.0 * static_cast<double>(parameter_count(run.model));
    c.host_memory = host == 2 ? 1024.0 * gibibyte : Bytes::of(states * draw.of({0.2, 0.5, 1.0}));
  }
  run.cluster = c;
}

/// The values of a dimension that the limits may leave.
std::vector<std::uint64_t> all_values(const Dimension& d, const PlannedRun& run) {
  std::vector<std::uint64_t> out;
  if (d.kind == DimensionKind::axis) {
    for (std::uint64_t n = 1; n <= run.cluster->devices(); ++n) out.push_back(n);
    std::erase_if(out, [&](std::uint64_t n) { return run.cluster->devices() % n != 0; });
  } else if (d.key == "plan.microbatch_size") {
    for (std::uint64_t n = 1; n <= run.workload.global_batch; ++n) out.push_back(n);
    std::erase_if(out, [&](std::uint64_t n) { return run.workload.global_batch % n != 0; });
  } else if (d.key == "plan.chunks") {
    for (std::uint64_t n = 1; n <= run.model.layers; ++n) out.push_back(n);
  } else if (d.key == "plan.overlap_gradients") {
    out = {1, 2};
  } else if (d.kind == DimensionKind::share) {
    if (run.cluster->host_memory.base() > 0) out = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  } else if (is_named(d)) {
    for (std::uint64_t n = 0; n < d.names.size(); ++n) out.push_back(n);
  } else {
    for (std::uint64_t n = d.least; n <= d.most; ++n) out.push_back(n);
  }
  return out;
}

constexpr std::string_view limited[] = {"mesh.pipeline",
                                        "mesh.replica",
                                        "mesh.data",
                                        "mesh.context",
                                        "mesh.expert",
                                        "mesh.tensor",
                                        "plan.tensor",
                                        "plan.microbatch_size",
                                        "plan.schedule",
                                        "plan.chunks",
                                        "plan.context",
                                        "plan.sequence_parallel",
                                        "plan.zigzag",
                                        "plan.recompute",
                                        "plan.zero_stage",
                                        "plan.reshard_after_forward",
                                        "plan.prefetch",
                                        "plan.overlap_gradients",
                                        "plan.offload_states",
                                        "plan.offload_parameters",
                                        "plan.offload_activations"};

/// The number of plans; more than `most` where there are more, or too many combinations to know.
std::size_t count(const SmallSpace& s, std::size_t most) {
  std::size_t n = 0;
  return every_plan(s.run, s.limits, s.extent, [&](const Plan&) { return ++n <= most; }) ? n : most + 1;
}

bool has_plans(const SmallSpace& s) {
  bool any = false;
  every_plan(s.run, s.limits, s.extent, [&](const Plan&) { return !(any = true); });
  return any;
}

/// What people leave out of a space, one dimension at a time: an axis, data in host memory, grids, many chunks, some of
/// the schedules or cuts. 1F1B on one chunk, all layers alike and ZeRO 0 and 1 always stay.
std::vector<std::uint64_t> left_by(const Dimension& d, const std::vector<std::uint64_t>& all, Draw& draw) {
  if (d.kind == DimensionKind::axis || d.kind == DimensionKind::share || d.key == "plan.chunks" ||
      d.key == "plan.tensor") {
    return {d.usual};
  }
  if (d.key == "plan.zero_stage") return {0, 1};
  if (d.key == "plan.recompute") return {0, 2};
  if (d.key == "plan.schedule" || d.key == "plan.context") {
    std::vector<std::uint64_t> some;
    for (const std::uint64_t v : all) {
      if (v == d.usual || draw.once_in(2)) some.push_back(v);
    }
    return some;
  }
  return {all[draw.below(all.size())]};
}

/// Dimensions are limited one after another, until there are few enough plans.
void draw_limits(Draw& draw, SmallSpace& s, std::size_t most) {
  while (count(s, most) > most) {
    const std::string_view key = limited[draw.below(std::size(limited))];
    const Dimension& d = dimension(key);
    const bool stays = key == "mesh.pipeline" || key == "mesh.data" || key == "mesh.tensor";
    const std::vector<std::uint64_t> all = all_values(d, s.run);
    if (all.empty() || (stays && draw.once_in(2)) || s.limits.only.contains(key)) continue;
    const SearchLimits before = s.limits;
    s.limits.only[std::string(key)] = left_by(d, all, draw);
    if (!has_plans(s)) s.limits = before;
  }
}

std::uint64_t fullest(const Program& program, LiveMemory& memory) {
  memory.read(program);
  std::uint64_t most = 0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) most = std::max(most, memory.peak(program, c).peak);
  return most;
}

/// A device's memory, drawn from what some of the plans need: from hardly enough for the leanest to more than enough
/// for all.
void draw_memory(Draw& draw, SmallSpace& s, std::size_t plans) {
  constexpr std::size_t looks = 200;
  const std::size_t each = plans / looks + 1;
  std::vector<std::uint64_t> peaks;
  LiveMemory memory;
  std::size_t n = 0;
  every_plan(s.run, s.limits, s.extent, [&](const Plan& plan) {
    if (n++ % each == 0) peaks.push_back(fullest(lower(s.run.model, s.run.workload, plan), memory));
    return true;
  });
  std::sort(peaks.begin(), peaks.end());
  const double share = draw.of({-1.0, 0.0, 0.01, 0.03, 0.1, 0.1, 0.3, 0.3, 0.6, 2.0});
  const auto at = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(peaks.size() - 1));
  const double factor = share < 0.0 ? 0.9 : share > 1.0 ? 2.0 : 1.001;
  double bytes = factor * static_cast<double>(peaks[at]);
  if (const auto& process = s.calibration.memory) {
    // Fragments, communicators and the headroom are as usual.
    const Bytes beside = process->context + process->workspace + 3.0 * process->communicator;
    bytes = (1.08 * bytes + beside.base()) / 0.96;
  }
  s.run.cluster->device.memory = Bytes::of(std::ceil(bytes));
}

std::string text_of(const SmallSpace& s) {
  const ModelSpec& m = s.run.model;
  const ClusterSpec& c = *s.run.cluster;
  std::string out = fmt::format(
      "{} layers {} hidden {} heads {}/{} vocabulary {}{}{}{}, batch {} of {}, {} x {} GPUs of {:.0f} TFLOP/s and "
      "{:.6g} "
      "MiB, outer {:.0f} GB/s, host {:.6g} MiB at {:.0f} GB/s",
      m.architecture == Architecture::bert  ? "bert"
      : m.architecture == Architecture::vit ? "vit"
                                            : m.name,
      m.layers, m.hidden, m.heads, m.kv_heads, m.vocabulary, m.tied_embeddings ? " tied" : "",
      m.mixture ? fmt::format(" experts {} of {} ffn {} shared {} dense {}", m.mixture->per_token, m.mixture->experts,
                              m.mixture->ffn, m.mixture->shared_ffn, m.mixture->first_dense)
                : "",
      m.latent ? fmt::format(" latent q {}", m.latent->query_rank) : "", s.run.workload.global_batch,
      s.run.workload.sequence_length, c.nodes, c.devices_per_node,
      c.device.peak.at(Precision::bf16).in(teraflop_per_second), c.device.memory.in(mebibyte),
      c.levels[1].bandwidth.in(gigabyte_per_second), c.host_memory.in(mebibyte),
      c.host_link ? c.host_link->in(gigabyte_per_second) : 0.0);
  if (s.calibration.memory) out += "; processes";
  for (const auto& [key, values] : s.limits.only) {
    const Dimension& d = dimension(key);
    std::vector<std::string> names;
    for (const std::uint64_t v : values) names.push_back(orrery::text_of(d, v));
    out += fmt::format("; {}={}", key, fmt::join(names, ","));
  }
  return out;
}

}  // namespace

SmallSpace draw_space(std::uint64_t seed) {
  for (std::uint64_t again = 0;; ++again) {
    Draw draw(mix(seed) + again);
    SmallSpace s;
    draw_model(draw, s.run);
    draw_cluster(draw, s.run);
    const auto most = draw.of<std::size_t>({1000, 4000, 4000, 16'000});
    s.extent = {draw.once_in(4), draw.once_in(4), 15 * most};
    if (!has_plans(s)) continue;
    draw_limits(draw, s, most);
    if (mix(seed) % 4 == 0)
      s.calibration.memory = ProcessMemory{2.0 * mebibyte, 0.2 * mebibyte, 0.5 * mebibyte, "drawn"};
    draw_memory(draw, s, count(s, most));
    s.text = text_of(s);
    return s;
  }
}

}  // namespace orrery::test
