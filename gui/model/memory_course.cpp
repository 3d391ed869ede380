#include "gui/model/memory_course.hpp"

#include <QCoreApplication>
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/units_text.hpp"
#include "core/record/live_memory.hpp"

namespace orrery::gui {

static_assert(memory_role_count == LiveMemory::share_count);

std::uint64_t HeldMemory::total() const { return std::accumulate(held.begin(), held.end(), std::uint64_t{0}); }

std::vector<HeldMemory> memory_course(const Program& program, const RankTrace& trace) {
  HeldMemory now;
  const auto apply = [&](const OpRun& run) {
    const std::optional<LiveChange> change = live_change(program, *run.op);
    if (change) now.held[LiveMemory::share_of(change->role)] += static_cast<std::uint64_t>(change->bytes);  // wraps
    return change.has_value();
  };
  const RankClass& ranks = program.classes[class_of(program, trace.rank)];
  for_each_op(program, ranks.setup, apply);
  // The last entry is the fullest moment of its instant, and `now` may be below it already.
  std::vector<HeldMemory> out{now};
  const auto leave = [&] {
    if (out.back().held == now.held) return;
    now.time = out.back().time;
    out.push_back(now);
  };
  for_each_op(program, ranks.step, [&](const OpRun& run) {
    if (is_timed(*run.op)) return;
    const std::int64_t time = std::max(out.back().time, trace.spans[index(run.id)].start);
    if (time > out.back().time) leave();
    if (!apply(run)) return;
    now.time = time;
    if (time > out.back().time) {
      out.push_back(now);
    } else if (now.total() > out.back().total()) {
      out.back() = now;
    }
  });
  leave();
  return out;
}

std::vector<HeldMemory> course_in(const std::vector<HeldMemory>& course, TimeRange range, std::size_t parts) {
  std::vector<HeldMemory> out;
  if (course.empty() || range.length() <= 0 || parts == 0) return out;
  const auto begin_of = [&](std::size_t part) {
    return range.start + static_cast<std::int64_t>(static_cast<double>(range.length()) * static_cast<double>(part) /
                                                   static_cast<double>(parts));
  };
  // Memory that was left before the range is held at its beginning.
  auto at = std::lower_bound(course.begin(), course.end(), range.start,
                             [](const HeldMemory& m, std::int64_t t) { return m.time < t; });
  HeldMemory last = at == course.begin() ? course.front() : *std::prev(at);
  for (std::size_t part = 0; part < parts; ++part) {
    HeldMemory most = last;
    const bool ends = part + 1 == parts;
    for (; at != course.end() && (at->time < begin_of(part + 1) || (ends && at->time <= range.end)); ++at) {
      if (at->total() > most.total()) most = *at;
      last = *at;
    }
    most.time = begin_of(part);
    out.push_back(most);
  }
  return out;
}

TableContent course_table(const std::vector<HeldMemory>& course) {
  const auto tr = [](const char* text) { return QCoreApplication::translate("orrery::gui", text); };
  const auto bytes = [](std::uint64_t n) {
    return Cell{QString::fromStdString(short_text(Bytes::of(static_cast<double>(n)))), static_cast<double>(n)};
  };
  TableContent out;
  out.headers = {tr("From"), tr("Live")};
  for (std::size_t role = 0; role < memory_role_count; ++role) out.headers.push_back(memory_role_name(role));
  for (const HeldMemory& m : course) {
    const Seconds from = Seconds::of(static_cast<double>(m.time) * 1e-12);
    CellRow row{out.rows.size(), {{QString::fromStdString(short_text(from, 4)), from.base()}, bytes(m.total())}};
    for (const std::uint64_t held : m.held) row.cells.push_back(bytes(held));
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace orrery::gui
