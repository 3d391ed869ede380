#include "planner/move.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/follow.hpp"

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

double apart(std::uint64_t a, std::uint64_t b) {
  const double x = static_cast<double>(a) + 1e-3, y = static_cast<double>(b) + 1e-3;
  return std::max(x, y) / std::min(x, y);
}

/// The run with another model or cluster in place, settled.
std::optional<Move> settled(const PlannedRun& given, PlannedRun run, std::string& reason) {
  if (!settle(given, run, nullptr, reason)) return std::nullopt;
  reason.clear();
  std::vector<std::string> also = changes(given, run, "");
  return Move{std::move(run), std::move(also)};
}

}  // namespace

std::optional<Move> moved(const PlannedRun& given, const Dimension& d, std::uint64_t value, std::string& reason,
                          Dimensions table) {
  Turner turner(given, table);
  const PlannedRun* run = turner.turned(d, value, reason);
  if (run == nullptr) return std::nullopt;
  return Move{*run, changes(given, *run, d.key)};
}

LegalValues legal_values(const PlannedRun& run, const Dimension& d, Dimensions table) {
  LegalValues out;
  const std::uint64_t own = d.get(run);
  std::string reason;
  Turner turner(run, table);
  for (const std::uint64_t v : values(d, run)) {
    if (v == own || turner.turned(d, v, reason) != nullptr) {
      out.values.push_back(v);
    } else if (is_named(d)) {
      out.refused.push_back(v);
    }
  }
  return out;
}

Answer answer(const PlannedRun& run, const Dimension& d, std::uint64_t wish) {
  std::string reason;
  if (auto move = moved(run, d, wish, reason)) return {wish, std::move(*move), ""};
  std::vector<std::uint64_t> near = legal_values(run, d).values;
  // Numbers that are not in the list: multiples of what a step of the pipeline takes, on both sides of the wish.
  if (d.key == "workload.batch") {
    const std::uint64_t unit = size(run.plan.mesh, sequence_axes(run.plan)) * run.plan.microbatch_size;
    near.push_back(wish / unit * unit);
    near.push_back((wish / unit + 1) * unit);
  }
  std::sort(near.begin(), near.end());
  std::stable_sort(near.begin(), near.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return apart(a, wish) < apart(b, wish); });
  for (const std::uint64_t v : near) {
    std::string ignored;
    if (v == d.get(run)) return {v, {run, {}}, std::move(reason)};
    if (auto move = moved(run, d, v, ignored)) return {v, std::move(*move), std::move(reason)};
  }
  return {d.get(run), {run, {}}, std::move(reason)};
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
  if (!run.model.mixture) run.workload.routing = {};
  return settled(given, std::move(run), reason);
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
  return settled(given, std::move(run), reason);
}

}  // namespace orrery
