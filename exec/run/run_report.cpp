#include "exec/run/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/program.hpp"
#include "core/record/summarize.hpp"

namespace orrery {
namespace {

std::int64_t duration(const Trace& trace) {
  std::int64_t end = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end);
  }
  return end;
}

/// The choices of learned routing beside the room that the Program had; empty where routing was stated.
std::optional<std::string> routing_text(const RoutingCounts& routing) {
  if (routing.empty()) return std::nullopt;
  std::uint64_t chosen = 0, kept = 0, room = 0;
  double busiest = 0.0;
  std::uint32_t where = 0;
  for (const auto& [layer, counts] : routing) {
    std::uint64_t of_layer = 0, most = 0;
    for (const std::uint64_t n : counts.chosen) {
      of_layer += n;
      most = std::max(most, n);
    }
    chosen += of_layer;
    kept += counts.kept;
    room += counts.room;
    const double ratio = static_cast<double>(most * counts.chosen.size()) / static_cast<double>(of_layer);
    if (ratio > busiest) where = layer;
    busiest = std::max(busiest, ratio);
  }
  return fmt::format(
      "learned routing: messages to experts had room for {} rows, the largest possible number, and {} ({:.1f} %) held "
      "a "
      "token; {} of {} choices were dropped; the busiest expert, in layer {}, was chosen {:.2f} times as often as the "
      "mean",
      room, kept, 100.0 * static_cast<double>(kept) / static_cast<double>(room), chosen - kept, chosen, where, busiest);
}

}  // namespace

const Trace& median_trace(const RunResult& result) {
  ORRERY_ASSERT(!result.traces.empty());
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < result.traces.size(); ++i) order.emplace_back(duration(result.traces[i]), i);
  std::sort(order.begin(), order.end());
  return result.traces[order[(order.size() - 1) / 2].second];
}

Report report_of(const PlannedRun& run, const Program& program, const RunResult& result) {
  const Trace& trace = median_trace(result);
  Report report = summarize(run, program, trace, trace.concurrent_lanes);
  report.origin = trace.origin;
  // Figures counted during the run take the place of the Program's; only the parts of a stage's peak are the Program's.
  report.peak_memory_bytes = 0;
  report.sent_bytes = 0;
  for (StageMemory& stage : report.memory_by_stage) stage.peak = 0;
  for (const RankTrace& rank : trace.ranks) {
    std::uint64_t& stage = report.memory_by_stage[class_of(program, rank.rank)].peak;
    stage = std::max(stage, rank.peak_bytes);
    report.peak_memory_bytes = std::max(report.peak_memory_bytes, rank.peak_bytes);
    report.sent_bytes += rank.sent_bytes;
  }
  if (!result.losses.empty()) report.loss = result.losses.back();
  if (run.workload.precision == Precision::fp8) {
    report.assumptions.push_back(
        result.fp8_products
            ? "products of layers are made in fp8: E4M3, gradients E5M2, each matrix scaled by its largest element; "
              "those with a size that is not a multiple of 16 in bf16"
        : result.streams ? "products that other devices make in fp8 are made in bf16 here"
                         : "products that a device makes in fp8 are made in f32 here, of bf16 operands");
  }
  std::uint64_t reserved = 0;
  std::uint64_t outside = 0;
  std::uint64_t held = 0;
  for (const RankMemory& memory : result.memory) {
    reserved = std::max(reserved, memory.reserved_bytes);
    outside = std::max(outside, memory.outside_bytes);
    held = std::max(held, memory.held_bytes);
  }
  constexpr double seconds = 1e-12;  // per picosecond
  const std::string kept = result.trace_stride == 1 ? "" : fmt::format(" (of every {} steps one)", result.trace_stride);
  report.assumptions.push_back(fmt::format("median{} of {} measured steps, {:.6f} s to {:.6f} s", kept,
                                           result.times.steps, static_cast<double>(result.times.fastest) * seconds,
                                           static_cast<double>(result.times.slowest) * seconds));
  report.assumptions.push_back(result.streams ? "lanes side by side, a stream of the device for each lane of a rank"
                               : trace.concurrent_lanes ? "lanes side by side, a thread for each lane of a rank"
                                                        : "a rank does one operation at a time");
  report.assumptions.push_back(fmt::format(
      "largest over ranks: {} bytes reserved for buffers, {} bytes of scratch outside the Program", reserved, outside));
  if (const auto routing = routing_text(result.routing)) report.assumptions.push_back(*routing);
  if (const auto busy = core_shortage(result.cores)) report.assumptions.push_back(*busy);
  if (trace.concurrent_lanes) {
    report.assumptions.push_back(fmt::format(
        "peak memory counts buffers in the order of issue; with those that a lane still used when freed, {} bytes were "
        "held at one time",
        held));
  }
  return report;
}

}  // namespace orrery
