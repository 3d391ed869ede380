#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

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

/// Fills the rows of a comparison.
class Comparison {
 public:
  Comparison(const Fabric& fabric, const std::vector<std::uint32_t>& gpus, const std::vector<Bytes>& payloads,
             PathRule rule)
      : fabric_(fabric), gpus_(gpus), rule_(rule) {
    for (const Bytes payload : payloads) rows_.push_back({payload, {}});
  }
  /// `make(payload)` gives the messages.
  template <class Make>
  void add(const char* algorithm, Make&& make) {
    for (AlgorithmTimes& row : rows_) row.entries.push_back({algorithm, time(make(row.payload))});
  }
  /// `make(payload, pieces)` makes the messages; the fastest number of pieces counts.
  template <class Make>
  void add_pipelined(const char* algorithm, Make&& make) {
    for (AlgorithmTimes& row : rows_) {
      std::optional<Picoseconds> least;
      for (std::uint32_t pieces = 1; pieces <= most_pieces; pieces *= 2) {
        const Picoseconds t = time(make(row.payload, pieces));
        least = least ? std::min(*least, t) : t;
      }
      row.entries.push_back({algorithm, *least});
    }
  }
  std::vector<AlgorithmTimes> take() { return std::move(rows_); }

 private:
  static constexpr std::uint32_t most_pieces = 32;
  Picoseconds time(Messages messages) const {
    return run_jobs(fabric_, {{gpus_, std::move(messages)}}, rule_, 1).ends[0];
  }
  const Fabric& fabric_;
  const std::vector<std::uint32_t>& gpus_;
  PathRule rule_;
  std::vector<AlgorithmTimes> rows_;
};

/// Whether the group lies in one node, or has no two GPUs in one.
bool in_one_node(const Fabric& f, const std::vector<std::uint32_t>& gpus) {
  const std::uint32_t each = f.spec().node.gpus;
  return std::all_of(gpus.begin(), gpus.end(), [&](std::uint32_t g) { return g / each == gpus.front() / each; });
}
bool in_nodes_of_their_own(const Fabric& f, const std::vector<std::uint32_t>& gpus) {
  std::set<std::uint32_t> nodes;
  for (const std::uint32_t g : gpus) nodes.insert(g / f.spec().node.gpus);
  return nodes.size() == gpus.size();
}

}  // namespace

std::vector<AlgorithmTimes> compare_all_reduces(const Fabric& fabric, const std::vector<std::uint32_t>& gpus,
                                                const std::vector<Bytes>& payloads, PathRule rule) {
  const auto p = static_cast<std::uint32_t>(gpus.size());
  Comparison all(fabric, gpus, payloads, rule);
  all.add("ring", [&](Bytes n) { return ring_all_reduce_messages(p, n); });
  all.add("recursive doubling", [&](Bytes n) { return recursive_doubling_messages(p, n); });
  all.add("halving and doubling", [&](Bytes n) { return halving_doubling_messages(p, n); });
  if (p > 1) {
    all.add_pipelined("double tree",
                      [&](Bytes n, std::uint32_t m) { return double_tree_all_reduce_messages(p, n, m); });
  }
  if (p > 1 && fabric.nvls() && in_one_node(fabric, gpus)) {
    all.add_pipelined("NVLS", [&](Bytes n, std::uint32_t m) { return nvls_all_reduce_messages(p, n, m); });
  }
  if (p > 1 && fabric.sharp() && in_nodes_of_their_own(fabric, gpus)) {
    all.add("SHARP", [&](Bytes n) { return hierarchical_all_reduce_messages(p, 1, n, {false, true}); });
  }
  if (whole_nodes(fabric, gpus)) {
    const auto add = [&](const char* name, Hierarchy how) {
      all.add(name, [&](Bytes n) { return hierarchical_all_reduce_messages(p, fabric.spec().node.gpus, n, how); });
    };
    add("hierarchical", {});
    if (fabric.nvls()) {
      add("NVLS and rings", {true, false});
      all.add_pipelined("NVLS and trees", [&](Bytes n, std::uint32_t m) {
        return nvls_tree_all_reduce_messages(p, fabric.spec().node.gpus, n, m);
      });
    }
    if (fabric.sharp()) add("rings and SHARP", {false, true});
    if (fabric.nvls() && fabric.sharp()) add("NVLS and SHARP", {true, true});
  }
  return all.take();
}

std::vector<AlgorithmTimes> compare_all_to_alls(const Fabric& fabric, const std::vector<std::uint32_t>& gpus,
                                                const std::vector<Bytes>& payloads, PathRule rule) {
  const auto p = static_cast<std::uint32_t>(gpus.size());
  Comparison all(fabric, gpus, payloads, rule);
  all.add("pairwise", [&](Bytes n) { return pairwise_all_to_all_messages(p, n); });
  if (whole_nodes(fabric, gpus)) {
    all.add("hierarchical", [&](Bytes n) { return hierarchical_all_to_all_messages(p, fabric.spec().node.gpus, n); });
  }
  return all.take();
}

std::string crossover_text(const std::vector<AlgorithmTimes>& rows) {
  std::vector<std::vector<std::string>> table{{"payload"}};
  if (rows.empty()) return "";
  for (const auto& e : rows.front().entries) table.front().push_back(e.algorithm);
  for (const AlgorithmTimes& row : rows) {
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
