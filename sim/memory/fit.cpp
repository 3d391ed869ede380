#include "sim/memory/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/units_text.hpp"
#include "core/record/device_room.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/tier_memory.hpp"
#include "core/spec/node_kinds.hpp"
#include "sim/memory/memory_figures.hpp"

namespace orrery {
namespace {

std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.base()); }

/// Process constants of the devices on a kind of node.
const std::optional<ProcessMemory>& constants_of(const Calibration& calibration, std::uint32_t kind) {
  return kind == 0 || kind > calibration.others.size() ? calibration.memory : calibration.others[kind - 1].memory;
}

/// Bytes that a process holds beside its allocator's segments.
std::uint64_t beside(const ProcessMemory& constants, std::uint64_t communicators) {
  return whole(constants.context) + communicators * whole(constants.communicator);
}

/// How the allocators of processes on devices of one kind are played.
struct Played {
  FrameworkMemory framework;
  AllocatorRules rules;
};
Played played(const std::optional<ProcessMemory>& constants, std::uint64_t memory, std::uint64_t communicators,
              bool expandable) {
  Played out;
  out.rules.expandable = expandable;
  std::uint64_t taken = 0;
  if (constants) {
    out.framework.workspaces = constants->workspace;
    taken = beside(*constants, communicators);
  }
  if (memory > 0) out.rules.capacity = memory - std::min(memory, taken);
  return out;
}

using FiguresByKind = std::map<std::uint32_t, std::vector<MemoryFigures>>;

/// The tensors that each class asks for, as a report.
Report tensors_of(const Program& program) {
  Report report;
  LiveMemory live;
  live.read(program);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) report.memory_by_stage.push_back(live.peak(program, c));
  return report;
}

std::int64_t left_of(std::uint64_t room, std::uint64_t need) {
  return static_cast<std::int64_t>(room) - static_cast<std::int64_t>(need);
}

void raise(std::optional<std::uint64_t>& most, std::uint64_t value) { most = std::max(most.value_or(0), value); }

/// Plays the classes that `by_kind` does not have.
void judge(Report& report, const PlannedRun& run, const Program& program, const Calibration& calibration,
           const MemoryRules& rules, FiguresByKind by_kind) {
  report.fits = true;
  report.peak_memory_reserved_bytes = report.peak_memory_process_bytes = report.peak_memory_setup_bytes = {};
  report.memory_capacity_bytes = {};
  const std::vector<std::vector<ClassDevice>> devices = class_devices(run, program);
  const std::uint64_t communicators = communicator_count(program);
  report.memory_by_stage.resize(devices.size());
  std::uint64_t retries = 0;
  std::optional<std::int64_t> least_left;
  for (std::size_t c = 0; c < devices.size(); ++c) {
    StageMemory& stage = report.memory_by_stage[c];
    stage.process.reset();
    stage.capacity.reset();
    std::optional<std::int64_t> least_of_stage;
    for (const auto& [kind, memory] : devices[c]) {
      const std::optional<ProcessMemory>& constants = constants_of(calibration, kind);
      const auto [at, fresh] = by_kind.try_emplace(kind);
      if (fresh) {
        const Played how = played(constants, memory, communicators, rules.expandable);
        at->second = memory_figures(program, how.framework, how.rules);
      }
      const MemoryFigures& figures = at->second[c];
      raise(report.peak_memory_reserved_bytes, figures.reserved);
      raise(report.peak_memory_setup_bytes, figures.setup);
      std::uint64_t held = std::max(stage.peak, figures.live);
      if (constants) {
        held = figures.reserved + beside(*constants, communicators);
        raise(report.peak_memory_process_bytes, held);
        retries = std::max(retries, figures.retries);
      }
      const std::uint64_t kept_free = constants ? whole(rules.headroom) : 0;
      const std::int64_t left = left_of(memory, held + kept_free);
      if (memory > 0) report.fits = report.fits && left >= 0 && (figures.fits || !constants);
      if (least_of_stage && *least_of_stage <= left) continue;
      least_of_stage = left;
      stage.stage = figures.stage;
      stage.reserved = figures.reserved;
      stage.process = constants ? std::optional(held) : std::nullopt;
      if (memory > 0) stage.capacity = memory;
    }
    if (!stage.capacity || (least_left && *least_left <= *least_of_stage)) continue;
    least_left = least_of_stage;
    report.memory_capacity_bytes = stage.capacity;
  }
  add_tier_memory(report, run, program);
  if (calibration.memory) {
    const ProcessMemory& outside = *calibration.memory;
    report.assumptions.push_back(fmt::format(
        "process memory: {} of context, {} of {} communicators ({})", short_text(outside.context),
        short_text(static_cast<double>(communicators) * outside.communicator), communicators, outside.source));
  }
  if (retries > 0) {
    report.assumptions.push_back(
        fmt::format("in two steps the caching allocator gives segments back {} times, and each time waits for the "
                    "device; the step time leaves that out",
                    retries));
  }
}

/// Plays the fullest classes first, and stops once one does not fit; then `report` has the process of that one.
/// Otherwise returns the figures of all.
std::optional<std::vector<MemoryFigures>> figures_if_all_fit(Report& report, const Program& program,
                                                             const ProcessMemory& constants, std::uint64_t memory,
                                                             const MemoryRules& rules) {
  const std::uint64_t communicators = communicator_count(program);
  std::vector<std::uint32_t> order(program.classes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return report.memory_by_stage[a].peak > report.memory_by_stage[b].peak;
  });
  const Played how = played(constants, memory, communicators, rules.expandable);
  const auto too_full = [&](std::uint32_t c, const MemoryFigures& figures) {
    const std::uint64_t held = figures.reserved + beside(constants, communicators);
    report.memory_by_stage[c].process = held;
    report.fits = report.fits && figures.fits && held + whole(rules.headroom) <= memory;
    return !report.fits;
  };
  std::vector<MemoryFigures> out;
  for (std::optional<MemoryFigures>& f : memory_figures_until(program, how.framework, how.rules, order, too_full)) {
    if (f) out.push_back(*f);
  }
  return report.fits ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

void judge_memory(Report& report, const PlannedRun& run, const Program& program, const Calibration& calibration,
                  const MemoryRules& rules) {
  judge(report, run, program, calibration, rules, {});
}

namespace {

/// Finds `fits` and the figures that decide it.
Report quickly_judged(const PlannedRun& run, const Program& program, const Calibration& calibration,
                      const MemoryRules& rules) {
  // The memory that tensors ask for is quickly known, and often too much already.
  const std::vector<std::vector<ClassDevice>> devices = class_devices(run, program);
  Report report = tensors_of(program);
  const std::uint64_t communicators = communicator_count(program);
  bool processes = false;
  for (std::uint32_t c = 0; c < devices.size(); ++c) {
    StageMemory& stage = report.memory_by_stage[c];
    std::optional<std::int64_t> least_left;
    for (const auto& [kind, memory] : devices[c]) {
      if (memory == 0) continue;
      std::optional<std::uint64_t> process;
      std::uint64_t least = stage.peak;
      if (const auto& constants = constants_of(calibration, kind)) {
        process = least + beside(*constants, communicators) + whole(constants->workspace);
        least = *process + whole(rules.headroom);
        processes = true;
      }
      const std::int64_t left = left_of(memory, least);
      report.fits = report.fits && left >= 0;
      if (least_left && *least_left <= left) continue;
      least_left = left;
      stage.process = process;
      stage.capacity = memory;
    }
  }
  if (!report.fits || !processes) {
    add_tier_memory(report, run, program);
  } else if (is_mixed(*run.cluster) || devices.empty()) {
    judge(report, run, program, calibration, rules, {});
  } else if (auto figures = figures_if_all_fit(report, program, *calibration.memory, devices[0][0].memory, rules)) {
    judge(report, run, program, calibration, rules, {{0, *std::move(figures)}});
  } else {
    add_tier_memory(report, run, program);
  }
  return report;
}

}  // namespace

MemoryVerdict memory_verdict(const PlannedRun& run, const Program& program, const Calibration& calibration,
                             const MemoryRules& rules) {
  return memory_verdict(quickly_judged(run, program, calibration, rules), rules.headroom);
}

std::optional<Report> judged_if_it_fits(const PlannedRun& run, const Program& program, const Calibration& calibration,
                                        const MemoryRules& rules) {
  Report report = quickly_judged(run, program, calibration, rules);
  return report.fits ? std::optional(std::move(report)) : std::nullopt;
}

std::vector<std::uint32_t> stages_that_do_not_fit(const PlannedRun& run, const Program& program,
                                                  const Calibration& calibration, const MemoryRules& rules) {
  Report report = tensors_of(program);
  judge_memory(report, run, program, calibration, rules);
  std::vector<std::uint32_t> out;
  for (const StageMemory& stage : report.memory_by_stage) {
    if (!stage.capacity) continue;
    const std::uint64_t headroom = stage.process ? whole(rules.headroom) : 0;
    if (held(stage) + headroom > *stage.capacity) out.push_back(stage.stage);
  }
  return out;
}

MemoryVerdict memory_verdict(const Report& report, Bytes headroom) {
  MemoryVerdict out;
  out.fits = report.fits;
  std::optional<std::int64_t> least_left;
  const auto look = [&](MemoryVerdict::Where where, std::uint32_t stage, std::uint64_t need, std::uint64_t room,
                        std::uint64_t kept_free) {
    const std::int64_t left = left_of(room, need + kept_free);
    if (least_left && *least_left <= left) return;
    least_left = left;
    out.where = where;
    out.stage = stage;
    out.need = need;
    out.room = room;
    out.kept_free = kept_free;
  };
  for (const StageMemory& stage : report.memory_by_stage) {
    out.live = std::max(out.live, stage.peak);
    if (stage.capacity) {
      look(MemoryVerdict::Where::device, stage.stage, held(stage), *stage.capacity,
           stage.process ? whole(headroom) : 0);
    }
  }
  if (report.peak_host_memory_bytes && report.host_memory_capacity_bytes) {
    look(MemoryVerdict::Where::host, 0, *report.peak_host_memory_bytes, *report.host_memory_capacity_bytes, 0);
  }
  if (report.peak_disk_bytes && report.disk_capacity_bytes) {
    look(MemoryVerdict::Where::disk, 0, *report.peak_disk_bytes, *report.disk_capacity_bytes, 0);
  }
  return out;
}

std::uint64_t communicator_count(const Program& program) {
  std::vector<Group> groups;
  for (const Group& g : program.groups) {
    if (group_size(g, program.mesh) > 1 && std::find(groups.begin(), groups.end(), g) == groups.end()) {
      groups.push_back(g);
    }
  }
  return groups.size();
}

void judge_alike(Report& report, const Report& judged) {
  report.fits = judged.fits;
  report.peak_memory_reserved_bytes = judged.peak_memory_reserved_bytes;
  report.peak_memory_process_bytes = judged.peak_memory_process_bytes;
  report.peak_memory_setup_bytes = judged.peak_memory_setup_bytes;
  report.memory_capacity_bytes = judged.memory_capacity_bytes;
  report.memory_by_stage = judged.memory_by_stage;
  report.peak_host_memory_bytes = judged.peak_host_memory_bytes;
  report.host_memory_capacity_bytes = judged.host_memory_capacity_bytes;
  report.peak_disk_bytes = judged.peak_disk_bytes;
  report.disk_capacity_bytes = judged.disk_capacity_bytes;
  report.assumptions.insert(report.assumptions.end(), judged.assumptions.begin(), judged.assumptions.end());
}

std::string text_of(const MemoryVerdict& v) {
  const auto text = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
  std::string out = text(v.need);
  if (v.room == 0) return out;
  out += fmt::format(" of the {} of a ", text(v.room));
  switch (v.where) {
    case MemoryVerdict::Where::device: out += fmt::format("device (stage {})", v.stage); break;
    case MemoryVerdict::Where::host: out += "host"; break;
    case MemoryVerdict::Where::disk: out += "disk"; break;
  }
  const bool decides = v.need <= v.room && v.need + v.kept_free > v.room;
  return decides ? out + fmt::format(", of which {} stay free", text(v.kept_free)) : out;
}

Bytes most_for_tensors(const ClusterSpec& cluster, const Calibration& calibration, Bytes headroom) {
  Bytes most;
  for (std::uint32_t kind = 0; kind < node_kinds(cluster); ++kind) {
    Bytes room = device_of(cluster, kind).memory;
    if (const auto& constants = constants_of(calibration, kind)) {
      const Bytes taken = constants->context + constants->workspace + headroom;
      room = room - std::min(room, taken);
    }
    most = std::max(most, room);
  }
  return most;
}

Bytes safe_for_tensors(const ClusterSpec& cluster, const Calibration& calibration, Bytes headroom) {
  std::optional<Bytes> least;
  for (std::uint32_t kind = 0; kind < node_kinds(cluster); ++kind) {
    Bytes room = device_of(cluster, kind).memory;
    if (const auto& constants = constants_of(calibration, kind)) {
      const Bytes taken = constants->context + constants->workspace + 8.0 * constants->communicator + headroom;
      room = 0.8 * (room - std::min(room, taken));
    }
    least = std::min(least.value_or(room), room);
  }
  return *least;
}

Bytes default_headroom(const ClusterSpec& cluster, const Calibration& calibration) {
  constexpr double headroom_share = 0.03;
  return calibration.memory ? headroom_share * least_memory(cluster) : Bytes{};
}

}  // namespace orrery
