#include "gui/model/dimension_move.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/space.hpp"

namespace orrery::gui {
namespace {

std::optional<Axis> axis_of(Dimension d) { return info(d).axis; }

void set_size(Mesh& mesh, Axis axis, std::uint32_t size) {
  const auto at = std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis == axis; });
  if (at != mesh.axes.end()) {
    at->size = size;
  } else if (size > 1) {
    const auto behind =
        std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis > axis; });
    mesh.axes.insert(behind, {axis, size});
  }
}

/// The whole root, or nothing.
std::optional<std::uint32_t> exact_root(std::uint64_t n, int power) {
  const auto near = static_cast<std::uint64_t>(std::llround(std::pow(static_cast<double>(n), 1.0 / power)));
  std::uint64_t product = 1;
  for (int i = 0; i < power; ++i) product *= near;
  if (product != n) return std::nullopt;
  return static_cast<std::uint32_t>(near);
}

/// Gives `ranks` ranks to an algorithm of matrix products; false where it takes no such number.
bool set_tensor(Plan& plan, TensorAlgorithm algorithm, std::uint64_t ranks) {
  const std::uint32_t depth = plan.mesh.size(Axis::depth);
  plan.tensor = algorithm;
  for (const Axis a : tensor_axes) set_size(plan.mesh, a, 1);
  const auto grid = [&](std::uint32_t q, std::uint32_t layers) {
    set_size(plan.mesh, Axis::depth, layers);
    set_size(plan.mesh, Axis::row, q);
    set_size(plan.mesh, Axis::column, q);
    return q > 1;
  };
  switch (algorithm) {
    case TensorAlgorithm::one_d: set_size(plan.mesh, Axis::tensor, static_cast<std::uint32_t>(ranks)); return true;
    case TensorAlgorithm::two_d: {
      const auto q = exact_root(ranks, 2);
      return q && grid(*q, 1);
    }
    case TensorAlgorithm::three_d: {
      const auto q = exact_root(ranks, 3);
      return q && grid(*q, *q);
    }
    case TensorAlgorithm::two_half_d: {
      std::vector<std::uint32_t> depths;
      if (depth > 1) depths.push_back(depth);
      for (std::uint32_t d = 2; d <= 8; ++d) depths.push_back(d);
      for (const std::uint32_t d : depths) {
        const auto q = ranks % d == 0 ? exact_root(ranks / d, 2) : std::nullopt;
        if (q && grid(*q, d)) return true;
      }
      return false;
    }
  }
  return false;
}

/// The first rule that the run breaks, with its numbers; empty where it is valid.
std::string violation(const PlannedRun& run) {
  Diagnostics d;
  if (check_sizes(run.model, run.workload, d)) check(run.plan, run.model, run.workload, &*run.cluster, d);
  if (d.empty()) return "";
  const Diagnostic& first = d.list().front();
  std::string out = first.message + ".";
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  for (const std::string& detail : first.details) out += " " + detail;
  return out;
}
bool valid(const PlannedRun& run) { return violation(run).empty(); }

/// What follows from the mesh and the schedule, so that nothing stays behind without its reason.
void follow(const PlannedRun& before, PlannedRun& run) {
  Plan& plan = run.plan;
  const Plan& old = before.plan;
  if (plan.mesh.size() != old.mesh.size()) plan.placement.clear();
  if (stage_map(plan).stages() != stage_map(old).stages() || run.model.layers != before.model.layers) {
    plan.stage_layers.reset();
    plan.recompute_layers.reset();
  }
  if (plan.recompute == Recompute::none) plan.recompute_layers.reset();
  if (plan.mesh.size(Axis::tensor) == 1) plan.sequence_parallel = false;
  if (plan.mesh.size(Axis::context) == 1) {
    plan.context = Plan{}.context;
    plan.zigzag = false;
  }
  if (plan.mesh.size(Axis::context) != old.mesh.size(Axis::context) || plan.context != ContextAlgorithm::ring) {
    plan.inner_ring = 0;
  }
  if (plan.zero_stage < 3) {
    plan.reshard_after_forward = Plan{}.reshard_after_forward;
    plan.prefetch = Plan{}.prefetch;
    plan.parameter_chunk = Plan{}.parameter_chunk;
  }
  if (plan.schedule != ScheduleName::custom) {
    plan.order_file.clear();
    plan.order.clear();
    plan.order_placement = Plan{}.order_placement;
  }
  if (plan.tensor != TensorAlgorithm::three_d) plan.save_gathered = false;
}

std::uint64_t sequences_of_rank(const PlannedRun& run) {
  return std::max<std::uint64_t>(1, run.workload.global_batch / size(run.plan.mesh, sequence_axes(run.plan)));
}

/// Ways to mend a run that breaks a rule, the smallest first; each is tried with those before it.  `fixed` is what was
/// asked for.
bool mend(PlannedRun& run, Dimension fixed) {
  if (valid(run)) return true;
  const PlannedRun plain = run;
  const std::function<void()> mendings[] = {
      [&] {  // the largest microbatch that divides, no larger than it is
        if (fixed == Dimension::microbatch_size) return;
        const std::uint64_t sequences = sequences_of_rank(run);
        std::uint64_t size = std::min<std::uint64_t>(run.plan.microbatch_size, sequences);
        while (size > 1 && sequences % size != 0) --size;
        run.plan.microbatch_size = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, size));
      },
      [&] {  // as many chunks as the schedule takes
        if (fixed == Dimension::chunks) return;
        const ScheduleRules& rules = rules_of(run.plan.schedule);
        run.plan.chunks = std::max(run.plan.chunks, rules.least_chunks);
        if (rules.most_chunks > 0) run.plan.chunks = std::min(run.plan.chunks, rules.most_chunks);
        run.plan.stage_layers.reset();
        run.plan.recompute_layers.reset();
      },
      [&] {
        if (fixed != Dimension::attention) run.plan.attention.reset();
      },
      [&] {
        if (fixed != Dimension::recompute && run.plan.recompute == Recompute::selective) {
          run.plan.recompute = Recompute::none;
        }
      },
      [&] { run.plan.zigzag = false; },
      [&] {  // smaller microbatches are more of them, which many schedules want
        if (fixed != Dimension::microbatch_size) run.plan.microbatch_size = 1;
      },
      [&] {  // the schedule that asks for least
        if (fixed == Dimension::schedule) return;
        run.plan.schedule = ScheduleName::one_f_one_b;
        if (fixed != Dimension::chunks) run.plan.chunks = 1;
        follow(plain, run);
      },
      [&] {
        if (fixed != Dimension::zero_stage) run.plan.zero_stage = std::min(run.plan.zero_stage, 1U);
        if (fixed != Dimension::offload_parameters) run.plan.offload_parameters = 0;
        follow(plain, run);
      },
      [&] {
        if (fixed != Dimension::sequence_parallel) run.plan.sequence_parallel = false;
      },
  };
  for (const auto& mending : mendings) {
    mending();
    if (valid(run)) return true;
  }
  run = plain;
  return false;
}

/// Makes the mesh cover the cluster and the run valid: as it stands, with more or less data, and where the mesh was
/// turned (or devices, model or cluster, as Dimension::devices) with the nearest mesh.  What was asked for stays.
bool settle(const PlannedRun& before, PlannedRun& run, Dimension fixed, std::string& reason) {
  const std::optional<Axis> axis = axis_of(fixed);
  const bool tensor = fixed == Dimension::tensor || fixed == Dimension::tensor_algorithm;
  const std::uint64_t devices = run.cluster->devices();
  follow(before, run);
  const std::uint64_t rest = run.plan.mesh.size() / run.plan.mesh.size(Axis::data);
  if (axis != Axis::data && devices % rest == 0) {
    PlannedRun with_data = run;
    set_size(with_data.plan.mesh, Axis::data, static_cast<std::uint32_t>(devices / rest));
    follow(before, with_data);
    reason = violation(with_data);
    if (mend(with_data, fixed)) return run = std::move(with_data), true;
  } else {
    reason = violation(run);
    if (mend(run, fixed)) return true;
  }
  // Who turns a schedule or a batch does not ask for another mesh.
  if (!axis && fixed != Dimension::devices && fixed != Dimension::tensor_algorithm) return false;
  const std::uint64_t tensor_ranks = size(run.plan.mesh, tensor_axes);
  std::optional<PlannedRun> found;
  const auto suits = [&](const Mesh& mesh) {
    if (axis && !tensor && mesh.size(*axis) != run.plan.mesh.size(*axis)) return false;
    if (tensor && size(mesh, tensor_axes) != tensor_ranks) return false;
    if (run.plan.tensor != TensorAlgorithm::one_d && mesh.size(Axis::tensor) != 1) return false;
    PlannedRun other = run;
    other.plan.mesh = mesh;
    follow(before, other);
    if (!mend(other, fixed)) return false;
    found = std::move(other);
    return true;
  };
  if (!nearest_meshes(run.plan.mesh, devices, suits, 1).empty()) return run = std::move(*found), true;
  return false;
}

/// What changed besides the dimension itself, in the words of plan files.
std::vector<std::string> changes(const PlannedRun& before, const PlannedRun& after, std::string_view key) {
  std::vector<std::string> out;
  const std::vector<Decision> old = decisions(before.plan), now = decisions(after.plan);
  const auto value = [](const std::vector<Decision>& list, const std::string& k) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const Decision& d) { return d.key == k; });
    return at == list.end() ? std::string() : at->value;
  };
  const auto tell = [&](const std::string& k) {
    if (k == key || k == "mesh.order") return;
    const std::string from = value(old, k), to = value(now, k);
    if (from == to) return;
    const std::string name = k.substr(k.find('.') + 1);
    if (to.size() > 24 || from.size() > 24 || from.empty()) {
      out.push_back(fmt::format("{} to {}", name, to.empty() ? "its default" : to));
    } else {
      out.push_back(fmt::format("{} {} to {}", name, from, to.empty() ? "its default" : to));
    }
  };
  for (const Decision& d : old) tell(d.key);
  for (const Decision& d : now) {
    if (value(old, d.key).empty()) tell(d.key);
  }
  return out;
}

std::vector<std::uint64_t> divisors_of(std::uint64_t n) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::uint64_t> doublings(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = from; n <= to; n *= 2) out.push_back(n);
  return out;
}

std::vector<std::uint64_t> up_to(std::uint64_t most) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = 0; n <= most; ++n) out.push_back(n);
  return out;
}

/// Values worth trying; those that are legal are among them.
std::vector<std::uint64_t> candidates(const PlannedRun& run, Dimension d) {
  const ClusterSpec& cluster = *run.cluster;
  switch (d) {
    case Dimension::devices: {
      std::vector<std::uint64_t> out = divisors_of(cluster.devices_per_node);
      for (std::uint64_t nodes = 2; nodes * cluster.devices_per_node <= 65'536; nodes *= 2) {
        out.push_back(nodes * cluster.devices_per_node);
      }
      return out;
    }
    case Dimension::batch: return doublings(1, 65'536);
    case Dimension::sequence: return doublings(128, std::uint64_t{1} << 20);
    case Dimension::data:
    case Dimension::tensor:
    case Dimension::pipeline:
    case Dimension::context:
    case Dimension::expert:
    case Dimension::replica: return divisors_of(cluster.devices());
    case Dimension::microbatch_size: return divisors_of(sequences_of_rank(run));
    case Dimension::chunks: {
      std::vector<std::uint64_t> out =
          up_to(std::min<std::uint64_t>(run.model.layers / run.plan.mesh.size(Axis::pipeline), 64));
      out.erase(out.begin());
      return out;
    }
    case Dimension::zero_stage: return up_to(3);
    case Dimension::recompute_layers:
      // A stage's recomputed layers are worth counting where any are.
      return run.plan.recompute == Recompute::none ? std::vector<std::uint64_t>{0} : up_to(most_stage_layers(run));
    case Dimension::inner_ring: {
      std::vector<std::uint64_t> out = divisors_of(run.plan.mesh.size(Axis::context));
      out.front() = 0;  // one ring
      return out;
    }
    case Dimension::prefetch: return up_to(1);
    case Dimension::gradient_bucket: {
      std::vector<std::uint64_t> out = doublings(1, 1024);
      out.insert(out.begin(), 0);
      return out;
    }
    case Dimension::precision:
    case Dimension::optimizer:
    case Dimension::tensor_algorithm:
    case Dimension::context_algorithm:
    case Dimension::schedule:
    case Dimension::sequence_parallel:
    case Dimension::recompute:
    case Dimension::attention:
    case Dimension::overlap_gradients:
    case Dimension::offload_states:
    case Dimension::offload_parameters:
    case Dimension::offload_activations:
    case Dimension::states_tier:
    case Dimension::parameters_tier:
    case Dimension::activations_tier:
    case Dimension::zigzag:
    case Dimension::save_gathered:
    case Dimension::reshard_after_forward:
    case Dimension::parameter_chunk:
    case Dimension::collective_algorithm: return up_to(info(d).names().size() - 1);
  }
  return {};
}

/// As many layers of each stage, where it has them; all of them is what a plan without counts says.
bool put_recomputed(PlannedRun& run, std::uint32_t layers, std::string& reason) {
  Plan& plan = run.plan;
  if (plan.recompute == Recompute::none) {
    reason = "Nothing is recomputed.";
    return layers == 0;
  }
  const std::uint32_t most = most_stage_layers(run);
  if (layers > most) {
    reason = fmt::format("A stage has {} layers at most.", most);
    return false;
  }
  plan.recompute_layers.reset();
  if (layers == most) return true;
  const std::uint32_t stages = stage_map(plan).stages();
  if (!plan.stage_layers) plan.stage_layers = uneven_stages(run.model.layers, stages, 0).front();
  for (const std::uint32_t held : *plan.stage_layers) {
    if (!plan.recompute_layers) plan.recompute_layers.emplace();
    plan.recompute_layers->push_back(std::min(held, layers));
  }
  return true;
}

/// A tier says something only of what is offloaded.
bool put_tier(OffloadTier& tier, const std::optional<std::uint32_t>& offloaded, std::uint64_t value,
              std::string& reason) {
  tier = static_cast<OffloadTier>(value);
  if (tier == OffloadTier::host || offloaded != 0U) return true;
  reason = "Nothing of it is offloaded.";
  return false;
}

/// Puts the value in place, without anything that follows; false where it means nothing.
bool put(PlannedRun& run, Dimension d, std::uint64_t value, std::string& reason) {
  Plan& plan = run.plan;
  Workload& work = run.workload;
  const auto small = static_cast<std::uint32_t>(std::min<std::uint64_t>(value, plan_size_limit));
  const auto eighths = value == open_offload ? std::nullopt : std::optional(small);
  switch (d) {
    case Dimension::devices: {
      Diagnostics wrong;
      auto other = resized(*run.cluster, small, wrong);
      if (!other) {
        const Diagnostic& first = wrong.list().front();
        reason = first.message + ".";
        for (const std::string& detail : first.details) reason += " " + detail;
        return false;
      }
      run.cluster = std::move(other);
      return true;
    }
    case Dimension::batch: work.global_batch = value; break;
    case Dimension::sequence: work.sequence_length = value; break;
    case Dimension::precision:
      work.precision = static_cast<Precision>(value);
      work.gradient_dtype.reset();
      work.moment_dtype.reset();
      break;
    case Dimension::optimizer: {
      Optimizer usual;
      usual.kind = static_cast<OptimizerKind>(value);
      usual.learning_rate = work.optimizer.learning_rate;
      usual.weight_decay = work.optimizer.weight_decay;
      if (usual.kind == OptimizerKind::sgd || usual.kind == OptimizerKind::lars) usual.momentum = 0.9;
      work.optimizer = usual;
      work.moment_dtype.reset();
      break;
    }
    case Dimension::tensor:
      if (set_tensor(plan, plan.tensor, value)) return true;
      reason = fmt::format("{} ranks make no {} grid.", value, name_of(plan.tensor));
      return false;
    case Dimension::tensor_algorithm: {
      const std::uint64_t ranks = size(plan.mesh, tensor_axes);
      const auto algorithm = static_cast<TensorAlgorithm>(value);
      // The same number of ranks, else the nearest one above that makes a grid.
      for (std::uint64_t n = ranks; n <= std::max<std::uint64_t>(64, 2 * ranks); ++n) {
        if (run.cluster->devices() % n == 0 && set_tensor(plan, algorithm, n)) return true;
      }
      reason = fmt::format("No number of ranks from {} on that divides {} devices makes a {} grid.", ranks,
                           run.cluster->devices(), name_of(algorithm));
      return false;
    }
    case Dimension::data:
    case Dimension::pipeline:
    case Dimension::context:
    case Dimension::expert:
    case Dimension::replica: set_size(plan.mesh, *axis_of(d), small); break;
    case Dimension::context_algorithm: plan.context = static_cast<ContextAlgorithm>(value); break;
    case Dimension::microbatch_size: plan.microbatch_size = small; break;
    case Dimension::schedule: {
      plan.schedule = static_cast<ScheduleName>(value);
      if (plan.schedule != ScheduleName::custom) break;
      reason = "A schedule of one's own is written in a file that the plan names.";
      return !plan.order.empty();
    }
    case Dimension::chunks: plan.chunks = small; break;
    case Dimension::sequence_parallel: plan.sequence_parallel = value != 0; break;
    case Dimension::recompute:
      plan.recompute = static_cast<Recompute>(value);
      plan.recompute_layers.reset();
      break;
    case Dimension::attention:
      plan.attention = value == 0 ? std::nullopt : std::optional(static_cast<AttentionKernel>(value - 1));
      break;
    case Dimension::zero_stage: plan.zero_stage = small; break;
    case Dimension::overlap_gradients:
      plan.overlap_gradients = value == 0 ? std::nullopt : std::optional(value == 2);
      break;
    case Dimension::offload_states:
      plan.offload_states = eighths;
      if (value == 0) plan.states_tier = OffloadTier::host;
      if (eighths && plan.offload_parameters && *plan.offload_parameters > *eighths) plan.offload_parameters = eighths;
      break;
    case Dimension::offload_parameters:
      plan.offload_parameters = eighths;
      if (value == 0) plan.parameters_tier = OffloadTier::host;
      if (eighths && plan.offload_states && *plan.offload_states < *eighths) plan.offload_states = eighths;
      break;
    case Dimension::offload_activations:
      plan.offload_activations = eighths;
      if (value == 0) plan.activations_tier = OffloadTier::host;
      break;
    case Dimension::recompute_layers: return put_recomputed(run, small, reason);
    case Dimension::states_tier: return put_tier(plan.states_tier, plan.offload_states, value, reason);
    case Dimension::parameters_tier: return put_tier(plan.parameters_tier, plan.offload_parameters, value, reason);
    case Dimension::activations_tier: return put_tier(plan.activations_tier, plan.offload_activations, value, reason);
    case Dimension::zigzag: plan.zigzag = value != 0; break;
    case Dimension::inner_ring: plan.inner_ring = small; break;
    case Dimension::save_gathered: plan.save_gathered = value != 0; break;
    case Dimension::reshard_after_forward: plan.reshard_after_forward = value != 0; break;
    case Dimension::prefetch: plan.prefetch = small; break;
    case Dimension::parameter_chunk:
      if (value < written_chunk) {
        plan.parameter_chunk = chunk_of(value);
        break;
      }
      reason = "Other sizes are written in the plan file.";
      return value_of(run, d) == value;
    case Dimension::gradient_bucket:
      plan.gradient_bucket =
          value == 0 ? std::nullopt : std::optional(Bytes::of(static_cast<double>(small) * mebibyte.base()));
      break;
    case Dimension::collective_algorithm:
      plan.collective_algorithm =
          value == 0 ? std::nullopt : std::optional(static_cast<CollectiveAlgorithm>(value - 1));
      break;
  }
  return true;
}

/// Without the places in the files that it was read from: they belong to the text as written.
PlannedRun unplaced(const PlannedRun& run) {
  PlannedRun out = run;
  out.plan.origin = {};
  out.workload.origin = {};
  out.model.origin = {};
  out.cluster->origin = {};
  return out;
}

double apart(std::uint64_t a, std::uint64_t b) {
  const double x = static_cast<double>(a) + 1e-3, y = static_cast<double>(b) + 1e-3;
  return std::max(x, y) / std::min(x, y);
}

/// moved(), without what changed.
std::optional<PlannedRun> moved_run(const PlannedRun& given, Dimension d, std::uint64_t value, std::string& reason) {
  reason.clear();
  PlannedRun run = given;
  if (!put(run, d, value, reason)) return std::nullopt;
  if (!settle(given, run, d, reason)) return std::nullopt;
  // What mends a rule must not undo the wish.
  if (value_of(run, d) != value) return std::nullopt;
  reason.clear();
  return run;
}

}  // namespace

std::optional<Move> moved(const PlannedRun& given, Dimension d, std::uint64_t value, std::string& reason) {
  auto run = moved_run(unplaced(given), d, value, reason);
  if (!run) return std::nullopt;
  Move out{std::move(*run), {}};
  out.also = changes(given, out.run, info(d).key);
  return out;
}

LegalValues legal_values(const PlannedRun& run, Dimension d) {
  LegalValues out;
  std::vector<std::uint64_t> all = candidates(run, d);
  const std::uint64_t own = value_of(run, d);
  if (std::find(all.begin(), all.end(), own) == all.end()) all.push_back(own);
  std::sort(all.begin(), all.end());
  std::string reason;
  const PlannedRun from = unplaced(run);
  for (const std::uint64_t v : all) {
    if (v == own || moved_run(from, d, v, reason)) {
      out.values.push_back(v);
    } else if (info(d).form == DimensionForm::choice) {
      out.refused.push_back(v);
    }
  }
  return out;
}

Answer answer(const PlannedRun& run, Dimension d, std::uint64_t wish) {
  std::string reason;
  if (auto move = moved(run, d, wish, reason)) return {wish, std::move(*move), ""};
  std::vector<std::uint64_t> near = legal_values(run, d).values;
  // Numbers that are not in the list: multiples of what a step of the pipeline takes, on both sides of the wish.
  if (d == Dimension::batch) {
    const std::uint64_t unit = size(run.plan.mesh, sequence_axes(run.plan)) * run.plan.microbatch_size;
    near.push_back(wish / unit * unit);
    near.push_back((wish / unit + 1) * unit);
  }
  std::sort(near.begin(), near.end());
  std::stable_sort(near.begin(), near.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return apart(a, wish) < apart(b, wish); });
  for (const std::uint64_t v : near) {
    std::string ignored;
    if (v == value_of(run, d)) return {v, {run, {}}, std::move(reason)};
    if (auto move = moved(run, d, v, ignored)) return {v, std::move(*move), std::move(reason)};
  }
  return {value_of(run, d), {run, {}}, std::move(reason)};
}

std::optional<Move> with_model(const PlannedRun& given, ModelSpec model, const std::string& reference,
                               std::string& reason) {
  PlannedRun run = unplaced(given);
  run.model = std::move(model);
  run.model_reference = reference;
  if (run.model.positions == PositionEncoding::learned) {
    const bool fixed = run.model.architecture == Architecture::vit;  // one class token and all patches
    run.workload.sequence_length =
        fixed ? run.model.max_positions : std::min(run.workload.sequence_length, run.model.max_positions);
  }
  if (!run.model.mixture) {
    set_size(run.plan.mesh, Axis::expert, 1);
    run.workload.routing = {};
  }
  run.plan.stage_layers.reset();
  run.plan.recompute_layers.reset();
  if (!settle(given, run, Dimension::devices, reason)) return std::nullopt;
  reason.clear();
  Move out{std::move(run), {}};
  out.also = changes(given, out.run, "");
  return out;
}

std::optional<Move> with_cluster(const PlannedRun& given, ClusterSpec cluster, const std::string& reference,
                                 std::string& reason) {
  PlannedRun run = unplaced(given);
  Diagnostics ignored;
  const auto devices = static_cast<std::uint32_t>(given.cluster->devices());
  // As many devices as before where the cluster can have them.
  if (auto same = resized(cluster, devices, ignored)) cluster = std::move(*same);
  run.cluster = std::move(cluster);
  run.cluster_reference = reference;
  if (!run.cluster->device.peak.contains(run.workload.precision) && !run.cluster->device.peak.empty()) {
    const auto& peak = run.cluster->device.peak;
    run.workload.precision = peak.contains(Precision::bf16) ? Precision::bf16 : peak.begin()->first;
  }
  if (!settle(given, run, Dimension::devices, reason)) return std::nullopt;
  reason.clear();
  Move out{std::move(run), {}};
  out.also = changes(given, out.run, "");
  return out;
}

}  // namespace orrery::gui
