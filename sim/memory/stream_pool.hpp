#pragma once

#include <cstdint>
#include <functional>

namespace orrery {

/// PyTorch's allocator keeps the blocks of each CUDA stream apart: what one stream has given back serves no other.
enum class StreamPool : std::uint8_t { compute, gathers, reductions };
inline constexpr std::size_t stream_pools = 3;

/// A tensor comes or goes, under a name that nothing else alive has.
using MemoryVisit = std::function<void(bool alloc, std::uint64_t name, std::uint64_t bytes, StreamPool)>;

}  // namespace orrery
