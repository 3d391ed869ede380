#include "report/folded_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/record/operation.hpp"

namespace orrery {
namespace {

constexpr std::size_t most_stages = 64;

enum Row : std::size_t { compute_row, collective_row, message_row, copy_row, row_count };

BarKind kind_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return BarKind::forward;
    case Pass::recompute: return BarKind::recompute;
    case Pass::optimizer: return BarKind::optimizer;
    case Pass::setup:
    case Pass::input_gradient:
    case Pass::weight_gradient:
    case Pass::loss: return BarKind::backward;
  }
  return BarKind::backward;
}

Row row_of(LaneKind lane) {
  switch (lane) {
    case LaneKind::compute: return compute_row;
    case LaneKind::collective: return collective_row;
    case LaneKind::transfer: return message_row;
    case LaneKind::copy:
    case LaneKind::host: return copy_row;
  }
  return copy_row;
}

using Rows = std::array<std::vector<TimelineBar>, row_count>;

/// Joins bars that are at most `gap` apart: of one kind and microbatch, or any where `any_kind` is set, whose bar is of
/// the kind that takes longest.
std::vector<TimelineBar> joined(std::vector<TimelineBar> bars, std::int64_t gap, bool any_kind) {
  std::sort(bars.begin(), bars.end(),
            [](const auto& a, const auto& b) { return a.start != b.start ? a.start < b.start : a.end < b.end; });
  std::vector<TimelineBar> out;
  std::map<BarKind, std::int64_t> time;
  for (const TimelineBar& bar : bars) {
    const bool near = !out.empty() && bar.start - out.back().end <= gap;
    const bool alike = near && bar.kind == out.back().kind && bar.microbatch == out.back().microbatch;
    if (!alike && !(near && any_kind)) {
      out.push_back(bar);
      time = {{bar.kind, bar.end - bar.start}};
      continue;
    }
    TimelineBar& last = out.back();
    time[bar.kind] += bar.end - bar.start;
    last.kind = std::max_element(time.begin(), time.end(), [](const auto& a, const auto& b) {
                  return a.second < b.second;
                })->first;
    if (bar.microbatch != last.microbatch) last.microbatch = -1;
    last.end = std::max(last.end, bar.end);
  }
  return out;
}

Rows rows_of(const Program& program, const RankClass& ranks, const RankTrace& trace) {
  Rows rows;
  for_each_op(program, ranks.step, [&](const OpRun& run) {
    if (!is_timed(*run.op) || index(run.id) >= trace.spans.size()) return;
    const Span span = trace.spans[index(run.id)];
    if (span.end <= span.start) return;
    const Row row = row_of(run.op->lane.kind);
    TimelineBar bar{span.start, span.end, BarKind::copy, -1};
    if (row == compute_row) {
      bar.kind = kind_of(run.block->pass);
      if (bar.kind != BarKind::optimizer) bar.microbatch = static_cast<std::int32_t>(run.microbatch);
    } else if (row == collective_row) {
      bar.kind = BarKind::collective;
    } else if (row == message_row) {
      bar.kind = BarKind::message;
    }
    rows[row].push_back(bar);
  });
  return rows;
}

}  // namespace

std::string_view name_of(BarKind kind) {
  switch (kind) {
    case BarKind::forward: return "forward";
    case BarKind::backward: return "backward";
    case BarKind::recompute: return "recomputation";
    case BarKind::optimizer: return "optimizer";
    case BarKind::collective: return "collectives";
    case BarKind::message: return "messages between stages";
    case BarKind::copy: return "copies and host";
  }
  return "";
}

std::vector<TimelineRow> folded_timeline(const Program& program, const Trace& trace, std::size_t most) {
  // The first class of each stage stands for it.
  std::map<std::uint32_t, const RankTrace*> stages;
  std::int64_t step = 1;
  for (const RankTrace& rank : trace.ranks) {
    stages.try_emplace(program.mesh.coordinate(rank.rank, Axis::pipeline), &rank);
    for (const Span& span : rank.spans) step = std::max(step, span.end);
  }
  std::vector<std::uint32_t> shown;
  for (const auto& [stage, rank] : stages) shown.push_back(stage);
  if (shown.size() > most_stages) {
    std::vector<std::uint32_t> some;
    for (std::size_t i = 0; i < most_stages; ++i) some.push_back(shown[i * (shown.size() - 1) / (most_stages - 1)]);
    shown = std::move(some);
  }
  std::vector<std::pair<std::uint32_t, Rows>> of_stages;
  for (const std::uint32_t stage : shown) {
    const RankTrace& rank = *stages.at(stage);
    of_stages.emplace_back(stage, rows_of(program, program.classes[class_of(program, rank.rank)], rank));
    for (std::vector<TimelineBar>& row : of_stages.back().second) row = joined(std::move(row), step / 2000, false);
  }
  const auto count = [&] {
    std::size_t bars = 0;
    for (const auto& [stage, rows] : of_stages) {
      for (const auto& row : rows) bars += row.size();
    }
    return bars;
  };
  for (std::int64_t gap = step / 1000; count() > most && gap < step; gap *= 2) {
    for (auto& [stage, rows] : of_stages) {
      for (std::size_t r = 0; r < row_count; ++r) rows[r] = joined(std::move(rows[r]), gap, true);
    }
  }
  std::vector<TimelineRow> out;
  for (auto& [stage, rows] : of_stages) {
    out.push_back({fmt::format("stage {}", stage), std::move(rows[compute_row])});
    constexpr std::pair<Row, const char*> others[] = {
        {collective_row, "  collectives"}, {message_row, "  messages"}, {copy_row, "  copies"}};
    for (const auto& [row, name] : others) {
      if (!rows[row].empty()) out.push_back({name, std::move(rows[row])});
    }
  }
  return out;
}

}  // namespace orrery
