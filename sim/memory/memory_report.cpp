#include "sim/memory/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/units_text.hpp"

namespace orrery {
namespace {

std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.base()); }

std::uint64_t bytes_of_communicators(const ProcessFigures& p) {
  return p.outside ? p.communicators * whole(p.outside->communicator) : 0;
}

}  // namespace

std::uint64_t communicator_count(const Program& program) {
  std::vector<Group> groups;
  for (const Group& g : program.groups) {
    if (group_size(g, program.mesh) > 1 && std::find(groups.begin(), groups.end(), g) == groups.end()) {
      groups.push_back(g);
    }
  }
  return groups.size();
}

Bytes memory_margin(Bytes device, const std::optional<ProcessMemory>& outside) {
  if (!outside) return {};
  const Bytes margin = outside->context + outside->workspace + 4.0 * outside->communicator + (1.0 / 20.0) * device;
  return std::min(margin, 0.5 * device);
}

ProcessFigures process_figures(const PlannedRun& run, const Program& program,
                               const std::optional<ProcessMemory>& outside, bool expandable) {
  ProcessFigures out{{}, communicator_count(program), outside};
  FrameworkMemory framework;
  AllocatorRules rules;
  rules.expandable = expandable;
  if (outside) framework.workspaces = outside->workspace;
  const std::uint64_t beside = (outside ? whole(outside->context) : 0) + bytes_of_communicators(out);
  const std::uint64_t capacity = run.cluster ? whole(run.cluster->device.memory) : 0;
  if (capacity > 0) rules.capacity = capacity - std::min(capacity, beside);
  out.classes = memory_figures(program, framework, rules);
  return out;
}

void add_process_memory(Report& report, const ProcessFigures& process) {
  std::uint64_t reserved = 0, setup = 0, retries = 0;
  for (std::size_t c = 0; c < process.classes.size(); ++c) {
    const MemoryFigures& figures = process.classes[c];
    reserved = std::max(reserved, figures.reserved);
    setup = std::max(setup, figures.setup);
    retries = std::max(retries, figures.retries);
    report.fits = report.fits && figures.fits;
    if (c < report.memory_by_stage.size()) report.memory_by_stage[c].reserved = figures.reserved;
  }
  report.peak_memory_reserved_bytes = reserved;
  report.peak_memory_setup_bytes = setup;
  if (process.outside) {
    const std::uint64_t communicators = bytes_of_communicators(process);
    report.peak_memory_process_bytes = reserved + whole(process.outside->context) + communicators;
    report.assumptions.push_back(fmt::format(
        "process memory: {} of context, {} of {} communicators ({})", short_text(process.outside->context),
        short_text(Bytes::of(static_cast<double>(communicators))), process.communicators, process.outside->source));
  }
  if (retries > 0) {
    report.assumptions.push_back(
        fmt::format("the caching allocator gives segments back {} times in two steps, each of which waits for the "
                    "device; not in the step time",
                    retries));
  }
}

void add_process_memory(Report& report, const PlannedRun& run, const Program& program,
                        const std::optional<ProcessMemory>& outside, bool expandable) {
  add_process_memory(report, process_figures(run, program, outside, expandable));
}

}  // namespace orrery
