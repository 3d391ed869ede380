#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"

namespace orrery {

// Sums over a Program, which papers give in closed form. Unless a comment says otherwise, each sum is for one optimizer
// step and one rank of a class. All ranks of a class agree except for the uneven last bytes of a ring.

inline constexpr std::size_t pass_count = static_cast<std::size_t>(Pass::optimizer) + 1;
inline constexpr std::size_t role_count = static_cast<std::size_t>(Role::scalar) + 1;
inline constexpr std::size_t tier_count = static_cast<std::size_t>(Tier::disk) + 1;

using RoleBytes = std::array<std::uint64_t, role_count>;

/// Collectives of one kind on one group.
struct CollectiveTotal {
  Collective::Kind kind = Collective::Kind::all_reduce;
  GroupId group{};
  std::uint64_t count = 0;    ///< ops
  std::uint64_t payload = 0;  ///< bytes of the whole vectors (payload_bytes)
  std::uint64_t sent = 0;     ///< bytes that the class's representative sends in a ring algorithm
  friend bool operator==(const CollectiveTotal&, const CollectiveTotal&) = default;
};

/// Activations that one layer keeps for one microbatch: they live past the end of the block run that allocates them.
struct SavedActivations {
  std::uint64_t activations = 0;  ///< bytes of Role::activation, what Korthikanti et al. count
  std::uint64_t statistics = 0;   ///< bytes of Role::statistic, which they neglect
  friend bool operator==(const SavedActivations&, const SavedActivations&) = default;
};

struct ClassTotals {
  std::array<KernelFlops, pass_count> flops{};   ///< by the kernel's pass
  RoleBytes state{};                             ///< live after setup, device and host together
  std::array<std::uint64_t, tier_count> peak{};  ///< largest live bytes of each tier, over setup and step in list order
  RoleBytes at_peak{};                           ///< device bytes at the first instant of the device peak
  std::vector<CollectiveTotal> collectives;      ///< ordered by kind, then group
  std::uint64_t messages = 0;                    ///< sends of exchanges
  std::uint64_t message_bytes = 0;               ///< their bytes
  /// saved[layer] sums buffers that differ by layer and microbatch, for one microbatch of the layers of this class. The
  /// entry after the last layer is the input of the next stage or the head.
  std::vector<SavedActivations> saved;
  SavedActivations saved_outside;  ///< the same for buffers of one microbatch (embedding, head)
};

/// Sums of one class; walks its expanded list.
[[nodiscard]] ClassTotals totals_of(const Program&, std::uint32_t rank_class);

/// Trainable parameters that the Program holds, each counted once: no padding,
/// no replica, no second copy of a tied table.
[[nodiscard]] std::uint64_t parameter_elements(const Program&);

/// FLOPs of one step over all ranks, setup left out.
[[nodiscard]] KernelFlops total_flops(const Program&);

}  // namespace orrery
