#include "cli/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/table.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

const char* title_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "NVLink";
    case LinkKind::pcie: return "PCIe";
    case LinkKind::socket: return "socket";
    case LinkKind::network: return "network";
  }
  return "";
}

/// Links that are alike, and how many.
using LinkCounts = std::map<std::tuple<LinkKind, double, double>, std::uint64_t>;

LinkCounts count_links(const Fabric& fabric) {
  LinkCounts counts;
  for (std::uint32_t l = 0; l < fabric.links(); ++l) {
    const Link link = fabric.link(LinkId{l});
    ++counts[{link.kind, -link.bandwidth.base(), link.latency.base()}];
  }
  return counts;
}

double utilization(const LinkLoad& load, Seconds step) { return load.carried / load.bandwidth / step; }

}  // namespace

std::optional<Fabric> named_fabric(const Library& library, const std::string& reference, Diagnostics& diagnostics) {
  const std::optional<std::filesystem::path> file = library.fabric(reference, diagnostics);
  if (!file) return std::nullopt;
  std::optional<std::string> text = read_text(*file, diagnostics);
  if (!text) return std::nullopt;
  std::optional<FabricSpec> spec = parse_fabric(std::move(*text), file->string(), diagnostics);
  if (!spec) return std::nullopt;
  return Fabric(std::move(*spec));
}

std::optional<PathRule> path_rule_named(const std::string& name) {
  if (name == "by-destination") return PathRule::by_destination;
  if (name == "hashed") return PathRule::hashed;
  if (name == "rail-local") return PathRule::rail_local;
  return std::nullopt;
}

std::string fabric_text(const Fabric& fabric, PathRule rule) {
  const FabricSpec& spec = fabric.spec();
  std::string out = printable(spec.name) + "\n";
  out += fmt::format("  {} in {} of {}, {} each\n", counted(fabric.gpus(), "GPU"), counted(spec.nodes, "node"),
                     spec.node.gpus, counted(spec.node.nics, "NIC"));
  if (!spec.source.empty()) out += "  source: " + printable(spec.source) + "\n";
  Table links({"links, one way", "count", "bandwidth", "latency"});
  for (const auto& [link, count] : count_links(fabric)) {
    const auto& [kind, bandwidth, latency] = link;
    links.row({title_of(kind), std::to_string(count), short_text(Bandwidth::of(-bandwidth)),
               short_text(Seconds::of(latency))});
  }
  out += "\n" + links.str();
  // To a neighbour, to the next node, half way and to the last.
  std::vector<std::uint32_t> ends{1, spec.node.gpus, fabric.gpus() / 2, fabric.gpus() - 1};
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  out += "\nroutes from GPU 0\n";
  std::vector<LinkId> route;
  for (const std::uint32_t to : ends) {
    if (to == 0 || to >= fabric.gpus()) continue;
    route.clear();
    fabric.route(0, to, rule, 0, route);
    Bandwidth least = fabric.link(route.front()).bandwidth;
    for (const LinkId l : route) least = std::min(least, fabric.link(l).bandwidth);
    out += fmt::format("  to GPU {}: {}, {}\n", to, short_text(fabric.latency(route)), short_text(least));
    for (const LinkId l : route) out += "    " + printable(fabric.name(l)) + "\n";
  }
  return out;
}

nlohmann::ordered_json fabric_json(const Fabric& fabric) {
  const FabricSpec& spec = fabric.spec();
  nlohmann::ordered_json json{
      {"name", spec.name},   {"source", spec.source},           {"gpus", fabric.gpus()},
      {"nodes", spec.nodes}, {"gpus_per_node", spec.node.gpus}, {"nics_per_node", spec.node.nics}};
  json["links"] = nlohmann::ordered_json::array();
  for (const auto& [link, count] : count_links(fabric)) {
    const auto& [kind, bandwidth, latency] = link;
    json["links"].push_back(
        {{"kind", title_of(kind)}, {"count", count}, {"bandwidth_bytes_per_s", -bandwidth}, {"latency_s", latency}});
  }
  return json;
}

std::vector<double> shares_of_time(const Fabric& fabric, const std::vector<LinkLoad>& loads, Seconds step) {
  std::vector<double> out(fabric.links(), 0.0);
  for (const LinkLoad& l : loads) out[index(l.link)] = utilization(l, step);
  return out;
}

void sort_by_load(std::vector<LinkLoad>& loads) {
  std::stable_sort(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.carried / a.bandwidth > b.carried / b.bandwidth;
  });
}

std::string loads_text(const Fabric& fabric, const std::vector<LinkLoad>& loads, Seconds step, std::size_t count) {
  // Symmetric plans load links by the dozen alike: one line for those of a kind.
  struct Line {
    LinkKind kind;
    const LinkLoad* first;
    std::size_t links = 0;
  };
  std::vector<Line> lines;
  for (const LinkLoad& load : loads) {
    const LinkKind kind = fabric.link(load.link).kind;
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& l) {
      return l.kind == kind && std::abs(utilization(*l.first, step) - utilization(load, step)) < 0.0005;
    });
    if (same != lines.end()) {
      ++same->links;
    } else if (lines.size() < count) {
      lines.push_back({kind, &load, 1});
    }
  }
  Table table({"busiest links", "<", "sent by each", "of what it could"});
  for (const Line& l : lines) {
    table.row({fabric.name(l.first->link), l.links > 1 ? fmt::format("and {} more", l.links - 1) : "",
               short_text(l.first->carried), percent(utilization(*l.first, step))});
  }
  return table.str();
}

nlohmann::ordered_json loads_json(const Fabric& fabric, const std::vector<LinkLoad>& loads, Seconds step,
                                  std::size_t count) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(count, loads.size()); ++i) {
    json.push_back({{"link", index(loads[i].link)},
                    {"name", fabric.name(loads[i].link)},
                    {"sent_bytes", loads[i].carried.base()},
                    {"utilization", utilization(loads[i], step)}});
  }
  return json;
}

}  // namespace orrery
