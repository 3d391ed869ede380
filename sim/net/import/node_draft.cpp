#include "sim/net/import/node_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "core/base/units_text.hpp"

namespace orrery::importing {

/// Hops of each NIC over any link but NVLink.
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

bool NodeDraft::leaves_out(const ImportOptions& options, const std::string& label) {
  if (std::find(options.without.begin(), options.without.end(), label) == options.without.end()) return false;
  left_out_.insert(label);
  return true;
}

/// NICs that are farther from every GPU than the others, where the others can be shared out among the GPUs. They are as
/// few as that takes, and none where no distance parts them so.
std::vector<std::size_t> NodeDraft::far_nics(const Hops& hops) const {
  std::vector<std::uint32_t> nearest;
  for (std::size_t n = 0; n < nics_.size(); ++n) {
    std::uint32_t least = hops.front()[n];
    for (const auto& of_gpu : hops) least = std::min(least, of_gpu[n]);
    nearest.push_back(least);
  }
  std::set<std::uint32_t, std::greater<>> distances(nearest.begin(), nearest.end());
  for (auto within = distances.begin(); within != distances.end(); ++within) {
    if (within == distances.begin()) continue;
    std::vector<std::size_t> far;
    for (std::size_t n = 0; n < nics_.size(); ++n) {
      if (nearest[n] > *within) far.push_back(n);
    }
    const std::size_t left = nics_.size() - far.size();
    if (left <= gpus_.size() || left % gpus_.size() == 0) return far;
  }
  return {};
}

/// "NIC4,NIC5", as --without takes them.
std::string NodeDraft::labels_of(const std::vector<std::size_t>& nics) const {
  std::string out;
  for (const std::size_t n : nics) out += (out.empty() ? "" : ",") + brief(nics_[n].label);
  return out;
}

/// Removes NICs with their cables; `nics` ascends.
void NodeDraft::leave_out(const std::vector<std::size_t>& nics) {
  for (std::size_t i = nics.size(); i-- > 0;) {
    const std::string name = nics_[nics[i]].name;
    std::erase_if(wires_, [&](const Cable& c) { return c.a == name || c.b == name; });
    nics_.erase(nics_.begin() + static_cast<std::ptrdiff_t>(nics[i]));
  }
}

/// Where there are more NICs than GPUs, the NICs of each GPU become one.
bool NodeDraft::bundle_nics(const Hops& hops, Source& source, Position where) {
  const std::size_t nics = nics_.size(), gpus = gpus_.size();
  if (nics % gpus != 0) {
    std::vector<std::size_t> out = far_nics(hops);
    if (!out.empty()) {
      source.note(
          fmt::format("NICs far from every GPU, often those for storage, are left out: {}; --without names others",
                      labels_of(out)));
      leave_out(out);
      return arrange_nics(source, where);
    }
    for (std::size_t n = nics - nics % gpus; n < nics; ++n) out.push_back(n);
    source.error(
        where, "import.nics", "the NICs cannot be shared out equally among the GPUs",
        {fmt::format("There are {} and {}; a fabric's node has at most as many NICs as GPUs, so the NICs of a "
                     "GPU would be taken together.",
                     nics, gpus),
         fmt::format("{} of them would have to be left out, such as these: --without {}", out.size(), labels_of(out))});
    return false;
  }
  // Each GPU takes its nearest NICs first, and as many as the others.
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

bool NodeDraft::arrange_nics(Source& source, Position where) {
  Hops hops;
  for (const std::string& g : gpus_) hops.push_back(hops_from(g));
  const std::size_t nics = nics_.size(), gpus = gpus_.size();
  if (nics > gpus) return bundle_nics(hops, source, where);
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
  bool none_farther = true;
  for (std::size_t g = 0; g < gpus; ++g) {
    const std::uint32_t least = *std::min_element(hops[g].begin(), hops[g].end());
    if (hops[g][order[g * nics / gpus]] > least) {
      none_farther = false;
      source.note(fmt::format("gpu{} uses nic{} although another is nearer: of n NICs, GPU g of m uses g n / m", g,
                              g * nics / gpus));
    }
  }
  if (const std::vector<std::size_t> far = far_nics(hops); !none_farther && !far.empty()) {
    source.note(
        fmt::format("NICs that are farther from every GPU than the others carry training, too; --without {} "
                    "leaves them out",
                    labels_of(far)));
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
  for (const std::string& label : options.without) {
    if (left_out_.count(label) != 0) continue;
    source.error(where, "import.nics", fmt::format("there is no NIC \"{}\" to leave out", brief(label)),
                 {nics_.empty() ? std::string("The file names no other.")
                                : fmt::format("The first that is left is {}.", brief(nics_.front().label))});
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
  if (!ends_are_joined(source, where, f.node.gpus + f.node.nics, f.node.vertices, f.node.wires)) return std::nullopt;
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
