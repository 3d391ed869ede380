#include <fmt/format.h>

#include <algorithm>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/plan/stage_split.hpp"

// Rows of the layers: how products and attention are cut, and what is computed again.

namespace orrery {
namespace {

constexpr auto size_limit = static_cast<std::uint32_t>(plan_size_limit);

/// Takes the same number of ranks, or else the nearest larger number that makes a grid.
bool put_tensor(PlannedRun& run, std::uint64_t value, std::string& reason) {
  const std::uint64_t ranks = size(run.plan.mesh, tensor_axes), devices = run.cluster->devices();
  const auto algorithm = static_cast<TensorAlgorithm>(value);
  for (std::uint64_t n = ranks; n <= std::max<std::uint64_t>(64, 2 * ranks); ++n) {
    if (devices % n == 0 && set_tensor(run.plan, algorithm, n)) return true;
  }
  reason = fmt::format("No number of ranks from {} on that divides {} devices makes a {} grid.", ranks, devices,
                       name_of(algorithm));
  return false;
}

bool has_context(const PlannedRun& run) { return run.plan.mesh.size(Axis::context) > 1; }

std::vector<std::uint64_t> inner_rings(const PlannedRun& run) {
  std::vector<std::uint64_t> out = divisors_of(run.plan.mesh.size(Axis::context));
  out.front() = 0;  // one ring
  return out;
}

/// Layers of the largest stage.
std::uint32_t most_stage_layers(const PlannedRun& run) {
  if (run.plan.stage_layers) return *std::max_element(run.plan.stage_layers->begin(), run.plan.stage_layers->end());
  const std::uint64_t stages = stage_map(run.plan).stages();
  return static_cast<std::uint32_t>((run.model.layers + stages - 1) / stages);
}

/// All layers where the plan counts none.
std::uint64_t recomputed_layers(const PlannedRun& run) {
  if (run.plan.recompute == Recompute::none) return 0;
  if (!run.plan.recompute_layers) return most_stage_layers(run);
  return *std::max_element(run.plan.recompute_layers->begin(), run.plan.recompute_layers->end());
}
/// Recomputes as many layers of each stage, where the stage has them; a plan without counts recomputes all of them.
bool put_recomputed_layers(PlannedRun& run, std::uint64_t value, std::string& reason) {
  Plan& plan = run.plan;
  plan.recompute_layers.reset();
  if (value == plan_size_limit) return true;
  if (plan.recompute == Recompute::none) {
    reason = "Nothing is recomputed.";
    return value == 0;
  }
  const std::uint32_t most = most_stage_layers(run);
  if (value > most) {
    reason = fmt::format("A stage has at most {} layers.", most);
    return false;
  }
  if (value == most) return true;
  if (!plan.stage_layers) plan.stage_layers = uneven_stages(run.model.layers, stage_map(plan).stages(), 0).front();
  plan.recompute_layers.emplace();
  for (const std::uint32_t held : *plan.stage_layers) {
    plan.recompute_layers->push_back(std::min(held, static_cast<std::uint32_t>(value)));
  }
  return true;
}

/// What the plan recomputes, with one module more or less each.
std::vector<std::uint64_t> recompute_sets(const PlannedRun& run) {
  unsigned known = recompute_modules_of(run.model);
  if (run.plan.attention == AttentionKernel::flash) known &= ~unsigned{set_of(RecomputeModule::core_attn)};
  const unsigned now = run.plan.recompute_modules & known;
  std::vector<std::uint64_t> out;
  for (unsigned m = 0; m < recompute_module_count; ++m) {
    const unsigned set = now ^ 1U << m;
    if ((set & known) == set && set != 0) out.push_back(set);
  }
  if (now != 0) out.push_back(now);
  std::sort(out.begin(), out.end());
  return out;
}

/// Whether the loss can be made in pieces at all, and in this many.
bool has_loss_pieces(const PlannedRun& run) {
  return run.plan.tensor == TensorAlgorithm::one_d && run.model.architecture != Architecture::vit;
}
bool are_loss_pieces(const PlannedRun& run, std::uint64_t pieces) {
  return pieces > 0 && run.workload.sequence_length % (pieces * run.plan.mesh.size(Axis::context)) == 0;
}
std::vector<std::uint64_t> loss_pieces(const PlannedRun& run) {
  std::vector<std::uint64_t> out = doublings(1, 16);
  std::erase_if(out, [&](std::uint64_t n) { return n > 1 && !are_loss_pieces(run, n); });
  return out;
}

/// Whether there is an axis that could cut experts beside their own.
bool folds_experts(const PlannedRun& run) {
  const Mesh& mesh = run.plan.mesh;
  return run.model.mixture && run.plan.tensor == TensorAlgorithm::one_d &&
         (mesh.size(Axis::context) > 1 || mesh.size(Axis::tensor) > 1);
}
/// Foldings whose axes have several ranks.
std::vector<std::uint64_t> expert_foldings(const PlannedRun& run) {
  std::vector<std::uint64_t> out = numbers(0, static_cast<std::uint64_t>(ExpertFolding::context_and_tensor));
  std::erase_if(out, [&](std::uint64_t value) {
    const auto folding = static_cast<ExpertFolding>(value);
    return (folds(folding, Axis::context) && run.plan.mesh.size(Axis::context) == 1) ||
           (folds(folding, Axis::tensor) && (run.plan.mesh.size(Axis::tensor) == 1 || !run.plan.sequence_parallel));
  });
  return out;
}

/// Whether several ranks share the experts, and tokens come to them.
bool shares_experts(const PlannedRun& run) {
  return run.model.mixture && run.plan.tensor == TensorAlgorithm::one_d &&
         size(run.plan.mesh, expert_axes(run.plan)) > 1;
}

}  // namespace

std::vector<Dimension> layer_dimensions() {
  using enum DimensionKind;
  return {
      {.key = "plan.tensor",
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tensor cut"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "How matrix products are cut over the tensor ranks."),
       .names = tensor_names(),
       .get = plan_value<&Plan::tensor>,
       .put = put_tensor,
       .said = Said::unless_default,
       .read =
           [](const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
             table.read_enum(d.word(), d.names, run.plan.tensor, Need::optional);  // the file has the mesh
           }},
      {.key = "plan.save_gathered",
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Keep gathered"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "3D: keep gathered operands for the backward pass instead of gathering again."),
       .names = switch_names(),
       .get = plan_value<&Plan::save_gathered>,
       .put = put_plan<&Plan::save_gathered>,
       .applies = [](const PlannedRun& run) { return run.plan.tensor == TensorAlgorithm::three_d; },
       .said = Said::unless_default},
      {.key = "plan.sequence_parallel",
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequence parallel"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Norms and dropout cut along the sequence over the tensor ranks."),
       .names = switch_names(),
       .get = plan_value<&Plan::sequence_parallel>,
       .put = put_plan<&Plan::sequence_parallel>,
       .applies = [](const PlannedRun& run) { return run.plan.mesh.size(Axis::tensor) > 1; }},
      {.key = "plan.context",
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Context cut"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "How the context ranks share attention."),
       .names = context_names(),
       .get = plan_value<&Plan::context>,
       .put = put_plan<&Plan::context>,
       .applies = has_context,
       .said = Said::where_it_applies},
      {.key = "plan.zigzag",
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Zigzag"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Each context rank holds an early and a late chunk, so that causal work is equal."),
       .names = switch_names(),
       .get = plan_value<&Plan::zigzag>,
       .put = put_plan<&Plan::zigzag>,
       .applies = has_context,
       .said = Said::where_it_applies},
      {.key = "plan.inner_ring",
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Inner ring"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Context ranks of an inner ring, within a node; 0: one ring."),
       .least = 2,
       .most = plan_size_limit,
       .get = plan_value<&Plan::inner_ring>,
       .put = put_plan<&Plan::inner_ring>,
       .values = inner_rings,
       .applies = [](const PlannedRun& run) { return has_context(run) && run.plan.context == ContextAlgorithm::ring; },
       .outlived =
           [](const PlannedRun& before, const PlannedRun& after) {
             return before.plan.mesh.size(Axis::context) != after.plan.mesh.size(Axis::context);
           },
       .said = Said::unless_default},
      {.key = "plan.expert_folding",
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Expert folding"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Axes whose ranks hold other experts too, and not slices or copies of the same ones."),
       .names = expert_folding_names(),
       .get = plan_value<&Plan::expert_folding>,
       .put = put_plan<&Plan::expert_folding>,
       .values = expert_foldings,
       .applies = folds_experts,
       .said = Said::unless_default},
      {.key = "plan.expert_dispatch",
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Expert dispatch"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "How tokens come to the ranks that hold their experts: each sends rows to each, or "
                                 "all gather all tokens and scatter the sums of results."),
       .names = expert_dispatch_names(),
       .get = plan_value<&Plan::expert_dispatch>,
       .put = put_plan<&Plan::expert_dispatch>,
       .applies = shares_experts,
       .outlived = [](const PlannedRun& before,
                      const PlannedRun& after) { return shares_experts(before) && !shares_experts(after); },
       .said = Said::unless_default},
      {.key = "plan.recompute",
       .group = DimensionGroup::memory,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Recompute"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "What is computed again instead of being kept."),
       .names = recompute_names(),
       .get = plan_value<&Plan::recompute>,
       .put = put_plan<&Plan::recompute>},
      {.key = "plan.recompute_modules",
       .group = DimensionGroup::memory,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Modules recomputed"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Parts of a layer that selective recomputation makes again, as Megatron names them."),
       .names = recompute_set_names(),
       .usual = set_of(RecomputeModule::core_attn),
       .get = plan_value<&Plan::recompute_modules>,
       .put = put_plan<&Plan::recompute_modules>,
       .values = recompute_sets,
       .applies = [](const PlannedRun& run) { return run.plan.recompute == Recompute::selective; },
       .said = Said::unless_default},
      {.key = "plan.recompute_layers",
       .group = DimensionGroup::memory,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Layers recomputed"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Layers of each stage, from its first on, that are recomputed."),
       .most = plan_size_limit,
       .usual = plan_size_limit,
       .get = recomputed_layers,
       .put = put_recomputed_layers,
       .values = [](const PlannedRun& run) { return numbers(1, most_stage_layers(run)); },  // none is another choice
       .applies = [](const PlannedRun& run) { return run.plan.recompute != Recompute::none; },
       .outlived =
           [](const PlannedRun& before, const PlannedRun& after) {
             return before.plan.recompute != after.plan.recompute || before.model.layers != after.model.layers ||
                    stage_map(before.plan).stages() != stage_map(after.plan).stages();
           },
       .read =
           [](const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
             if (!table.has(d.word())) return;
             table.read(d.word(), run.plan.recompute_layers.emplace(), {0, size_limit}, size_limit);
           },
       .write =
           [](const Dimension& d, TomlWriter& out, const PlannedRun& run) {
             if (run.plan.recompute_layers) out.wholes(d.word(), *run.plan.recompute_layers);
           }},
      {.key = "plan.loss_chunks",
       .group = DimensionGroup::memory,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Loss chunks"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Pieces in which the logits and the loss are made, one after the other."),
       .least = 1,
       .most = plan_size_limit,
       .usual = 1,
       .get = plan_value<&Plan::loss_chunks>,
       .put = put_plan<&Plan::loss_chunks>,
       .values = loss_pieces,
       .applies = has_loss_pieces,
       .outlived =
           [](const PlannedRun& before, const PlannedRun& after) {
             return are_loss_pieces(before, before.plan.loss_chunks) && !are_loss_pieces(after, after.plan.loss_chunks);
           },
       .said = Said::unless_default},
  };
}

}  // namespace orrery
