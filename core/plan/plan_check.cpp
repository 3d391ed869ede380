#include "core/plan/plan_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/counted.hpp"
#include "core/plan/adapters_check.hpp"
#include "core/plan/architecture_check.hpp"
#include "core/plan/check_context.hpp"
#include "core/plan/chunk_check.hpp"
#include "core/plan/context_check.hpp"
#include "core/plan/grid_check.hpp"
#include "core/plan/head_shares.hpp"
#include "core/plan/memory_check.hpp"
#include "core/plan/mixture_check.hpp"
#include "core/plan/nearest_plan.hpp"
#include "core/plan/order_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/prediction_check.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

// Element counts of buffers and random keys stay below 2^53, exact in a double.
constexpr std::uint64_t count_limit = std::uint64_t{1} << 53;
// Widths and lengths above this are refused before they are multiplied.
constexpr std::uint64_t width_limit = std::uint64_t{1} << 32;

// The product, or count_limit when it is not below that.
std::uint64_t bounded_product(std::initializer_list<std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t f : factors) {
    if (f == 0) return 0;
    if (product >= count_limit / f) return count_limit;
    product *= f;
  }
  return product;
}

std::string mesh_text(const Mesh& mesh) {
  std::string sizes;
  for (const MeshAxis& a : mesh.axes)
    sizes += fmt::format("{}{} {}", sizes.empty() ? "" : " x ", name_of(a.axis), a.size);
  return sizes.empty() ? "no axes" : sizes;
}

// Sizes of the model and workload that the rules below divide by or multiply.
// The readers check them too, with better positions; this guards specs built in memory.
bool check_specs(const CheckContext& c) {
  const auto in_range = [&](const char* name, std::uint64_t value, std::uint64_t limit) {
    if (value >= 1 && value <= limit) return true;
    c.error("", "size", fmt::format("{} is out of range", name),
            {fmt::format("{} is {}; it must be from 1 to {}.", name, value, limit)});
    return false;
  };
  const ModelSpec& m = c.model;
  bool good = in_range("layers", m.layers, plan_size_limit);
  good &= in_range("hidden", m.hidden, width_limit);
  good &= in_range("heads", m.heads, plan_size_limit);
  good &= in_range("kv_heads", m.kv_heads, plan_size_limit);
  good &= in_range("head_dim", m.head_dim, plan_size_limit);
  good &= in_range("ffn", m.ffn, width_limit);
  good &= in_range("vocabulary", m.vocabulary, width_limit);
  good &= in_range("batch", c.workload.global_batch, width_limit);
  good &= in_range("sequence", c.workload.sequence_length, width_limit);
  return good;
}

bool check_mesh(const CheckContext& c) {
  bool good = true;
  bool seen[axis_count] = {};
  std::uint64_t world = 1;
  for (const MeshAxis& a : c.plan.mesh.axes) {
    const std::string key = "mesh." + std::string(name_of(a.axis));
    if (seen[index(a.axis)]) {
      c.error("mesh.order", "mesh-axis", fmt::format("the mesh lists the axis {} twice", name_of(a.axis)),
              {fmt::format("Each of {} may stand only once.", plan_axes_text())});
      good = false;
    }
    seen[index(a.axis)] = true;
    if (a.size > 1 && std::find(plan_axes.begin(), plan_axes.end(), a.axis) == plan_axes.end()) {
      c.error(key, "mesh-axis", fmt::format("no plan uses the mesh axis {}", name_of(a.axis)),
              {fmt::format("The axes are {}.", plan_axes_text())});
      good = false;
    }
    if (a.size < 1 || a.size > plan_size_limit) {
      c.error(key, "mesh-size", fmt::format("the size of the mesh axis {} is out of range", name_of(a.axis)),
              {fmt::format("{} is {}; it must be from 1 to {}.", name_of(a.axis), a.size, plan_size_limit)});
      good = false;
    }
    world = bounded_product({world, a.size});
  }
  if (good && world > plan_size_limit) {
    c.error("mesh", "mesh-world", "the mesh has too many ranks",
            {fmt::format("{} has more than {} ranks.", mesh_text(c.plan.mesh), plan_size_limit)});
    good = false;
  }
  return good;
}

void check_placement(const CheckContext& c) {
  const std::vector<std::uint32_t>& placement = c.plan.placement;
  if (placement.empty()) return;
  const std::uint64_t world = c.plan.mesh.size();
  if (placement.size() != world) {
    c.error("mesh.placement", "placement-size", "the placement needs one device for each rank",
            {fmt::format("The mesh ({}) has {}; the placement has {}.", mesh_text(c.plan.mesh), counted(world, "rank"),
                         counted(placement.size(), "entry", "entries"))});
    return;
  }
  std::vector<std::uint32_t> rank_on(world, 0);  // rank + 1; 0 is free
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const std::uint32_t device = placement[rank];
    if (device < world && rank_on[device] == 0) {
      rank_on[device] = rank + 1;
      continue;
    }
    const std::string why =
        device >= world ? fmt::format("Rank {} is on device {}; devices count from 0 to {}.", rank, device, world - 1)
                        : fmt::format("Ranks {} and {} are both on device {}.", rank_on[device] - 1, rank, device);
    c.error("mesh.placement", "placement", "the placement is not a permutation of the devices", {why});
    return;
  }
}

/// Tensor sizes on both sides of `t` that share out heads and divide `common`.
std::string nearest_shares(const ModelSpec& m, const Workload& w, std::uint64_t common, std::uint64_t t) {
  const auto valid = [&](std::uint64_t n) {
    return common % n == 0 && shares_out_heads(m, n) && kv_copies_obstacle(m, w, n).empty();
  };
  std::string list;
  const std::uint64_t most = std::gcd(common, m.heads);
  std::uint64_t below = std::min(t - 1, most), above = t + 1;
  while (below > 0 && !valid(below)) --below;
  while (above <= most && !valid(above)) ++above;
  if (below > 0) list += std::to_string(below);
  if (above <= most) list += (list.empty() ? "" : ", ") + std::to_string(above);
  return fmt::format("Nearest valid tensor sizes: {}.", list);
}

// The tensor axis cuts heads and the feed-forward width into equal parts, and key-value heads where there are enough.
void check_tensor(const CheckContext& c) {
  check_grid(c.plan, c.model, c.out);
  if (c.plan.tensor != TensorAlgorithm::one_d) return;
  const std::uint64_t t = c.plan.mesh.size(Axis::tensor);
  const std::uint64_t s = c.workload.sequence_length;
  const bool cut_sequence = c.plan.sequence_parallel && t > 1;
  std::uint64_t common = std::gcd(c.model.heads, c.model.ffn);
  if (cut_sequence) common = std::gcd(common, s);
  const auto leaves = [&](const char* name, std::uint64_t n) {
    return fmt::format("{} is {}, and {} / {} leaves {}.", name, n, n, t, n % t);
  };
  const std::string nearest = nearest_shares(c.model, c.workload, common, t);
  if (c.model.heads % t != 0) {
    c.error("mesh.tensor", "tensor-heads", "the tensor size does not divide heads",
            {leaves("heads", c.model.heads), nearest});
  } else if (!shares_out_heads(c.model, t)) {
    c.error("mesh.tensor", "tensor-kv-heads", "the tensor size neither divides kv_heads nor is a multiple of them",
            {fmt::format("kv_heads is {0}; {0} / {1} leaves {2}, and {1} / {0} leaves {3}.", c.model.kv_heads, t,
                         c.model.kv_heads % t, t % c.model.kv_heads),
             "A rank gets whole key-value heads with their queries, or shares one with as many ranks as the others do.",
             nearest});
  } else if (const std::string why = kv_copies_obstacle(c.model, c.workload, t); !why.empty()) {
    c.error("mesh.tensor", "tensor-kv-copies", "tensor ranks cannot have copies of the key-value heads here",
            {fmt::format("kv_heads is {}, and tensor {}.", c.model.kv_heads, t), why, nearest});
  } else if (c.model.ffn % t != 0) {
    c.error("mesh.tensor", "tensor-ffn", "the tensor size does not divide ffn", {leaves("ffn", c.model.ffn), nearest});
  }
  if (c.plan.sequence_parallel && t == 1) {
    c.error(
        "plan.sequence_parallel", "sequence-parallel-tensor", "sequence parallelism needs a tensor axis",
        {"It cuts the sequence along the tensor axis, and tensor is 1.", "Set it to false, or tensor to 2 or more."});
  } else if (cut_sequence && s % t != 0) {
    c.error("plan.sequence_parallel", "sequence-parallel-length", "the tensor size does not divide the sequence length",
            {leaves("sequence", s), nearest});
  }
}

// What a schedule asks of the chunks on each rank.
bool check_schedule(const CheckContext& c) {
  if (!check_order(c.plan, c.out)) return false;
  const ScheduleRules& rules = rules_of(c.plan.schedule);
  const std::uint64_t p = c.plan.mesh.size(Axis::pipeline);
  const std::uint64_t chunks = c.plan.chunks;
  const std::string schedule(name_of(c.plan.schedule));
  if (chunks < rules.least_chunks || (rules.most_chunks > 0 && chunks > rules.most_chunks)) {
    const bool one = rules.least_chunks == rules.most_chunks;
    c.error("plan.chunks", "chunks-schedule",
            fmt::format("{} cannot use {} on each rank", schedule, counted(chunks, "model chunk")),
            {fmt::format("chunks is {}; {} takes {}{}.", chunks, schedule, one ? "exactly " : "at least ",
                         rules.least_chunks),
             one && chunks > 1
                 ? fmt::format("Set chunks to {}, or schedule to interleaved or breadth-first.", rules.least_chunks)
                 : fmt::format("Set chunks to {}.", rules.least_chunks)});
    return false;
  }
  if (p * chunks > c.model.layers && !c.plan.stage_layers) {
    c.error("plan.chunks", "chunks-layers", "there are more model chunks than layers",
            {fmt::format("pipeline {} x chunks {} is {}; {} has {}.", p, chunks, p * chunks,
                         c.model.name.empty() ? "the model" : c.model.name, counted(c.model.layers, "layer")),
             c.model.layers / p >= rules.least_chunks
                 ? fmt::format("Largest valid chunks: {}.", c.model.layers / p)
                 : fmt::format("{} needs at least {} layers here; largest valid pipeline size: {}.", schedule,
                               p * rules.least_chunks, c.model.layers / rules.least_chunks)});
    return false;
  }
  if (p * chunks > stage_limit) {
    c.error("plan.chunks", "chunks-stages", "there are too many model chunks",
            {fmt::format("pipeline {} x chunks {} is {}; at most {} are handled.", p, chunks, p * chunks, stage_limit),
             fmt::format("Largest valid chunks: {}.", stage_limit / p)});
    return false;
  }
  return true;
}

// Rules of schedules that work in pairs: of ranks, and of microbatches for the two directions.
void check_even(const CheckContext& c, std::uint64_t count, std::uint64_t batch, const std::string& divisors) {
  const bool two_way = stage_map(c.plan).two_way();
  const std::uint64_t p = c.plan.mesh.size(Axis::pipeline);
  const std::string schedule(name_of(c.plan.schedule));
  if (!two_way) return;
  if (p % 2 != 0) {
    c.error("mesh.pipeline", "schedule-ranks", fmt::format("{} needs an even number of pipeline ranks", schedule),
            {fmt::format("pipeline is {}.", p),
             p > 1 ? fmt::format("Nearest valid pipeline sizes: {} and {}.", p - 1, p + 1) : "Set pipeline to 2."});
    return;
  }
  if (count % 2 == 0 || count < rules_of(c.plan.schedule).least_rounds * p) return;
  c.error("plan.microbatch_size", "schedule-halves", fmt::format("{} needs an even number of microbatches", schedule),
          {fmt::format("Each direction has half of them; batch {} / {} / microbatch_size {} is {}.",
                       c.workload.global_batch, divisors, c.plan.microbatch_size, count),
           batch % 2 == 0
               ? nearest_divisors(batch / 2, c.plan.microbatch_size, "microbatch sizes")
               : fmt::format("No microbatch size works, because {} is odd; schedule 1f1b takes any number.", batch)});
}

// Rules of schedules that work in rounds of one microbatch per rank.
void check_rounds(const CheckContext& c, std::uint64_t count, std::uint64_t batch, const std::string& divisors) {
  const std::uint64_t p = c.plan.mesh.size(Axis::pipeline);
  if (!rules_of(c.plan.schedule).whole_rounds || count % p == 0) return;
  c.error("plan.microbatch_size", "schedule-rounds",
          fmt::format("{} needs a number of microbatches that is a multiple of the pipeline size",
                      name_of(c.plan.schedule)),
          {fmt::format("batch {} / {} / microbatch_size {} is {}, and {} / {} leaves {}.", c.workload.global_batch,
                       divisors, c.plan.microbatch_size, count, count, p, count % p),
           batch % p == 0 ? nearest_divisors(batch / p, c.plan.microbatch_size, "microbatch sizes")
                          : fmt::format("No microbatch size works, because {} does not divide {}; schedule 1f1b or "
                                        "breadth-first takes any number.",
                                        p, batch)});
}

// Rules of schedules that need many microbatches to begin with.
void check_fill(const CheckContext& c, std::uint64_t count, std::uint64_t batch, const std::string& divisors) {
  const std::uint64_t p = c.plan.mesh.size(Axis::pipeline);
  const std::uint64_t least = rules_of(c.plan.schedule).least_rounds * p;
  if (count >= least) return;
  std::uint64_t size = batch / least;
  while (size > 0 && batch % size != 0) --size;
  c.error("plan.microbatch_size", "schedule-few", fmt::format("{} needs more microbatches", name_of(c.plan.schedule)),
          {fmt::format("batch {} / {} / microbatch_size {} is {}; pipeline {} needs at least {}.",
                       c.workload.global_batch, divisors, c.plan.microbatch_size, count, p, least),
           size > 0 ? fmt::format("Nearest valid microbatch size: {}.", size)
                    : fmt::format("No microbatch size gives that many; schedule zb-v takes any number.")});
}

// Rules of the times for which an order is searched.
void check_action_times(const CheckContext& c) {
  const ActionTimes& t = c.plan.action_times;
  if (t == ActionTimes{}) return;
  if (c.plan.schedule != ScheduleName::zb_v) {
    c.error(
        "plan.action_times", "action-times-schedule", "action_times is for schedule zb-v only",
        {fmt::format("schedule is {}.", name_of(c.plan.schedule)), "Set schedule to zb-v, or leave out action_times."});
  }
  const std::uint32_t least = std::min({t.forward, t.input_gradient, t.weight_gradient});
  const std::uint32_t most = std::max({t.forward, t.input_gradient, t.weight_gradient, t.message});
  if (least == 0 || most > plan_size_limit) {
    c.error(
        "plan.action_times", "action-times", "the time of an action is out of range",
        {fmt::format("They are {0}, {1}, {2} and {3}; the first three must be from 1 to {4}, the last from 0 to {4}.",
                     t.forward, t.input_gradient, t.weight_gradient, t.message, plan_size_limit)});
  }
}

void check_stages(const CheckContext& c) {
  const std::uint64_t p = c.plan.mesh.size(Axis::pipeline);
  const std::uint64_t layers = c.model.layers;
  if (p > layers && !c.plan.stage_layers) {
    c.error("mesh.pipeline", "pipeline-layers", "there are more pipeline stages than layers",
            {fmt::format("pipeline is {}; {} has {}.", p, c.model.name.empty() ? "the model" : c.model.name,
                         counted(layers, "layer")),
             fmt::format("Nearest valid pipeline size: {}.", layers)});
    return;
  }
  if (p > stage_limit) {
    c.error("mesh.pipeline", "pipeline-stages", "there are too many pipeline stages",
            {fmt::format("pipeline is {}; at most {} are handled.", p, stage_limit),
             fmt::format("Nearest valid pipeline size: {}.", stage_limit)});
    return;
  }
  if (!check_schedule(c)) return;
  if (!c.plan.stage_layers) return;
  const std::vector<std::uint32_t>& stages = *c.plan.stage_layers;
  if (stages.size() != p * c.plan.chunks) {
    c.error("plan.stage_layers", "stage-count", "stage_layers needs one number for each pipeline stage",
            {c.plan.chunks == 1
                 ? fmt::format("pipeline is {}; stage_layers has {}.", p, counted(stages.size(), "entry", "entries"))
                 : fmt::format("pipeline {} x chunks {} is {}; stage_layers has {}.", p, c.plan.chunks,
                               p * c.plan.chunks, counted(stages.size(), "entry", "entries"))});
    return;
  }
  const bool ahead = c.plan.zero_stage == 3 && c.plan.prefetch > 0 && !shard_axes_of(c.plan).empty();
  if (ahead && stages.size() > 1 && (stages.front() == 0 || stages.back() == 0)) {
    c.error("plan.prefetch", "stage-prefetch", "weights cannot be gathered ahead without a layer beside them",
            {fmt::format("The {} stage has no layer; its {} gathers the layer next to it ahead.",
                         stages.front() == 0 ? "first" : "last", stages.front() == 0 ? "embedding" : "head"),
             "Set prefetch to 0, or give the stage a layer."});
    return;
  }
  const std::uint64_t sum = std::accumulate(stages.begin(), stages.end(), std::uint64_t{0});
  if (sum != layers) {
    c.error("plan.stage_layers", "stage-sum", "stage_layers does not sum to the model's layers",
            {fmt::format("The entries sum to {}; the model has {}.", sum, counted(layers, "layer")),
             sum < layers ? fmt::format("Add {} to some stage.", layers - sum)
                          : fmt::format("Take {} from some stage.", sum - layers)});
  }
}

// Advice for a plan with more than `most` microbatches in a replica's batch.
std::string larger_microbatch(std::uint64_t batch, std::uint64_t most) {
  const auto size = divisor_between(batch, (batch + most - 1) / most, plan_size_limit);
  return size ? fmt::format("Nearest valid microbatch size: {}.", *size)
              : "No microbatch size makes them few enough: reduce the batch, or raise data.";
}

// The divisors of the batch as text, "replica 2 / data 4", without axes of size 1 other than data.
std::string batch_divisors(const Plan& plan) {
  std::string text;
  for (const Axis axis : sequence_axes(plan)) {
    if (axis != Axis::data && plan.mesh.size(axis) == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " / ", name_of(axis), plan.mesh.size(axis));
  }
  return text;
}

void check_batch(const CheckContext& c) {
  const std::uint64_t m = c.plan.microbatch_size;
  const std::uint64_t b = c.workload.global_batch;
  if (m < 1 || m > plan_size_limit) {
    c.error("plan.microbatch_size", "microbatch-size", "the microbatch size is out of range",
            {fmt::format("microbatch_size is {}; it must be from 1 to {}.", m, plan_size_limit)});
    return;
  }
  std::uint64_t left = b;  // sequences that the axes so far leave to one rank
  std::string before = fmt::format("batch is {}", b);
  for (const Axis axis : sequence_axes(c.plan)) {
    const std::uint64_t n = c.plan.mesh.size(axis);
    if (left % n != 0) {
      const std::string name(name_of(axis));
      const std::string key = "mesh." + name;
      std::string message = fmt::format("the {} size does not divide the global batch", name);
      std::vector<std::string> details = {fmt::format("{}, and {} / {} leaves {}.", before, left, n, left % n),
                                          nearest_divisors(left, n, name + " sizes")};
      if (axis == Axis::replica) {
        c.error(key, "replica-batch", std::move(message), std::move(details));
      } else if (axis == Axis::data) {
        c.error(key, "data-batch", std::move(message), std::move(details));
      } else if (axis == Axis::expert) {
        c.error(key, "expert-batch", std::move(message), std::move(details));
      } else {
        c.error(key, "grid-batch", std::move(message), std::move(details));
      }
      return;
    }
    left /= n;
    if (n > 1) before += fmt::format(", {} {} leaves {}", name_of(axis), n, left);
  }
  const std::string divisors = batch_divisors(c.plan);
  if (left % m != 0) {
    c.error("plan.microbatch_size", "microbatch-batch", "the microbatch size does not divide a replica's batch",
            {fmt::format("batch {} / {} is {}, and {} / {} leaves {}.", b, divisors, left, left, m, left % m),
             nearest_divisors(left, m, "microbatch sizes")});
  } else if (left / m > plan_size_limit) {
    c.error("plan.microbatch_size", "microbatch-count", "a step has too many microbatches",
            {fmt::format("batch {} / {} / microbatch_size {} is {}; at most {} are handled.", b, divisors, m, left / m,
                         plan_size_limit),
             larger_microbatch(left, plan_size_limit)});
  } else if (const std::uint64_t p = std::uint64_t{c.plan.mesh.size(Axis::pipeline)} * c.plan.chunks;
             left / m * p > stage_microbatch_limit) {
    c.error("plan.microbatch_size", "stage-microbatches", "the pipeline has too many microbatches for its stages",
            {fmt::format("batch {} / {} / microbatch_size {} is {} microbatches; the most for {} stages is {}.", b,
                         divisors, m, left / m, p, stage_microbatch_limit / p),
             larger_microbatch(left, stage_microbatch_limit / p)});
  } else {
    check_rounds(c, left / m, left, divisors);
    check_fill(c, left / m, left, divisors);
    check_even(c, left / m, left, divisors);
    check_order_microbatches(c.plan, c.workload, left / m, divisors, c.out);
  }
}

// Whether the rules about sizes hold with another mesh.
bool holds_with(const CheckContext& c, const Mesh& mesh) {
  if (c.model.heads % mesh.size(Axis::tensor) != 0) return false;  // most fail here, at once
  Plan plan = c.plan;
  plan.mesh = mesh;
  Diagnostics wrong;
  const CheckContext other{plan, c.model, c.workload, wrong};
  check_tensor(other);
  check_context(plan, c.model, c.workload, wrong);
  check_mixture(plan, c.model, c.workload, wrong);
  check_stages(other);
  check_batch(other);
  return wrong.empty();
}

void check_cluster(const CheckContext& c, const ClusterSpec& cluster, bool specs) {
  if (c.plan.collective_algorithm == CollectiveAlgorithm::in_network &&
      std::none_of(cluster.levels.begin(), cluster.levels.end(),
                   [](const auto& l) { return l.switches.has_value(); })) {
    std::string levels;
    for (const NetworkLevel& l : cluster.levels) levels += (levels.empty() ? "" : ", ") + l.name;
    c.error("plan.collective_algorithm", "in-network", "no switch of the cluster can add up messages",
            {fmt::format("{} has {}; none has switches = \"nvls\" or \"sharp\".", cluster.name,
                         levels.empty() ? "no network" : "the levels " + levels),
             "\"ring\", \"tree\" and \"recursive\" need no such switch; without a choice the cheapest is taken."});
  }
  const std::uint64_t world = c.plan.mesh.size();
  const std::uint64_t devices = cluster.devices();
  if (world != devices) {
    std::vector<std::string> details = {fmt::format(
        "The mesh ({}) has {}; {} has {} ({} x {}).", mesh_text(c.plan.mesh), counted(world, "rank"), cluster.name,
        counted(devices, "device"), counted(cluster.nodes, "node"), cluster.devices_per_node)};
    if (specs && devices >= 1 && devices <= plan_size_limit) {
      const auto valid = [&](const Mesh& mesh) { return holds_with(c, mesh); };
      std::string list;
      for (const Mesh& mesh : nearest_meshes(c.plan.mesh, devices, valid)) {
        list += (list.empty() ? "" : "; ") + mesh_text(mesh);
      }
      details.push_back(list.empty() ? "No mesh of that size suits the model, the batch and the other choices."
                                     : fmt::format("Nearest valid: {}.", list));
    }
    // As Megatron-LM counts them, with an expert-tensor size of 1.
    const std::uint64_t experts = c.plan.mesh.size(Axis::expert), tensor = c.plan.mesh.size(Axis::tensor);
    const bool folds = c.model.mixture && tensor > 1 && !folds_tensor(c.plan) && experts % tensor == 0;
    if (folds && world == devices * tensor) {
      details.push_back(fmt::format("If tensor ranks hold other experts too: expert = {}, expert_folding = \"tensor\".",
                                    experts / tensor));
    }
    c.error("mesh", "world", "the mesh does not cover the cluster", std::move(details));
  }
  for (std::uint32_t kind = 0; kind < node_kinds(cluster); ++kind) {
    const DeviceSpec& device = device_of(cluster, kind);
    if (device.peak.contains(c.workload.precision)) continue;
    std::string known;
    for (const auto& [precision, rate] : device.peak)
      known += (known.empty() ? "" : ", ") + std::string(name_of(precision));
    c.error("workload.precision", "precision", "the device does not compute in the workload's precision",
            {fmt::format("The workload is in {}; {} supports {}.", name_of(c.workload.precision), device.name,
                         known.empty() ? "nothing" : known)});
  }
}

// Every buffer's element count, and every random key, stays exact in a double.
void check_counts(const CheckContext& c) {
  const std::uint64_t s = c.workload.sequence_length;
  const std::uint64_t rows = bounded_product({s, c.plan.microbatch_size});
  const std::uint64_t qkv =
      bounded_product({c.model.heads + 2 * c.model.kv_heads, key_width(c.model) + value_width(c.model)});
  const std::uint64_t widest = std::max({c.model.hidden, 2 * c.model.ffn, c.model.vocabulary, qkv});
  const std::uint64_t scores = bounded_product({s, c.model.heads});
  const bool keeps_scores = c.plan.attention != AttentionKernel::flash;
  const bool draws_scores = c.workload.attention_dropout > 0.0;
  if (bounded_product({rows, keeps_scores ? std::max(widest, scores) : widest}) < count_limit &&
      bounded_product({c.workload.global_batch, s, draws_scores ? std::max(c.model.hidden, scores) : c.model.hidden}) <
          count_limit &&
      bounded_product({c.model.layers, c.model.hidden, widest}) < count_limit) {
    return;
  }
  c.error("", "overflow", "the sizes multiply to more than 2^53 elements",
          {fmt::format("sequence {}, microbatch_size {}, batch {}, heads {}, hidden {}, ffn {}, vocabulary {}.", s,
                       c.plan.microbatch_size, c.workload.global_batch, c.model.heads, c.model.hidden, c.model.ffn,
                       c.model.vocabulary)});
}

void check_choices(const CheckContext& c) {
  const Plan& plan = c.plan;
  const Workload& w = c.workload;
  if (plan.zero_stage > 3) {
    c.error("plan.zero_stage", "zero-stage", "the ZeRO stage is out of range",
            {fmt::format("zero_stage is {}; it must be from 0 to 3.", plan.zero_stage)});
  }
  if (plan.zero_stage != 3 && !plan.reshard_after_forward) {
    c.error("plan.reshard_after_forward", "reshard-zero", "only ZeRO-3 gathers weights before they are used",
            {fmt::format("zero_stage is {}; weights are whole on every rank.", plan.zero_stage),
             "Set zero_stage to 3, or leave out reshard_after_forward."});
  }
  if (plan.zero_stage != 3 && plan.prefetch != 1) {
    c.error("plan.prefetch", "prefetch-zero", "only ZeRO-3 gathers weights before they are used",
            {fmt::format("zero_stage is {}; weights are whole on every rank.", plan.zero_stage),
             "Set zero_stage to 3, or leave out prefetch."});
  } else if (plan.prefetch > 1) {
    c.error("plan.prefetch", "prefetch", "weights are gathered at most one layer ahead",
            {fmt::format("prefetch is {}; it must be 0 or 1.", plan.prefetch), "Nearest valid prefetch: 1."});
  }
  if (plan.attention == AttentionKernel::flash && recomputes_scores(plan) &&
      plan.recompute_modules == set_of(RecomputeModule::core_attn)) {
    c.error("plan.recompute", "recompute-flash", "selective recomputation has nothing to recompute",
            {"It drops the attention scores, and the flash kernel keeps none.",
             "Set recompute to none, or attention to unfused."});
  }
  if (plan.gradient_bucket) {
    const double bytes = plan.gradient_bucket->base();
    if (!(bytes >= 1.0 && bytes <= static_cast<double>(count_limit)) || bytes != std::floor(bytes)) {
      c.error("plan.gradient_bucket", "bucket", "the gradient bucket is out of range",
              {fmt::format("gradient_bucket is {} bytes; it must be whole bytes from 1 to 2^53.", bytes)});
    }
  }
  if (c.model.positions == PositionEncoding::learned && w.sequence_length > c.model.max_positions) {
    c.error("workload.sequence", "positions", "the sequence is longer than the model's learned positions",
            {fmt::format("sequence is {}; max_positions is {}.", w.sequence_length, c.model.max_positions)});
  }
}

}  // namespace

void check(const Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec* cluster,
           Diagnostics& out) {
  if (!check_priced(model, out)) return;
  const CheckContext c{plan, model, workload, out};
  const bool specs = check_specs(c);
  const bool mesh = check_mesh(c);
  if (mesh) {
    check_placement(c);
    if (cluster != nullptr) check_cluster(c, *cluster, specs);
  }
  check_architecture(plan, model, workload, out);
  check_predictions(plan, model, workload, out);
  check_adapters(plan, model, workload, out);
  if (mesh && specs) {
    check_tensor(c);
    check_context(plan, model, workload, out);
    check_mixture(plan, model, workload, out);
    check_stages(c);
    check_batch(c);
    check_memory_choices(plan, model, workload, out);
    check_parameter_chunk(plan, model, workload, out);
  }
  if (specs) {
    check_counts(c);
    check_choices(c);
    if (mesh) check_action_times(c);
  }
}

}  // namespace orrery
