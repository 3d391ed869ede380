#include "sim/memory/memory_player.hpp"

#include "sim/memory/tensor_name.hpp"

namespace orrery {

std::uint64_t MemoryPlayer::most_reserved() const {
  std::uint64_t out = 0;
  for (const CachingAllocator& a : pools_) out += a.most_reserved();
  return out;
}

std::uint64_t MemoryPlayer::retries() const {
  std::uint64_t out = unplayed_retries_;
  for (const CachingAllocator& a : pools_) out += a.retries();
  return out;
}

void MemoryPlayer::write_state(std::uint64_t first, std::vector<std::uint64_t>& out) const {
  out.push_back(live_);
  for (const CachingAllocator& a : pools_) {
    out.push_back(a.reserved());
    a.write_state(out, [&](std::uint64_t name) { return name_after(name, 0 - first); });
  }
}

std::uint64_t MemoryPlayer::sign(std::uint64_t first) const {
  std::uint64_t sign = live_;
  for (const CachingAllocator& a : pools_) {
    sign = sign * 31 + a.sign([&](std::uint64_t name) { return name_after(name, 0 - first); });
  }
  return sign;
}

void MemoryPlayer::move_on(std::uint64_t later) {
  for (CachingAllocator& a : pools_) a.rename([&](std::uint64_t name) { return name_after(name, later); });
}

}  // namespace orrery
