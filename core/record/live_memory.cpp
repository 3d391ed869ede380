#include "core/record/live_memory.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

std::optional<LiveChange> live_change(const Program& program, const Op& op) {
  const auto* alloc = std::get_if<Alloc>(&op.action);
  const auto* free = std::get_if<Free>(&op.action);
  if (alloc == nullptr && free == nullptr) return std::nullopt;
  const Buffer& buffer = program[alloc != nullptr ? alloc->what : free->what];
  if (buffer.tier != Tier::device) return std::nullopt;
  return LiveChange{buffer.role, static_cast<std::int64_t>(bytes_of(buffer)) * (alloc != nullptr ? 1 : -1)};
}

std::size_t LiveMemory::share_of(Role role) {
  switch (role) {
    case Role::weight:
    case Role::master: return 0;
    case Role::gradient: return 1;
    case Role::moment: return 2;
    case Role::activation:
    case Role::statistic:
    case Role::data:
    case Role::scalar: return 3;
    case Role::workspace: return 4;
  }
  return 4;
}

void LiveMemory::read(const Program& program) {
  blocks_.resize(program.blocks.size());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    BlockBytes bytes;
    for (const Op& op : program.blocks[b].ops) {
      const std::optional<LiveChange> change = live_change(program, op);
      if (!change) continue;
      bytes.net += change->bytes;
      bytes.net_by_share[share_of(change->role)] += change->bytes;
      if (bytes.net > bytes.highest) {
        bytes.highest = bytes.net;
        bytes.at_highest = bytes.net_by_share;
      }
    }
    blocks_[b] = bytes;
  }
}

StageMemory LiveMemory::peak(const Program& program, std::uint32_t rank_class) const {
  ORRERY_ASSERT(blocks_.size() == program.blocks.size(), blocks_.size(), program.blocks.size());
  const RankClass& ranks = program.classes[rank_class];
  struct Place {
    const std::vector<Slot>* slots = nullptr;
    std::size_t slot = 0;
    std::uint32_t runs = 0;  ///< whole runs of the slot's block before the peak
  } place;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const auto* slots : {&ranks.setup, &ranks.step}) {
    for (std::size_t i = 0; i < slots->size(); ++i) {
      const Slot& slot = (*slots)[i];
      const BlockBytes& block = blocks_[index(slot.block)];
      // All runs of one block have the same shape, so the peak lies in the first or the last of them.
      const std::int64_t rise = block.net > 0 ? block.net * (static_cast<std::int64_t>(slot.repeat) - 1) : 0;
      if (slot.repeat > 0 && live + rise + block.highest > peak) {
        peak = live + rise + block.highest;
        place = {slots, i, block.net > 0 ? slot.repeat - 1 : 0};
      }
      live += block.net * static_cast<std::int64_t>(slot.repeat);
    }
  }

  Shares shares{};
  if (place.slots != nullptr) {
    const auto add = [&](const Shares& part, std::int64_t runs) {
      for (std::size_t s = 0; s < share_count; ++s) shares[s] += part[s] * runs;
    };
    for (const auto* slots : {&ranks.setup, &ranks.step}) {
      const std::size_t end = slots == place.slots ? place.slot : slots->size();
      for (std::size_t i = 0; i < end; ++i) add(blocks_[index((*slots)[i].block)].net_by_share, (*slots)[i].repeat);
      if (slots == place.slots) break;
    }
    const BlockBytes& block = blocks_[index((*place.slots)[place.slot].block)];
    add(block.net_by_share, place.runs);
    add(block.at_highest, 1);
  }
  const auto bytes = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  return {program.mesh.coordinate(representative(program, rank_class), Axis::pipeline),
          bytes(peak),
          bytes(shares[0]),
          bytes(shares[1]),
          bytes(shares[2]),
          bytes(shares[3]),
          bytes(shares[4])};
}

}  // namespace orrery
