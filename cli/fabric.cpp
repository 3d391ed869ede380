#include "cli/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "cli/common.hpp"
#include "cli/drawing.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/cluster_fabric.hpp"

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

/// Links that are alike, and their number.
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

PathRule path_rule_of(const std::optional<std::string>& routes) {
  if (!routes) return PathRule::by_destination;
  const std::optional<PathRule> rule = path_rule_named(*routes);
  if (!rule) {
    refuse("cli.fabric", fmt::format("the routes \"{}\" are not known", escaped(*routes)),
           {"Known: by-destination, hashed, rail-local."});
  }
  return *rule;
}

Fabric fabric_for_cluster(const Library& library, const std::string& reference, const ClusterSpec& cluster) {
  Diagnostics d;
  std::optional<Fabric> fabric = named_fabric(library, reference, d);
  require_none(d);
  const FabricSpec& spec = fabric->spec();
  if (spec.gpus() < cluster.devices()) {
    refuse("cli.fabric",
           fmt::format("{} joins {}, but the plan's cluster has {}", escaped(spec.name), counted(spec.gpus(), "GPU"),
                       cluster.devices()),
           {fmt::format("{} nodes of {} would be enough.", (cluster.devices() + spec.node.gpus - 1) / spec.node.gpus,
                        counted(spec.node.gpus, "GPU"))});
  }
  if (!same_boxes(spec, cluster)) {
    refuse("cli.fabric",
           fmt::format("nodes of {} have {}, but nodes of the plan's cluster have {}", escaped(spec.name),
                       counted(spec.node.gpus, "GPU"), fmt::join(box_sizes(cluster), " or ")),
           {"Both must describe the same nodes: prices come from the cluster, shares of links from the fabric."});
  }
  return std::move(*fabric);
}

Fabric with_faults(const Fabric& fabric, const FaultFlags& flags) {
  if (flags.fail.empty() && flags.degrade.empty()) return fabric;
  FabricSpec spec = fabric.spec();
  const auto add = [&](const char* flag, const std::string& link, double left) {
    if (fabric.links_named(link).empty()) {
      refuse("fabric.link-name", fmt::format("{}: {}", flag, unknown_link(escaped(link))), links_like(fabric, link));
    }
    spec.faults.push_back({link, left});
  };
  for (const std::string& link : flags.fail) add("--fail", link, 0.0);
  for (const std::string& given : flags.degrade) {
    const std::size_t at = given.rfind('=');
    double left = 0.0;
    const std::string number = at == std::string::npos ? "" : given.substr(at + 1);
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), left);
    if (failure != std::errc{} || end != number.data() + number.size() || !(left > 0.0 && left <= 1.0)) {
      refuse("cli.fabric",
             fmt::format("--degrade: \"{}\" gives no share of bandwidth above 0 and up to 1", escaped(given)),
             {"\"leaf 0 -- spine 1=0.5\" leaves half of that cable's."});
    }
    add("--degrade", given.substr(0, at), left);
  }
  return Fabric(std::move(spec));
}

void require_drawing(const std::string& file, const Fabric& fabric) {
  refuse_standard_output("--draw", file);
  require_folder(file);
  if (format_of(file).empty()) {
    refuse("cli.flags", fmt::format("{} does not end in a known kind of drawing", escaped(file)),
           {"A name that ends in .svg, .png or .pdf is drawn by Graphviz; .dot and .gv hold the graph as text."});
  }
  constexpr std::uint32_t most_drawn = 6000;
  if (format_of(file) != "dot" && fabric.links() > most_drawn) {
    refuse("cli.flags",
           fmt::format("{} has {} links, too many for a picture", escaped(fabric.spec().name), fabric.links()),
           {fmt::format("At most {} are drawn; a name that ends in .dot takes any number, as text.", most_drawn)});
  }
}

void write_drawing(const std::string& file, const Fabric& fabric, const std::vector<LinkLoad>& loads, Seconds time) {
  const std::string format = format_of(file);
  const std::string graph = dot_of(fabric, shares_of_time(fabric, loads, time));
  write_file(file, format == "dot" ? graph : draw(graph, format));
}

std::string fabric_text(const Fabric& fabric, PathRule rule) {
  const FabricSpec& spec = fabric.spec();
  std::string out = escaped(spec.name) + "\n";
  out += fmt::format("  {} in {} of {}, {} each\n", counted(fabric.gpus(), "GPU"), counted(spec.nodes, "node"),
                     spec.node.gpus, counted(spec.node.nics, "NIC"));
  if (!spec.source.empty()) out += "  source: " + escaped(spec.source) + "\n";
  Table links({"links, one way", "count", "bandwidth", "latency"});
  for (const auto& [link, count] : count_links(fabric)) {
    const auto& [kind, bandwidth, latency] = link;
    links.row({title_of(kind), std::to_string(count), short_text(Bandwidth::of(-bandwidth)),
               short_text(Seconds::of(latency))});
  }
  out += "\n" + links.str();
  // The routes go to a neighbour, to the next node, half way and to the last.
  std::vector<std::uint32_t> ends{1, spec.node.gpus, fabric.gpus() / 2, fabric.gpus() - 1};
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  out += "\nroutes from GPU 0\n";
  std::vector<LinkId> route;
  for (const std::uint32_t to : ends) {
    if (to == 0 || to >= fabric.gpus()) continue;
    route.clear();
    try {
      fabric.route(0, to, rule, 0, route);
    } catch (const CutOff&) {
      out += fmt::format("  to GPU {}: none, links have failed\n", to);
      continue;
    }
    Bandwidth least = fabric.link(route.front()).bandwidth;
    for (const LinkId l : route) least = std::min(least, fabric.link(l).bandwidth);
    out += fmt::format("  to GPU {}: {}, {}\n", to, short_text(fabric.latency(route)), short_text(least));
    for (const LinkId l : route) out += "    " + escaped(fabric.name(l)) + "\n";
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

CollectiveComparison compare_collectives(const Fabric& fabric, std::uint32_t gpus) {
  std::vector<std::uint32_t> first(gpus);
  std::iota(first.begin(), first.end(), 0U);
  std::vector<Bytes> payloads;
  for (double n = 0x1p10; n <= 0x1p30; n *= 4.0) payloads.push_back(Bytes::of(n));
  // PXN is used where nodes have NICs by rail; elsewhere it changes nothing for whole nodes.
  return {gpus, compare_all_reduces(fabric, first, payloads, PathRule::rail_local),
          compare_all_to_alls(fabric, first, payloads, PathRule::rail_local)};
}

std::string comparison_text(const Fabric& fabric, const CollectiveComparison& c) {
  return fmt::format(
      "{}: the first {} of {}, the fabric to themselves, routes rail-local; * fastest\n\nall-reduce, bytes of each "
      "GPU\n{}\nall-to-all, bytes of each GPU's send buffer\n{}",
      escaped(fabric.spec().name), c.gpus, counted(fabric.gpus(), "GPU"), crossover_text(c.all_reduces),
      crossover_text(c.all_to_alls));
}

nlohmann::ordered_json comparison_json(const Fabric& fabric, const CollectiveComparison& c) {
  const auto rows = [](const std::vector<AlgorithmTimes>& all) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const AlgorithmTimes& row : all) {
      nlohmann::ordered_json times = nlohmann::ordered_json::object();
      for (const AlgorithmTimes::Entry& e : row.entries) times[e.algorithm] = 1e-12 * static_cast<double>(e.time);
      out.push_back({{"payload_bytes", row.payload.base()}, {"time_s", std::move(times)}});
    }
    return out;
  };
  return {{"name", fabric.spec().name},
          {"gpus", c.gpus},
          {"routes", "rail-local"},
          {"all_reduce", rows(c.all_reduces)},
          {"all_to_all", rows(c.all_to_alls)}};
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
  // Symmetric plans load dozens of links alike, so links of a kind with one load share a line.
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
