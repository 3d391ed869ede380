#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/units_text.hpp"
#include "sim/net/messages.hpp"

namespace orrery {
namespace {

/// Whether the group is whole nodes, one after another.
bool whole_nodes(const Fabric& f, const std::vector<std::uint32_t>& gpus) {
  const std::uint32_t each = f.spec().node.gpus;
  if (each < 2 || gpus.size() % each != 0 || gpus.size() == each) return false;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i] % each != i % each || gpus[i] / each != gpus[i / each * each] / each) return false;
  }
  return true;
}

}  // namespace

std::vector<AllReduceTimes> compare_all_reduces(const Fabric& fabric, const std::vector<std::uint32_t>& gpus,
                                                const std::vector<Bytes>& payloads, PathRule rule) {
  const auto p = static_cast<std::uint32_t>(gpus.size());
  std::vector<AllReduceTimes> out;
  for (const Bytes payload : payloads) {
    AllReduceTimes& row = out.emplace_back();
    row.payload = payload;
    const auto add = [&](const char* algorithm, Messages messages) {
      row.entries.push_back({algorithm, run_jobs(fabric, {{gpus, std::move(messages)}}, rule, 1).ends[0]});
    };
    add("ring", ring_all_reduce_messages(p, payload));
    if (std::has_single_bit(p)) {
      add("recursive doubling", recursive_doubling_messages(p, payload));
      add("halving and doubling", halving_doubling_messages(p, payload));
    }
    if (whole_nodes(fabric, gpus)) {
      add("hierarchical", hierarchical_all_reduce_messages(p, fabric.spec().node.gpus, payload));
    }
  }
  return out;
}

std::string crossover_text(const std::vector<AllReduceTimes>& rows) {
  std::vector<std::vector<std::string>> table{{"payload"}};
  if (rows.empty()) return "";
  for (const auto& e : rows.front().entries) table.front().push_back(e.algorithm);
  for (const AllReduceTimes& row : rows) {
    const auto fastest = std::min_element(row.entries.begin(), row.entries.end(),
                                          [](const auto& a, const auto& b) { return a.time < b.time; });
    std::vector<std::string>& line = table.emplace_back();
    line.push_back(short_text(row.payload));
    for (auto e = row.entries.begin(); e != row.entries.end(); ++e) {
      line.push_back(short_text(Seconds::of(1e-12 * static_cast<double>(e->time))) + (e == fastest ? "*" : ""));
    }
  }
  std::vector<std::size_t> widths(table.front().size(), 0);
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const auto& line : table) {
    for (std::size_t i = 0; i + 1 < line.size(); ++i) out += fmt::format("{:<{}}", line[i], widths[i] + 2);
    out += line.back() + "\n";
  }
  return out;
}

}  // namespace orrery
