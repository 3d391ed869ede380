#include "core/spec/cluster_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/base/units_text.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {
namespace {

/// What NCCL counts for 16 lanes of PCIe 3.0, whose line rate is 15.75 GB/s, and between two sockets of Sapphire
/// Rapids: NCCL 2.28.9, src/graph/topo.h.
constexpr double pcie_share = 12.0 / 15.75;
constexpr Bandwidth between_sockets = Bandwidth::of(22e9);
constexpr Bandwidth shared_port = Bandwidth::of(12.5e9);  ///< 100 Gbit/s, nominal
constexpr Seconds link_latency = Seconds::of(2e-6), pcie_latency = Seconds::of(10e-6);
constexpr Seconds port_latency = Seconds::of(5e-6), shared_port_latency = Seconds::of(10e-6);
constexpr std::uint32_t most_cards = 16, cards_of_socket = 4;

struct Word {
  std::string device;
  std::uint32_t count = 0, boxes = 1;
  std::string port;  ///< empty: not said
};

/// A whole number at the beginning of `text`, which is removed from it.
bool take_number(std::string_view& text, std::uint32_t& into) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (fault != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<Word> parsed(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string::npos || text.substr(0, colon).find('/') != std::string::npos)
    return std::nullopt;
  Word w;
  w.device = text.substr(0, colon);
  std::string_view rest(text);
  rest.remove_prefix(colon + 1);
  if (!take_number(rest, w.count)) return std::nullopt;
  if (rest.starts_with('x')) {
    rest.remove_prefix(1);
    if (!take_number(rest, w.boxes)) return std::nullopt;
  }
  if (rest.starts_with('@')) {
    w.port = rest.substr(1);
    rest = {};
  }
  if (!rest.empty()) return std::nullopt;
  return w;
}

/// Largest divisor of `whole` that is at most `most`.
std::uint32_t divisor(std::uint32_t whole, std::uint32_t most) {
  std::uint32_t d = std::min(whole, most);
  while (whole % d != 0) --d;
  return d;
}

/// The levels of cards that PCIe joins.
void add_pcie(ClusterSpec& c, std::uint32_t count, Bandwidth host) {
  const bool sockets = count > cards_of_socket && count % 2 == 0;
  const Bandwidth lanes = pcie_share * host;
  const double crossing = std::max(1.0, count / 2.0);
  if (count <= cards_of_socket || sockets) {
    c.levels.push_back({"pcie", sockets ? count / 2 : count, lanes, pcie_latency});
    c.assumed.push_back(
        fmt::format("PCIe carries {} each way for each card, as NCCL counts its lanes", short_text(lanes)));
  }
  if (count <= cards_of_socket) return;
  const Bandwidth share = (1.0 / crossing) * between_sockets;
  c.levels.push_back({"sockets", sockets ? 2 : count, std::min(lanes, share), pcie_latency});
  c.assumed.push_back(fmt::format("two processors share {} each way, {} for each card", short_text(between_sockets),
                                  short_text(share)));
}

}  // namespace

bool is_cluster_word(const std::string& reference) { return parsed(reference).has_value(); }

std::string with_port(const std::string& word, const std::string& port) {
  return port.empty() ? word : word.substr(0, word.find('@')) + "@" + port;
}

std::optional<ClusterSpec> cluster_of_word(const std::string& word, const Library& library, Diagnostics& d) {
  const auto refuse = [&](std::string message, std::string detail) {
    d.error("cluster.word", std::move(message), {std::move(detail)});
    return std::nullopt;
  };
  std::optional<Word> w = parsed(word);
  if (!w) {
    return refuse(fmt::format("\"{}\" describes no cluster", word),
                  "DEVICE:COUNT, DEVICE:COUNTxBOXES or either with @PORT is right: h200:8x4, l40s:8@100 Gbit/s.");
  }
  std::optional<DeviceSpec> device = library.device(w->device, d);
  if (!device) return std::nullopt;
  if (!device->links) {
    return refuse(fmt::format("{} is sold in no box that is known", device->name),
                  "Its file has no [device.links]; a cluster file describes any machine.");
  }
  const DeviceLinks& links = *device->links;
  const bool joined = !links.name.empty();
  const std::uint32_t most = joined ? links.most : most_cards;
  // "h200:16" is two boxes of 8.
  if (w->boxes == 1 && w->count > most && w->count % most == 0) {
    w->boxes = w->count / most;
    w->count = most;
  }
  if (w->count < 1 || w->boxes < 1 || w->count > most) {
    const std::uint64_t all = std::uint64_t{w->count} * w->boxes;
    return refuse(fmt::format("a box of {} has 1 to {}, not {}", device->name, most, w->count),
                  w->count > most && all % most == 0
                      ? fmt::format("{}:{}x{} has as many of them.", w->device, most, all / most)
                      : fmt::format("{}:{}x{} is the nearest.", w->device, std::clamp(w->count, 1U, most),
                                    std::max(w->boxes, 1U)));
  }
  ClusterSpec c;
  c.name = word;
  c.host_link = links.host;
  c.source = "built from one word";
  const std::uint32_t of_host = joined && links.per_node > 0 ? links.per_node : w->count;
  c.devices_per_node = std::min(w->count, of_host);
  if (w->count % c.devices_per_node != 0) {
    return refuse(fmt::format("{} of {} do not fill hosts of {}", w->count, device->name, c.devices_per_node),
                  fmt::format("{} do.", w->count / c.devices_per_node * c.devices_per_node));
  }
  const std::uint64_t nodes = std::uint64_t{w->count / c.devices_per_node} * w->boxes;
  if (nodes * c.devices_per_node > max_devices) {
    return refuse("the cluster is too large",
                  fmt::format("It has {} devices; {} are allowed.", nodes * c.devices_per_node, max_devices));
  }
  c.nodes = static_cast<std::uint32_t>(nodes);
  std::uint32_t domains = c.nodes;  // units that the network joins
  if (joined) {
    NetworkLevel level{links.name, c.devices_per_node, links.peers, link_latency};
    level.switches = links.switches;
    c.assumed.push_back(fmt::format("{} carries {} each way for each device", links.name, short_text(links.peers)));
    c.levels.push_back(level);
    // Links that join several hosts join as many of them as fit, in equal racks.
    const std::uint32_t hosts = divisor(c.nodes, std::max(1U, links.most / std::max(1U, of_host)));
    if (links.per_node > 0 && hosts > 1) {
      c.levels.front().name += " tray";
      level.name += " rack";
      level.size = hosts;
      c.levels.push_back(level);
      c.assumed.push_back(fmt::format("{} joins {} hosts of {}", links.name, hosts, c.devices_per_node));
      domains = c.nodes / hosts;
    }
  } else {
    add_pcie(c, w->count, links.host);
  }
  Bandwidth port = joined ? links.network : shared_port;
  std::string problem;
  if (!w->port.empty() && (!parse_quantity(w->port, port, problem) || !(port.base() >= 1.0))) {
    return refuse(fmt::format("the port \"{}\" cannot be read", w->port), "\"100 Gbit/s\" would be right.");
  }
  if (joined && domains > 1 && !(port.base() > 0.0)) {
    return refuse(fmt::format("no network is known for {}", device->name), "Add one: --nic \"400 Gbit/s\".");
  }
  // The outermost level is there even where it joins one box, so that --gpus may add boxes.
  if (port.base() > 0.0) {
    const double sharing = joined ? 1.0 : w->count;
    c.levels.push_back({"network", domains, (1.0 / sharing) * port, joined ? port_latency : shared_port_latency});
    if (domains > 1) {
      c.assumed.push_back(fmt::format("{} of {} each way for each {}{}", "a network port", short_text(port),
                                      joined ? "device" : "box",
                                      w->port.empty() ? " (--nic names another)" : ", as said"));
    }
  }
  c.device = std::move(*device);
  if (!check_cluster(c, d)) return std::nullopt;
  return c;
}

}  // namespace orrery
