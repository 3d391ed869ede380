#include "sim/memory/memory_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/units_text.hpp"

namespace orrery {
namespace {

std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.base()); }

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

void add_process_memory(Report& report, const PlannedRun& run, const Program& program,
                        const std::optional<ProcessMemory>& outside, bool expandable) {
  FrameworkMemory framework;
  AllocatorRules rules;
  rules.expandable = expandable;
  std::uint64_t beside = 0;
  if (outside) {
    framework.workspaces = outside->workspace;
    beside = whole(outside->context) + communicator_count(program) * whole(outside->communicator);
  }
  const std::uint64_t capacity = run.cluster ? whole(run.cluster->device.memory) : 0;
  if (capacity > 0) rules.capacity = capacity - std::min(capacity, beside);
  const std::vector<MemoryFigures> classes = memory_figures(program, framework, rules);
  std::uint64_t reserved = 0, setup = 0, retries = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    reserved = std::max(reserved, classes[c].reserved);
    setup = std::max(setup, classes[c].setup);
    retries = std::max(retries, classes[c].retries);
    report.fits = report.fits && classes[c].fits;
    if (c < report.memory_by_stage.size()) report.memory_by_stage[c].reserved = classes[c].reserved;
  }
  report.peak_memory_reserved_bytes = reserved;
  report.peak_memory_setup_bytes = setup;
  if (outside) {
    report.peak_memory_process_bytes = reserved + beside;
    report.assumptions.push_back(
        fmt::format("process memory: {} of context, {} of {} communicators ({})", short_text(outside->context),
                    short_text(Bytes::of(static_cast<double>(beside - whole(outside->context)))),
                    communicator_count(program), outside->source));
  }
  if (retries > 0) {
    report.assumptions.push_back(
        fmt::format("the caching allocator gives segments back {} times in two steps, each of which waits for the "
                    "device; not in the step time",
                    retries));
  }
}

}  // namespace orrery
