#include "cli/price_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/program/program_text.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/prices.hpp"
#include "validate/cost_file.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

/// Bytes that travel: a collective's payload, or all messages of an exchange.
std::optional<std::uint64_t> message_bytes(const Program& program, const Block& block, const Op& op) {
  if (std::holds_alternative<Collective>(op.action)) return payload_bytes(program, block, op);
  const auto* exchange = std::get_if<Exchange>(&op.action);
  if (exchange == nullptr) return std::nullopt;
  std::uint64_t bytes = 0;
  for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count; ++t) {
    const View& view = block.views[op.views.first + block.transfers[t].view];
    bytes += view.count * size_of(program[view.buffer].dtype);
  }
  return bytes;
}

/// Kind and shape, without operands and waits; for messages the bytes.
std::string shape_of(const Program& program, const Block& block, const Op& op) {
  const std::string text = op_text(program, block, op);
  const std::string kind = text.substr(0, text.find(" ("));
  const std::optional<std::uint64_t> bytes = message_bytes(program, block, op);
  return bytes ? fmt::format("{}, {}", kind, short_text(Bytes::of(static_cast<double>(*bytes)))) : kind;
}

double together(const ExplainedOperation& e) { return e.runs * e.price.value; }

std::string unit_of(const DerivedNumber& n) {
  std::string above, below;
  const auto add = [&](const char* unit, int power) {
    if (power != 0) (power > 0 ? above : below) += unit;
  };
  add("B", n.bytes);
  add("FLOP", n.flops);
  add("s", n.seconds);
  if (above.empty() && below.empty()) return "";
  return (above.empty() ? "1" : above) + (below.empty() ? "" : "/" + below);
}

nlohmann::ordered_json number_json(const DerivedNumber& n) {
  nlohmann::ordered_json out{{"name", n.name}, {"value", n.value}, {"unit", unit_of(n)}, {"by", name_of(n.by)}};
  if (n.by == NumberBy::given) out["source"] = name_of(n.source);
  if (!n.where.empty()) out["where"] = n.where;
  if (!n.from.empty()) {
    out["from"] = nlohmann::ordered_json::array();
    for (const DerivedNumber& part : n.from) out["from"].push_back(number_json(part));
  }
  return out;
}

/// Lines of a tree. A number that stands twice is expanded only once.
void number_rows(Table& table, const DerivedNumber& n, std::size_t depth, std::set<std::string>& seen) {
  const std::string value = value_text(n);
  const bool again = !n.from.empty() && !seen.insert(n.name + " " + fmt::format("{:.17g}", n.value)).second;
  std::string how;
  if (n.by == NumberBy::given) {
    how = fmt::format("{}{}{}", name_of(n.source), n.where.empty() ? "" : ": ", n.where);
  } else {
    how = again ? "as above" : fmt::format("{} of{}{}", name_of(n.by), n.where.empty() ? "" : "; ", n.where);
  }
  table.row({std::string(2 * depth, ' ') + n.name, value, how});
  if (again) return;
  for (const DerivedNumber& part : n.from) number_rows(table, part, depth + 1, seen);
}

void collect_software(const DerivedNumber& n, std::set<std::string>& into) {
  if (n.by == NumberBy::given && n.source == NumberSource::software) into.insert(n.where);
  for (const DerivedNumber& part : n.from) collect_software(part, into);
}

/// The places of the files that the sources name, and the files that make each cost of the software.
std::vector<std::pair<std::string, std::string>> sources(const std::vector<ExplainedOperation>& operations,
                                                         const LoadedPlan& loaded, const Library& library) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto said = [](const std::string& what, const std::string& source) {
    return source.empty() ? what : what + ": " + source;
  };
  const ClusterSpec& cluster = *loaded.run.cluster;
  const Calibration& calibration = loaded.calibration.calibration;
  out.emplace_back("device", said(cluster.device.name, cluster.device.source));
  for (const OtherNodes& other : cluster.other_nodes) {
    if (other.device.name != cluster.device.name) {
      out.emplace_back("device of other nodes", said(other.device.name, other.device.source));
    }
  }
  out.emplace_back("cluster", said(cluster.name, cluster.source));
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    out.emplace_back(fmt::format("levels[{}]", l), said(cluster.levels[l].name, cluster.levels[l].rates_source));
  }
  out.emplace_back("calibration", said(loaded.calibration.origin, calibration.source));
  out.emplace_back("software", describe(loaded.calibration.software));
  std::set<std::string> used;
  for (const ExplainedOperation& e : operations) collect_software(e.price, used);
  const std::vector<std::string>& files = loaded.calibration.software.files;
  for (const CostFile& file : shipped_costs(library)) {
    if (std::find(files.begin(), files.end(), file.name) == files.end()) continue;
    for (const FittedCost& cost : file.costs) {
      if (!used.contains(std::string(name_of(cost.cost)))) continue;
      out.emplace_back(
          fmt::format("{} of {}", name_of(cost.cost), file.name),
          fmt::format("{:.4g}{} (prior {:.4g}, {} runs): {}", cost.value,
                      is_factor(cost.cost) ? ", multiplied" : ", added", cost.prior, file.runs.size(), file.source));
    }
  }
  return out;
}

}  // namespace

std::vector<ExplainedOperation> explain_operations(const LoadedPlan& loaded, const std::string& wanted) {
  const Program& program = loaded.program;
  const CostModel costs = cost_model(loaded);
  Prices prices;
  price(prices, program, costs);
  std::vector<ExplainedOperation> out;
  std::map<std::string, std::size_t> place;  // by kind, shape and price
  std::set<std::string> kinds;
  const double share = 1.0 / static_cast<double>(program.classes.size());
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (std::uint32_t at = prices.first_block[c]; at < prices.first_block[c + 1]; ++at) {
      const BlockId id = prices.blocks[at];
      const Block& block = program[id];
      for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (!is_timed(op)) continue;
        const std::string kind = name_of(operation_of(program, block, op));
        kinds.insert(kind);
        if (wanted != "all" && wanted != kind) continue;
        ExplainedOperation e{kind, shape_of(program, block, op), {}, 0.0, derive(program, costs, c, id, i)};
        const auto [found, fresh] =
            place.emplace(fmt::format("{} {} {:.17g}", e.kind, e.what, e.price.value), out.size());
        if (fresh) out.push_back(std::move(e));
        ExplainedOperation& into = out[found->second];
        into.runs += share * static_cast<double>(prices.runs[at]);
        if (std::find(into.blocks.begin(), into.blocks.end(), block.name) == into.blocks.end()) {
          into.blocks.push_back(block.name);
        }
      }
    }
  }
  if (out.empty()) {
    refuse("cli.explain-op", fmt::format("the plan has no operation of the kind {}", escaped(wanted)),
           {fmt::format("Its kinds are all, {}.", fmt::join(kinds, ", "))});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const ExplainedOperation& a, const ExplainedOperation& b) { return together(a) > together(b); });
  return out;
}

std::string prices_text(const std::vector<ExplainedOperation>& operations, const LoadedPlan& loaded,
                        const Library& library) {
  double all = 0.0;
  for (const ExplainedOperation& e : operations) all += together(e);
  std::string out = fmt::format("\nPrices of {} that differ\n", counted(operations.size(), "operation"));
  for (const ExplainedOperation& e : operations) {
    out += fmt::format("\n  {}: {}\n  in {}; {:.4g} in a step of a rank, {} together ({} of these)\n", e.kind, e.what,
                       fmt::join(e.blocks, ", "), e.runs, short_text(Seconds::of(together(e))),
                       percent(all > 0.0 ? together(e) / all : 0.0));
    Table table({"number", "value", "<from"});
    std::set<std::string> seen;
    number_rows(table, e.price, 0, seen);
    out += table.str("    ");
  }
  out += "\nSources\n";
  for (const auto& [name, what] : sources(operations, loaded, library)) {
    out += fmt::format("  {}: {}\n", name, escaped(what));
  }
  return out;
}

nlohmann::ordered_json prices_json(const std::vector<ExplainedOperation>& operations, const LoadedPlan& loaded,
                                   const Library& library) {
  nlohmann::ordered_json out;
  out["operations"] = nlohmann::ordered_json::array();
  for (const ExplainedOperation& e : operations) {
    out["operations"].push_back(
        {{"kind", e.kind}, {"what", e.what}, {"blocks", e.blocks}, {"runs", e.runs}, {"price", number_json(e.price)}});
  }
  out["sources"] = nlohmann::ordered_json::object();
  for (const auto& [name, what] : sources(operations, loaded, library)) out["sources"][name] = what;
  return out;
}

}  // namespace orrery
