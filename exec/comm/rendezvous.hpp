#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/meeting_place.hpp"
#include "exec/comm/socket_communicator.hpp"

namespace orrery {

struct RendezvousOptions {
  std::uint32_t rank = 0, ranks = 1;
  MeetingPlace place;
  std::string token;    ///< a secret of the job, equal for all; empty: none, or with a file the one in the file
  std::string job;      ///< equal for all; a process of another job is turned away
  std::string program;  ///< version of the program, and its task: equal for all
  Seconds limit = Seconds::of(60);
  std::uint64_t host = 0;  ///< tells this host from others
  /// Called once about connections that are turned away; may be empty.
  std::function<void(const std::string&)> warn;
};

/// What every rank knows after all have met.
struct Met {
  std::vector<Socket> peers;         ///< by rank; of this one empty
  std::vector<std::uint64_t> hosts;  ///< by rank
  /// How many lower ranks are on the same host.
  [[nodiscard]] std::uint32_t local_rank(std::uint32_t rank) const;
};

/// Connects every two ranks of a job over TCP.
///
/// Rank 0 listens at the place. The others come there, show that they hold the job's token (exec/comm/proof.hpp), say
/// who they are, and are told where all listen. Then they connect among each other in the same way. A file says where
/// rank 0 listens where no port is agreed on; a file that an earlier job left is passed over. Every rank listens on the
/// interface at which they meet, and on no other.
///
/// A process that does not hold the token learns nothing, and holds nobody up. A process that holds it but does not fit
/// (another number of ranks, another program, a rank that is there already) throws Error with rank 0's text, and the
/// others go on waiting. Throws Error on every rank when some are missing after the limit.
[[nodiscard]] Met meet(const RendezvousOptions&);

/// A number for this host as it runs: containers and addresses do not matter, a reboot does.
[[nodiscard]] std::uint64_t this_host();

}  // namespace orrery
