#include "sim/net/import/gpu_link_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace orrery::importing {
namespace {

/// Links from one GPU to another, as the first one counts them.
struct Counted {
  std::uint32_t count = 0;
  Bandwidth bandwidth;
  Position where;
};
using Peers = std::map<std::pair<std::size_t, std::size_t>, Counted>;

/// Wires links between two GPUs; each of the two says how many there are.
void wire_peers(const std::vector<DumpedGpu>& gpus, const Peers& peers, Source& source, NodeDraft& draft) {
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      const auto there = peers.find({a, b}), back = peers.find({b, a});
      if (there == peers.end() && back == peers.end()) continue;
      const std::string &one = gpus[a].vertex, &other = gpus[b].vertex;
      if (there != peers.end() && back != peers.end()) {
        if (there->second.count != back->second.count) {
          source.error(back->second.where, "import.value",
                       fmt::format("{} and {} do not agree how many NVLinks join them", one, other),
                       {fmt::format("One says {}, the other {}.", there->second.count, back->second.count)});
          continue;
        }
        draft.wire(one, other,
                   {LinkKind::nvlink, std::min(there->second.bandwidth, back->second.bandwidth), nvlink_latency});
      } else {
        source.note(fmt::format("only one of {} and {} names the links that join them", one, other));
        draft.wire(one, other,
                   {LinkKind::nvlink, (back == peers.end() ? there : back)->second.bandwidth, nvlink_latency});
      }
    }
  }
}

}  // namespace

void wire_gpu_links(const std::vector<DumpedGpu>& gpus, Source& source, NodeDraft& draft) {
  Peers peers;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    const DumpedGpu& gpu = gpus[g];
    Bandwidth to_switches, to_processor;
    std::uint32_t all = 0, unseen = 0;
    for (const GpuLinkRow& row : gpu.rows) {
      all += row.count;
      if (row.to == PciKind::processor) {
        to_processor += row.bandwidth;
      } else if (row.to == PciKind::nvswitch) {
        to_switches += row.bandwidth;
      } else {
        const auto peer =
            std::find_if(gpus.begin(), gpus.end(), [&](const DumpedGpu& other) { return other.bus == row.target; });
        if (peer == gpus.end()) {
          unseen += row.count;
          continue;
        }
        if (peer->bus == gpu.bus) {
          source.error(row.where, "import.target", "a link of a GPU leads to that GPU itself");
          return;
        }
        Counted& sum = peers[{g, static_cast<std::size_t>(peer - gpus.begin())}];
        sum.count += row.count;
        sum.bandwidth += row.bandwidth;
        sum.where = row.where;
      }
    }
    if (all > 0 && all > gpu.links->links) {
      source.error(gpu.rows.front().where, "import.value",
                   fmt::format("{} has more links than such a GPU has", gpu.vertex),
                   {fmt::format("Its rows sum up to {}; {} has {}.", all, gpu.links->name, gpu.links->links)});
      return;
    }
    if (to_switches > Bandwidth{}) draft.wire(gpu.vertex, "nvswitch", {LinkKind::nvlink, to_switches, nvlink_latency});
    if (to_processor > Bandwidth{}) draft.wire(gpu.vertex, gpu.host, {LinkKind::nvlink, to_processor, nvlink_latency});
    if (unseen > 0) {
      source.note(fmt::format("{} links of {} lead to GPUs that this file does not have, and are left out", unseen,
                              gpu.vertex));
    }
  }
  wire_peers(gpus, peers, source, draft);
}

}  // namespace orrery::importing
