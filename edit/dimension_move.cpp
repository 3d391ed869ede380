#include "edit/dimension_move.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "edit/dimension_candidates.hpp"
#include "edit/dimension_mend.hpp"
#include "edit/dimension_put.hpp"

namespace orrery {
namespace {

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

}  // namespace orrery
