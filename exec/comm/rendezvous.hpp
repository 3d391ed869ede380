#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/meeting_place.hpp"
#include "exec/comm/socket_communicator.hpp"

namespace orrery {

struct RendezvousOptions {
  std::uint32_t rank = 0, ranks = 1;
  MeetingPlace place;
  std::string job;      ///< equal for all; a process of another job is turned away
  std::string program;  ///< version of the program, and what it is about to do: equal for all
  Seconds limit = Seconds::of(60);
  std::uint64_t host = 0;  ///< tells this host from others
};

/// What all know after they have met.
struct Met {
  std::vector<Socket> peers;         ///< by rank; of this one empty
  std::vector<std::uint64_t> hosts;  ///< by rank
  /// How many ranks below are on the same host.
  [[nodiscard]] std::uint32_t local_rank(std::uint32_t rank) const;
};

/// Connects every two ranks of a job over TCP.
///
/// Rank 0 listens at the place; the others come there, say who they are, are
/// told where all listen, and connect among each other.  A file says where rank
/// 0 listens where no port is agreed on; one that an earlier job left is passed
/// over.
///
/// Throws Error on every rank when some are missing after the limit, when two
/// say that they are the same, or when number of ranks, job or program differ:
/// rank 0's text, which the others are told, names them.
[[nodiscard]] Met meet(const RendezvousOptions&);

/// Of this host as it runs: containers and addresses do not matter, a reboot does.
[[nodiscard]] std::uint64_t this_host();

}  // namespace orrery
