#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/record/compare.hpp"

namespace orrery {

using nlohmann::ordered_json;

namespace {

ordered_json maybe(const std::optional<double>& v) { return v ? ordered_json(*v) : ordered_json(nullptr); }

ordered_json rows(const std::vector<ComparedTime>& times) {
  ordered_json list = ordered_json::array();
  for (const ComparedTime& t : times) {
    ordered_json row;
    row["name"] = t.name;
    row["predicted_s"] = t.predicted.base();
    row["measured_s"] = t.measured.base();
    row["error"] = maybe(t.error);
    if (t.predicted_count != 0 || t.measured_count != 0) {
      row["predicted_count"] = t.predicted_count;
      row["measured_count"] = t.measured_count;
    }
    if (t.median_error) row["median_error_of_one"] = *t.median_error;
    list.push_back(std::move(row));
  }
  return list;
}

std::string percent(const std::optional<double>& error) {
  return error ? fmt::format("{:+.1f} %", 100.0 * *error) : std::string("-");
}

/// Text in columns as wide as their widest cell, two spaces apart; the first
/// is left-aligned.  What files say (names, origins) is made safe for a terminal.
class Columns {
 public:
  explicit Columns(std::size_t count) : widths_(count, 0) {}
  void row(std::vector<std::string> cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      cells[i] = escaped(cells[i]);
      widths_[i] = std::max<std::size_t>(widths_[i], character_count(cells[i]));
    }
    rows_.push_back(std::move(cells));
  }
  /// Text of its own between the rows.
  void line(std::string text) { rows_.push_back({std::move(text)}); }
  [[nodiscard]] std::string str() const {
    std::string out;
    for (const auto& cells : rows_) {
      std::string text;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::string pad(widths_[i] - std::min<std::size_t>(widths_[i], character_count(cells[i])), ' ');
        text += i == 0 ? (cells.size() == 1 ? cells[i] : cells[i] + pad) : "  " + pad + cells[i];
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + "\n";
    }
    return out;
  }

 private:
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

std::string bytes_text(std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); }

}  // namespace

ordered_json to_json(const Comparison& c) {
  ordered_json j;
  j["predicted"] = c.predicted;
  j["measured"] = c.measured;
  j["predicted_step_time_s"] = c.predicted_step.base();
  j["measured_step_time_s"] = c.measured_step.base();
  j["step_time_error"] = maybe(c.step_error);
  j["predicted_peak_memory_bytes"] = c.predicted_peak_bytes;
  j["measured_peak_memory_bytes"] = c.measured_peak_bytes;
  if (!c.judges_memory) j["judges_memory"] = false;
  j["parts"] = rows(c.parts);
  j["operations"] = rows(c.operations);
  if (!c.ranks.empty()) {
    j["ranks"] = ordered_json::array();
    for (const ComparedRank& r : c.ranks) {
      ordered_json row;
      row["rank"] = index(r.rank);
      row["predicted_end_s"] = r.predicted_end.base();
      row["measured_end_s"] = r.measured_end.base();
      row["predicted_peak_bytes"] = r.predicted_peak_bytes;
      row["measured_peak_bytes"] = r.measured_peak_bytes;
      row["predicted_sent_bytes"] = r.predicted_sent_bytes;
      row["measured_sent_bytes"] = r.measured_sent_bytes;
      j["ranks"].push_back(std::move(row));
    }
  }
  j["mismatches"] = c.mismatches;
  j["step_time_tolerance"] = c.tolerance.step_time;
  j["memory_tolerance"] = c.tolerance.memory;
  j["within_tolerance"] = c.within_tolerance;
  return j;
}

std::string write_comparison(const Comparison& c) { return to_json(c).dump(2) + "\n"; }

std::string render(const Comparison& c) {
  Columns table(6);
  table.row({"", c.predicted, c.measured, "error", "runs", "error of 1"});
  const auto row = [&](const ComparedTime& t) {
    std::string runs;
    if (t.predicted_count != 0 || t.measured_count != 0) {
      runs = t.predicted_count == t.measured_count ? std::to_string(t.measured_count)
                                                   : fmt::format("{}/{}", t.predicted_count, t.measured_count);
    }
    table.row({t.name, short_text(t.predicted), short_text(t.measured), percent(t.error), runs,
               t.median_error ? fmt::format("{:.1f} %", 100.0 * *t.median_error) : ""});
  };
  ComparedTime step;
  step.name = "step time";
  step.predicted = c.predicted_step;
  step.measured = c.measured_step;
  step.error = c.step_error;
  row(step);
  for (const ComparedTime& t : c.parts) row(t);
  const bool known = c.judges_memory || c.measured_peak_bytes != 0;
  table.row(
      {"peak memory", bytes_text(c.predicted_peak_bytes), known ? bytes_text(c.measured_peak_bytes) : "-",
       percent(relative_error(static_cast<double>(c.predicted_peak_bytes), static_cast<double>(c.measured_peak_bytes))),
       "", ""});
  if (!c.operations.empty()) {
    table.line("\noperations (mean over ranks)");
    for (const ComparedTime& t : c.operations) row(t);
  }
  std::string out = table.str();
  if (!c.ranks.empty()) {
    Columns ranks(7);
    ranks.row({"rank", "end", "measured", "peak bytes", "measured", "sent bytes", "measured"});
    for (const ComparedRank& r : c.ranks) {
      ranks.row({std::to_string(index(r.rank)), short_text(r.predicted_end), short_text(r.measured_end),
                 with_commas(r.predicted_peak_bytes), with_commas(r.measured_peak_bytes),
                 with_commas(r.predicted_sent_bytes), with_commas(r.measured_sent_bytes)});
    }
    out += "\n" + ranks.str();
  }
  for (const std::string& m : c.mismatches) out += "\nnot comparable: " + m;
  if (!c.mismatches.empty()) out += "\n";
  out += fmt::format("\n{} tolerance: step time {} (allowed {:.0f} %), peak memory {}.\n",
                     c.within_tolerance ? "Within" : "Out of", percent(c.step_error), 100.0 * c.tolerance.step_time,
                     !c.judges_memory                                  ? "not judged"
                     : c.predicted_peak_bytes == c.measured_peak_bytes ? "equal"
                                                                       : "different");
  return out;
}

}  // namespace orrery
