#include <cmath>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/dimension_rows.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"

// Rows of states and activations that are sharded over ranks or kept off the device.

namespace orrery {
namespace {

using Eighths = std::optional<std::uint32_t> Plan::*;

const std::vector<std::string_view> share_names{"none", "1/8", "2/8", "3/8", "4/8", "5/8", "6/8", "7/8", "all", "auto"};
constexpr std::uint64_t open_share = 9;

template <Eighths member>
std::uint64_t share(const PlannedRun& run) {
  return (run.plan.*member).value_or(open_share);
}
template <Eighths member>
bool put_share(PlannedRun& run, std::uint64_t value, std::string&) {
  run.plan.*member = value == open_share ? std::nullopt : std::optional(static_cast<std::uint32_t>(value));
  return true;
}

template <Eighths member>
Dimension share_row(std::string_view key, const char* label, const char* help) {
  return {.key = key,
          .group = DimensionGroup::memory,
          .kind = DimensionKind::share,
          .label = label,
          .help = help,
          .names = share_names,
          .get = share<member>,
          .put = put_share<member>,
          .said = Said::unless_default};
}
template <OffloadTier Plan::*member, Eighths of>
Dimension tier_row(std::string_view key, const char* label, const char* help) {
  return {.key = key,
          .group = DimensionGroup::memory,
          .kind = DimensionKind::choice,
          .label = label,
          .help = help,
          .names = offload_tier_names(),
          .get = plan_value<member>,
          .put = put_plan<member>,
          .applies = [](const PlannedRun& run) { return run.plan.*of != 0U; },
          .said = Said::unless_default};
}

bool has_zero_3(const PlannedRun& run) { return run.plan.zero_stage == 3; }

/// Gradients take over the memory of gathered weights (core/plan/chunk_check.hpp).
bool takes_chunks(const PlannedRun& run) {
  return has_zero_3(run) && run.plan.reshard_after_forward && !splits_backward(run.plan) &&
         gradient_dtype(run.workload) == weight_dtype(run.workload);
}

/// Values of parameter_chunk: 0 is none, `open_chunk` is auto, and from 2 on come powers of two of mebibytes, the first
/// 8 MiB; `written_chunk` is any other size, from a file.
constexpr std::uint64_t open_chunk = 1, written_chunk = 8;
std::optional<Bytes> chunk_of(std::uint64_t value) {
  if (value == open_chunk) return std::nullopt;
  return value == 0 ? Bytes() : Bytes::of(static_cast<double>(std::uint64_t{1} << (21 + value)));  // 2: 8 MiB
}
std::uint64_t chunk(const PlannedRun& run) {
  std::uint64_t value = 0;
  while (value < written_chunk && chunk_of(value) != run.plan.parameter_chunk) ++value;
  return value;
}
bool put_chunk(PlannedRun& run, std::uint64_t value, std::string& reason) {
  reason = "Other sizes are written in the plan file.";
  if (value == written_chunk) return chunk(run) == value;
  run.plan.parameter_chunk = chunk_of(value);
  return true;
}
void read_chunk(const Dimension& d, TomlTable& table, const std::filesystem::path&, PlannedRun& run) {
  auto& chunk = run.plan.parameter_chunk;
  if (table.read_auto(d.word())) {
    chunk.reset();
  } else {
    table.read(d.word(), *chunk, {Bytes::of(1), Bytes::of(0x1p53)}, Need::optional);
  }
}
void write_chunk(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const auto& chunk = run.plan.parameter_chunk;
  out.text(d.word(), chunk ? exact_text(*chunk) : "auto");
}

}  // namespace

std::vector<Dimension> state_dimensions() {
  using enum DimensionKind;
  return {
      share_row<&Plan::offload_states>(
          "plan.offload_states", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload states"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                            "Share of the layers whose optimizer states live in host memory.")),
      tier_row<&Plan::states_tier, &Plan::offload_states>(
          "plan.states_tier", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "States go to"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded optimizer states live.")),
      share_row<&Plan::offload_parameters>(
          "plan.offload_parameters", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload weights"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Share of the layers whose weights live in host memory.")),
      tier_row<&Plan::parameters_tier, &Plan::offload_parameters>(
          "plan.parameters_tier", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Weights go to"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded weights live.")),
      share_row<&Plan::offload_activations>(
          "plan.offload_activations", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload activations"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                            "Share of the layers whose activations wait in host memory.")),
      tier_row<&Plan::activations_tier, &Plan::offload_activations>(
          "plan.activations_tier", QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Activations go to"),
          QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded activations wait.")),
      {.key = "plan.zero_stage",
       .aliases = {"zero"},
       .group = DimensionGroup::memory,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "ZeRO stage"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "Shared out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too."),
       .most = 3,
       .get = plan_value<&Plan::zero_stage>,
       .put = put_plan<&Plan::zero_stage>,
       .applies = [](const PlannedRun& run) { return !shard_axes_of(run.plan).empty(); }},
      {.key = "plan.reshard_after_forward",
       .group = DimensionGroup::memory,
       .kind = toggle,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gather again"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "ZeRO-3: let a layer's weights go after the forward pass and gather them again."),
       .names = switch_names(),
       .usual = 1,
       .get = plan_value<&Plan::reshard_after_forward>,
       .put = put_plan<&Plan::reshard_after_forward>,
       .applies = has_zero_3,
       .said = Said::where_it_applies},
      {.key = "plan.prefetch",
       .group = DimensionGroup::memory,
       .kind = count,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Prefetch"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "ZeRO-3: layers whose weights are gathered ahead."),
       .most = 1,
       .usual = 1,
       .get = plan_value<&Plan::prefetch>,
       .put = put_plan<&Plan::prefetch>,
       .applies = has_zero_3,
       .said = Said::where_it_applies},
      {.key = "plan.parameter_chunk",
       .group = DimensionGroup::memory,
       .kind = choice,
       .label = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Weight chunks"),
       .help = QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                                 "ZeRO-3: size of the chunks that weights are gathered and gradients reduced by."),
       .names = {"none", "auto", "8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB", "as written"},
       .get = chunk,
       .put = put_chunk,
       .applies = takes_chunks,
       .said = Said::unless_default,
       .read = read_chunk,
       .write = write_chunk},
  };
}

}  // namespace orrery
