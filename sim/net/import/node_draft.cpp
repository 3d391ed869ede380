#include "sim/net/import/node_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "core/base/units_text.hpp"

namespace orrery::importing {

/// Of each NIC, over anything but NVLink.
std::vector<std::uint32_t> NodeDraft::hops_from(const std::string& gpu) const {
  std::map<std::string, std::uint32_t> hops{{gpu, 0}};
  for (std::deque<std::string> next{gpu}; !next.empty(); next.pop_front()) {
    const std::uint32_t here = hops[next.front()];
    for (const Cable& c : wires_) {
      if (c.link.kind == LinkKind::nvlink) continue;
      for (const auto& [from, to] : {std::pair(&c.a, &c.b), std::pair(&c.b, &c.a)}) {
        if (*from == next.front() && hops.emplace(*to, here + 1).second) next.push_back(*to);
      }
    }
  }
  std::vector<std::uint32_t> out;
  for (const Nic& n : nics_) {
    const auto found = hops.find(n.name);
    out.push_back(found == hops.end() ? 1U << 20 : found->second);
  }
  return out;
}

bool NodeDraft::arrange_nics(Source& source, Position where) {
  std::vector<std::vector<std::uint32_t>> hops;
  for (const std::string& g : gpus_) hops.push_back(hops_from(g));
  const std::size_t nics = nics_.size(), gpus = gpus_.size();
  if (nics > gpus) {
    if (nics % gpus != 0) {
      source.error(where, "import.nics", "the NICs cannot be shared out equally among the GPUs",
                   {fmt::format("There are {} and {}; a fabric's node has at most as many NICs as GPUs, so that those "
                                "of each GPU would be taken together.",
                                nics, gpus),
                    "Those for storage can be left out: --without NIC4,NIC5"});
      return false;
    }
    // Nearest first, each GPU as many as the others.
    std::vector<std::vector<std::size_t>> of(gpus);
    for (std::size_t n = 0; n < nics; ++n) {
      std::size_t best = gpus;
      for (std::size_t g = 0; g < gpus; ++g) {
        if (of[g].size() == nics / gpus) continue;
        if (best == gpus || std::pair(hops[g][n], of[g].size()) < std::pair(hops[best][n], of[best].size())) best = g;
      }
      of[best].push_back(n);
    }
    std::vector<Nic> bundles;
    std::vector<Cable> wires;
    for (const Cable& c : wires_) {
      const auto is = [&](const Nic& n) { return n.name == c.a || n.name == c.b; };
      if (std::none_of(nics_.begin(), nics_.end(), is)) wires.push_back(c);
    }
    for (std::size_t g = 0; g < gpus; ++g) {
      Nic bundle = nics_[of[g].front()];
      std::optional<Cable> first;
      for (const std::size_t n : of[g]) {
        if (n != of[g].front() && bundle.port && nics_[n].port) *bundle.port += *nics_[n].port;
        for (const Cable& c : wires_) {
          if (c.a != nics_[n].name && c.b != nics_[n].name) continue;
          if (first) {
            first->link.bandwidth += c.link.bandwidth;
          } else {
            first = c;
          }
        }
      }
      if (first) wires.push_back(*first);
      bundles.push_back(std::move(bundle));
    }
    source.note(fmt::format("{} NICs of each GPU are taken together as one", nics / gpus));
    nics_ = std::move(bundles);
    wires_ = std::move(wires);
    return true;
  }
  std::vector<std::size_t> order(nics);
  std::vector<std::size_t> first(nics, gpus);  // GPU that each NIC is nearest to
  for (std::size_t n = 0; n < nics; ++n) {
    order[n] = n;
    for (std::size_t g = gpus; g-- > 0;) {
      if (hops[g][n] == *std::min_element(hops[g].begin(), hops[g].end())) first[n] = g;
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first[a] < first[b]; });
  std::vector<Nic> sorted;
  for (const std::size_t n : order) sorted.push_back(nics_[n]);
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::uint32_t least = *std::min_element(hops[g].begin(), hops[g].end());
    if (hops[g][order[g * nics / gpus]] > least) {
      source.note(fmt::format("gpu{} uses nic{} although another is nearer: of n NICs, GPU g of m uses g n / m", g,
                              g * nics / gpus));
    }
  }
  nics_ = std::move(sorted);
  return true;
}

std::optional<FabricSpec> NodeDraft::finish(Source& source, const ImportOptions& options, Position where) {
  if (gpus_.empty() || gpus_.size() > 1024) {
    source.error(where, "import.gpus",
                 gpus_.empty() ? std::string("there is no GPU") : fmt::format("there are {} GPUs", gpus_.size()),
                 {"A node has 1 to 1024."});
    return std::nullopt;
  }
  if (nics_.empty()) {
    source.note("no NIC is named: nic0 stands in for one, on the first host");
    nics_.push_back({"nic", std::nullopt});
    std::string host = gpus_.front();
    for (const Cable& c : wires_) {
      for (const std::string& end : {c.a, c.b}) {
        if (end.starts_with("host") && (!host.starts_with("host") || end < host)) host = end;
      }
    }
    if (host == gpus_.front()) host = "host0";
    if (std::none_of(wires_.begin(), wires_.end(), [&](const Cable& c) { return c.a == host || c.b == host; })) {
      for (const std::string& g : gpus_) wire(g, host, {LinkKind::pcie, Bandwidth::of(15.75e9), pcie_latency});
    }
    wire("nic", host, {LinkKind::pcie, Bandwidth::of(15.75e9), pcie_latency});
  }
  if (!arrange_nics(source, where)) return std::nullopt;

  FabricSpec f;
  f.nodes = options.nodes;
  f.node.gpus = static_cast<std::uint32_t>(gpus_.size());
  f.node.nics = static_cast<std::uint32_t>(nics_.size());
  std::map<std::string, std::uint32_t> number;
  for (const std::string& g : gpus_) {
    number.emplace(g, static_cast<std::uint32_t>(number.size()));
    f.node.vertices.push_back(fmt::format("gpu{}", f.node.vertices.size()));
  }
  for (const Nic& n : nics_) {
    number.emplace(n.name, static_cast<std::uint32_t>(number.size()));
    f.node.vertices.push_back(fmt::format("nic{}", f.node.vertices.size() - gpus_.size()));
  }
  for (const Cable& c : wires_) {
    for (const std::string& end : {c.a, c.b}) {
      if (number.emplace(end, static_cast<std::uint32_t>(number.size())).second) f.node.vertices.push_back(end);
    }
    f.node.wires.push_back({number.at(c.a), number.at(c.b), c.link});
  }
  const Topology::Sides gap =
      unconnected(f.node.gpus + f.node.nics, static_cast<std::uint32_t>(f.node.vertices.size()), f.node.wires);
  if (gap.from != gap.to) {
    source.error(where, "import.unconnected",
                 fmt::format("nothing leads from {} to {}", f.node.vertices[gap.from], f.node.vertices[gap.to]),
                 {"GPUs and NICs pass nothing on."});
    return std::nullopt;
  }
  if (f.gpus() > max_fabric_gpus) {
    source.error(
        where, "import.size", "the fabric has too many GPUs",
        {fmt::format("{} nodes of {} are {}; at most {} are read.", f.nodes, f.node.gpus, f.gpus(), max_fabric_gpus)});
    return std::nullopt;
  }
  if (f.nodes == 1) return f;
  std::optional<Bandwidth> port = options.nic;
  if (!port) {
    for (const Nic& n : nics_) {
      if (n.port && (!port || *n.port < *port)) port = n.port;
    }
  }
  if (!port) {
    source.error(where, "import.nic", "the file does not say how fast the NICs are",
                 {"Several nodes need it: --nic \"400 Gbit/s\"."});
    return std::nullopt;
  }
  source.note(fmt::format("{} nodes hang on one switch, each NIC by {}", f.nodes, short_text(*port)));
  f.network =
      TreeNetwork{{{static_cast<std::uint32_t>(f.nics()), 1, {LinkKind::network, *port, network_latency}}}, false};
  return f;
}

}  // namespace orrery::importing
