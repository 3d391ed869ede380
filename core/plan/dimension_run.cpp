#include <cmath>

#include "core/plan/adapters_check.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_check.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

// Rows of the cluster and the workload, whose own files read and write them.

namespace orrery {
namespace {

std::vector<std::uint64_t> device_counts(const PlannedRun& run) {
  const std::uint64_t node = run.cluster->devices_per_node;
  std::vector<std::uint64_t> out = divisors_of(node);
  for (const std::uint64_t devices : doublings(2 * node, 65'536)) out.push_back(devices);
  return out;
}

bool put_devices(PlannedRun& run, std::uint64_t value, std::string& reason) {
  Diagnostics wrong;
  auto other = resized(*run.cluster, static_cast<std::uint32_t>(value), wrong);
  if (!other) {
    const Diagnostic& first = wrong.list().front();
    reason = first.message + ".";
    for (const std::string& detail : first.details) reason += " " + detail;
    return false;
  }
  run.cluster = std::move(other);
  return true;
}

bool put_precision(PlannedRun& run, std::uint64_t value, std::string&) {
  run.workload.precision = static_cast<Precision>(value);
  run.workload.master_weights = true;
  run.workload.gradient_dtype.reset();
  run.workload.moment_dtype.reset();
  return true;
}

bool put_masters(PlannedRun& run, std::uint64_t value, std::string&) {
  return run.workload.master_weights = value != 0, true;
}

bool put_optimizer(PlannedRun& run, std::uint64_t value, std::string&) {
  Workload& work = run.workload;
  Optimizer usual;
  usual.kind = static_cast<OptimizerKind>(value);
  usual.learning_rate = work.optimizer.learning_rate;
  usual.weight_decay = work.optimizer.weight_decay;
  if (usual.kind == OptimizerKind::sgd || usual.kind == OptimizerKind::lars) usual.momentum = 0.9;
  work.optimizer = usual;
  work.moment_dtype.reset();
  return true;
}

bool put_adapters(PlannedRun& run, std::uint64_t value, std::string&) {
  std::optional<Adapters>& adapters = run.workload.adapters;
  if (value == 0) return adapters.reset(), true;
  Adapters other = adapters.value_or(Adapters{});
  // The scale of what adapters add stays as it is.
  const double scale = other.scale(), rank = static_cast<double>(value);
  other.rank = static_cast<std::uint32_t>(value);
  other.alpha = scale * (other.rank_stabilized ? std::sqrt(rank) : rank);
  adapters = other;
  return true;
}

constexpr const char* no_adapters = "All weights are trained, and none stay as they are.";

bool put_base(PlannedRun& run, std::uint64_t value, std::string& reason) {
  if (!run.workload.adapters) return reason = no_adapters, value == 0;
  run.workload.adapters->base = static_cast<BaseWeights>(value);
  if (run.workload.adapters->base != BaseWeights::nf4) run.workload.adapters->double_quantization = false;
  return true;
}

bool put_double_quantization(PlannedRun& run, std::uint64_t value, std::string& reason) {
  if (!run.workload.adapters) return reason = no_adapters, value == 0;
  reason = "Only the scales of nf4 are quantized a second time.";
  if (value != 0 && run.workload.adapters->base != BaseWeights::nf4) return false;
  run.workload.adapters->double_quantization = value != 0;
  return true;
}

}  // namespace

std::vector<Dimension> run_dimensions() {
  using enum DimensionKind;
  return {
      {.key = "gpus",
       .group = DimensionGroup::mesh,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Devices"),
       .help =
           QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Devices of the cluster: part of a node, or whole nodes."),
       .least = 1,
       .most = plan_size_limit,
       .usual = 1,
       .get = [](const PlannedRun& run) { return run.cluster->devices(); },
       .put = put_devices,
       .values = device_counts},
      {.key = "workload.batch",
       .aliases = {"gbs"},
       .group = DimensionGroup::workload,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Batch"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequences in one optimizer step, over all replicas."),
       .least = 1,
       .most = max_batch,
       .usual = 1,
       .get = [](const PlannedRun& run) -> std::uint64_t { return run.workload.global_batch; },
       .put = [](PlannedRun& run, std::uint64_t value,
                 std::string&) { return run.workload.global_batch = value, true; },
       .values = [](const PlannedRun&) { return doublings(1, 65'536); }},
      {.key = "workload.sequence",
       .aliases = {"seq"},
       .group = DimensionGroup::workload,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequence"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tokens in a sequence."),
       .least = 1,
       .most = max_sequence,
       .usual = 1,
       .get = [](const PlannedRun& run) -> std::uint64_t { return run.workload.sequence_length; },
       .put = [](PlannedRun& run, std::uint64_t value,
                 std::string&) { return run.workload.sequence_length = value, true; },
       .values = [](const PlannedRun&) { return doublings(128, std::uint64_t{1} << 20); }},
      {.key = "workload.precision",
       .group = DimensionGroup::workload,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Precision"),
       .help =
           QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "The number format of weights, activations and products."),
       .names = precision_names(),
       .usual = static_cast<std::uint64_t>(Workload{}.precision),
       .get = [](const PlannedRun& run) { return static_cast<std::uint64_t>(run.workload.precision); },
       .put = put_precision},
      {.key = "workload.master_weights",
       .group = DimensionGroup::workload,
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Master weights"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "A 32-bit copy of the weights takes the updates; without it the 16-bit weights do."),
       .names = switch_names(),
       .usual = 1,
       .get = [](const PlannedRun& run) -> std::uint64_t { return run.workload.master_weights ? 1 : 0; },
       .put = put_masters,
       .applies =
           [](const PlannedRun& run) {
             return weight_dtype(run.workload) != wide_dtype(run.workload) && run.workload.precision != Precision::fp16;
           }},
      {.key = "workload.optimizer.kind",
       .group = DimensionGroup::workload,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Optimizer"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Its moments take memory for every parameter."),
       .names = optimizer_names(),
       .usual = static_cast<std::uint64_t>(Optimizer{}.kind),
       .get = [](const PlannedRun& run) { return static_cast<std::uint64_t>(run.workload.optimizer.kind); },
       .put = put_optimizer},
      {.key = "workload.adapters.rank",
       .aliases = {"adapters"},
       .group = DimensionGroup::workload,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Adapters' rank"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Low-rank adapters are trained in place of the weights; 0 trains all weights."),
       .least = 0,
       .most = max_adapter_rank,
       .usual = 0,
       .get = [](const PlannedRun& run) -> std::uint64_t {
         return run.workload.adapters ? run.workload.adapters->rank : 0;
       },
       .put = put_adapters,
       .values =
           [](const PlannedRun&) {
             std::vector<std::uint64_t> ranks = doublings(8, 128);
             ranks.insert(ranks.begin(), 0);
             return ranks;
           },
       .applies = [](const PlannedRun& run) { return adapters_obstacle(run.model).empty(); }},
      {.key = "workload.adapters.base",
       .group = DimensionGroup::workload,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Frozen matrices"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "What the layers' matrices are kept in beside adapters (QLoRA keeps them in nf4)."),
       .names = base_weights_names(),
       .usual = 0,
       .get = [](const PlannedRun& run) -> std::uint64_t {
         return run.workload.adapters ? static_cast<std::uint64_t>(run.workload.adapters->base) : 0;
       },
       .put = put_base,
       .applies = [](const PlannedRun& run) { return run.workload.adapters.has_value(); }},
      {.key = "workload.adapters.double_quantization",
       .group = DimensionGroup::workload,
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Double quantization"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "The scales of nf4 are kept in 8 bits, too."),
       .names = switch_names(),
       .usual = 0,
       .get = [](const PlannedRun& run) -> std::uint64_t {
         return run.workload.adapters && run.workload.adapters->double_quantization ? 1 : 0;
       },
       .put = put_double_quantization,
       .applies =
           [](const PlannedRun& run) {
             return run.workload.adapters && run.workload.adapters->base == BaseWeights::nf4;
           }},
  };
}

}  // namespace orrery
