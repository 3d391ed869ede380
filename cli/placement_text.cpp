#include "cli/placement_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/report_text.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"

namespace orrery {
namespace {

/// A person does not read a table of more nodes than this.
constexpr std::uint32_t most_nodes_shown = 8, most_nodes_listed = 64;
constexpr std::uint32_t most_ranks_shown = 64;

/// A plan's ranks on the devices, in words.
std::string where(const PlacedStep& s) {
  if (!s.order.empty()) return s.order;
  if (s.plan.placement.size() > most_ranks_shown) return "rank by rank, in the plan file";
  return "rank by rank";
}

nlohmann::ordered_json json_of(const BytesByReach& b) {
  return {{"nvlink", b.nvlink}, {"pcie", b.pcie}, {"socket", b.socket}, {"network", b.network}};
}

/// Shares as a text, "network 25 %, NVLink 75 %", the furthest first.
std::string shares_text(const BytesByReach& b) {
  std::string out;
  const auto add = [&](double bytes, const char* name) {
    if (bytes > 0.0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, percent(bytes / b.all(), 0));
  };
  add(b.network, "network");
  add(b.socket, "socket");
  add(b.pcie, "PCIe");
  add(b.nvlink, "NVLink");
  return out.empty() ? "-" : out;
}

struct Column {
  const char* title;
  const PlacedStep* step;
};
std::vector<Column> columns(const PlacementSearch& r) {
  return {{"as given", &r.given}, {"found", &r.found}, {"a bad order", &r.worst}};
}

/// The bytes that groups send, and how far they go.
std::string groups_text(const FabricRoutes& routes, const PlacementSearch& r) {
  std::vector<std::string> head{"sent by all ranks in a step", "bytes"};
  for (const Column& c : columns(r)) head.emplace_back(c.title);
  Table table(head);
  for (const AxisTraffic& t : r.given.traffic) {
    std::vector<std::string> cells{t.name};
    for (const Column& c : columns(r)) {
      const auto same = std::find_if(c.step->traffic.begin(), c.step->traffic.end(),
                                     [&](const AxisTraffic& other) { return other.name == t.name; });
      const BytesByReach b = same == c.step->traffic.end() ? BytesByReach{} : bytes_by_reach(same->between, routes);
      if (c.step == &r.given) cells.push_back(short_text(Bytes::of(b.all())));
      cells.push_back(shares_text(b));
    }
    table.row(std::move(cells));
  }
  return table.str();
}

std::string nodes_text(const std::vector<std::vector<double>>& sent) {
  std::vector<std::string> head{"from"};
  for (std::size_t n = 0; n < sent.size(); ++n) head.push_back(fmt::format("to {}", n));
  Table table(head);
  for (std::size_t n = 0; n < sent.size(); ++n) {
    std::vector<std::string> cells{fmt::format("node {}", n)};
    for (const double bytes : sent[n]) cells.push_back(bytes > 0.0 ? short_text(Bytes::of(bytes)) : "-");
    table.row(std::move(cells));
  }
  return table.str();
}

std::string certificate(const PlacementSearch& r) {
  std::string out = fmt::format("{} looked at, {} of them orders of axes and their factors; {} simulated.\n",
                                counted(r.looked, "placement"), r.orders, r.simulated);
  const double gap = r.found.step / r.least - 1.0;
  if (r.cancelled) {
    out += "Interrupted: this is the best so far.\n";
  } else if (r.every) {
    out +=
        "These are all placements that differ for the fabric: none has a step shorter by more than "
        "0.01 %.\n";
  } else if (gap <= placement_tolerance) {
    out +=
        "With every collective and message at its best place a step would take as long: no placement saves more than "
        "0.01 "
        "%.\n";
    return out;
  }
  if (!r.every) {
    out += fmt::format("No placement takes less than {}; the one found is at most {} above the best.\n",
                       short_text(r.least), percent(std::max(gap, 0.0), 2));
  }
  return out;
}

}  // namespace

std::string placement_text(const FabricRoutes& routes, std::uint64_t ranks, const PlacementSearch& r) {
  const Fabric& fabric = *routes.fabric;
  std::vector<std::string> head{"placement"};
  for (const Column& c : columns(r)) head.emplace_back(c.title);
  Table table(head);
  const auto row = [&](const char* title, auto&& cell) {
    std::vector<std::string> cells{title};
    for (const Column& c : columns(r)) cells.push_back(cell(*c.step));
    table.row(std::move(cells));
  };
  row("axes, outermost first", [](const PlacedStep& s) { return where(s); });
  row("step time", [](const PlacedStep& s) { return short_text(s.step); });
  row("  with links to itself", [](const PlacedStep& s) { return short_text(s.alone); });
  row("busiest link", [&](const PlacedStep& s) {
    return s.busiest.busy > Seconds{} ? fabric.name(s.busiest.link) : std::string("none");
  });
  row("  full for", [](const PlacedStep& s) { return short_text(s.busiest.busy); });
  row("  of the step", [](const PlacedStep& s) { return percent(s.busiest.busy / s.step); });
  std::string out = table.str() + "\n" + groups_text(routes, r);
  const std::uint32_t of_node = fabric.spec().node.gpus;
  const auto nodes = static_cast<std::uint32_t>((ranks + of_node - 1) / of_node);
  if (nodes > 1 && nodes <= most_nodes_shown) {
    for (const Column& c : columns(r)) {
      if (c.step == &r.given) continue;
      out += fmt::format("\nsent from node to node in a step, {}\n", c.title) +
             nodes_text(between_nodes(c.step->traffic, nodes, of_node));
    }
  }
  if (!r.found.plan.placement.empty() && r.found.plan.placement.size() <= most_ranks_shown) {
    out += fmt::format("\ndevices of ranks 0, 1, ...: {}\n", fmt::join(r.found.plan.placement, " "));
  }
  return out + "\n" + certificate(r);
}

nlohmann::ordered_json placement_json(const FabricRoutes& routes, const PlannedRun& given, const PlacementSearch& r) {
  const Fabric& fabric = *routes.fabric;
  nlohmann::ordered_json out;
  out["fabric"] = fabric.spec().name;
  const std::uint32_t of_node = fabric.spec().node.gpus;
  const auto nodes = static_cast<std::uint32_t>((given.plan.mesh.size() + of_node - 1) / of_node);
  const auto add = [&](const char* key, const PlacedStep& s) {
    nlohmann::ordered_json one{
        {"order", s.order.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(s.order)},
        {"step_time_s", s.step.base()},
        {"unshared_step_time_s", s.alone.base()},
        {"busiest_link_s", s.busiest.busy.base()}};
    one["busiest_link"] = s.busiest.busy > Seconds{} ? nlohmann::ordered_json(fabric.name(s.busiest.link))
                                                     : nlohmann::ordered_json(nullptr);
    one["sent_bytes"] = nlohmann::ordered_json::array();
    for (const AxisTraffic& t : s.traffic) {
      nlohmann::ordered_json line = json_of(bytes_by_reach(t.between, routes));
      line["by"] = t.name;
      one["sent_bytes"].push_back(std::move(line));
    }
    if (nodes <= most_nodes_listed) one["between_nodes_bytes"] = between_nodes(s.traffic, nodes, of_node);
    PlannedRun run = given;
    run.plan = s.plan;
    one["plan_file"] = write_plan(run);
    out[key] = std::move(one);
  };
  add("given", r.given);
  add("found", r.found);
  add("bad_order", r.worst);
  out["orders"] = r.orders;
  out["placements"] = r.looked;
  out["simulated"] = r.simulated;
  out["every"] = r.every;
  out["least_step_time_s"] = r.least.base();
  out["complete"] = !r.cancelled;
  return out;
}

}  // namespace orrery
