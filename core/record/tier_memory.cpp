#include "core/record/tier_memory.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// What one run of a block does to the live bytes of a tier.
struct BlockBytes {
  std::int64_t net = 0;
  std::int64_t highest = 0;  ///< largest prefix sum, 0 for the empty prefix
};

std::vector<std::array<BlockBytes, tier_count>> bytes_of_blocks(const Program& program) {
  std::vector<std::array<BlockBytes, tier_count>> blocks(program.blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const Op& op : program.blocks[b].ops) {
      const auto* alloc = std::get_if<Alloc>(&op.action);
      const auto* free = std::get_if<Free>(&op.action);
      if (alloc == nullptr && free == nullptr) continue;
      const Buffer& buffer = program[alloc != nullptr ? alloc->what : free->what];
      BlockBytes& tier = blocks[b][index(buffer.tier)];
      tier.net += static_cast<std::int64_t>(bytes_of(buffer)) * (alloc != nullptr ? 1 : -1);
      tier.highest = std::max(tier.highest, tier.net);
    }
  }
  return blocks;
}

}  // namespace

std::vector<TierBytes> tier_peaks(const Program& program) {
  const auto blocks = bytes_of_blocks(program);
  std::vector<TierBytes> peaks(program.classes.size());
  for (std::size_t c = 0; c < peaks.size(); ++c) {
    for (std::size_t tier = 0; tier < tier_count; ++tier) {
      std::int64_t live = 0, peak = 0;
      for (const auto* slots : {&program.classes[c].setup, &program.classes[c].step}) {
        for (const Slot& slot : *slots) {
          const BlockBytes& block = blocks[index(slot.block)][tier];
          const auto repeat = static_cast<std::int64_t>(slot.repeat);
          // All runs of one block have the same shape, so the peak lies in the first or the last of them.
          if (repeat > 0)
            peak = std::max(peak, live + std::max<std::int64_t>(block.net * (repeat - 1), 0) + block.highest);
          live += block.net * repeat;
        }
      }
      peaks[c][tier] = static_cast<std::uint64_t>(peak);
    }
  }
  return peaks;
}

void add_tier_memory(Report& report, const PlannedRun& run, const Program& program) {
  const bool beside = std::any_of(program.buffers.begin(), program.buffers.end(),
                                  [](const Buffer& b) { return b.tier != Tier::device; });
  if (!beside) return;
  const std::vector<TierBytes> peaks = tier_peaks(program);
  const std::uint32_t per_node = run.cluster ? run.cluster->devices_per_node : 0;
  const std::size_t nodes = per_node == 0 ? 1 : (program.mesh.size() + per_node - 1) / per_node;
  std::vector<TierBytes> of_node(nodes);
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const std::uint32_t device = run.plan.placement.empty() ? r : run.plan.placement[r];
    TierBytes& node = of_node[per_node == 0 ? 0 : std::min<std::size_t>(device / per_node, nodes - 1)];
    for (std::size_t tier = 0; tier < tier_count; ++tier) node[tier] += peaks[class_of(program, Rank{r})][tier];
  }
  const auto fullest = [&](Tier tier) -> std::optional<std::uint64_t> {
    std::uint64_t most = 0;
    for (const TierBytes& node : of_node) most = std::max(most, node[index(tier)]);
    return most > 0 ? std::optional(most) : std::nullopt;
  };
  report.peak_host_memory_bytes = fullest(Tier::host);
  report.peak_disk_bytes = fullest(Tier::disk);
  if (!run.cluster) return;
  const auto against = [&](const std::optional<std::uint64_t>& peak, Bytes room,
                           std::optional<std::uint64_t>& capacity) {
    if (!peak || room.base() <= 0.0) return;
    capacity = static_cast<std::uint64_t>(room.base());
    report.fits = report.fits && *peak <= *capacity;
  };
  against(report.peak_host_memory_bytes, run.cluster->host_memory, report.host_memory_capacity_bytes);
  against(report.peak_disk_bytes, run.cluster->disk ? run.cluster->disk->capacity : Bytes{},
          report.disk_capacity_bytes);
}

}  // namespace orrery
