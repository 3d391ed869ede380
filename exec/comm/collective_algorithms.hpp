#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/program/op.hpp"
#include "exec/comm/communicator.hpp"

namespace orrery {

/// A view in this rank's memory.
struct MemoryView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  View::Use use = View::Use::write;  ///< tells pairs of source and result, and sums from results
};

/// The ranks of a collective by peer number, and which of them is the caller.
/// Messages of the collective carry its tag.
struct Members {
  std::span<const Rank> ranks;
  std::uint32_t me = 0;
  std::uint64_t tag = 0;
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks.size()); }
};

/// Received chunks and piece lists of the collective under way. There is one per thread; it grows to the largest chunk
/// and is no part of a Program's buffers.
struct CollectiveScratch {
  std::vector<std::byte> received;
  std::vector<std::byte> partial;
  std::vector<Piece> out;
  std::vector<Piece> in;
  [[nodiscard]] std::uint64_t bytes() const { return received.capacity() + partial.capacity(); }
};

/// Runs one collective of core/program/op.hpp, which states what the views mean. All views have one type.
///
/// Algorithms are rings: n elements are cut into p chunks, chunk c holding
/// [c n / p, (c + 1) n / p), and every peer sends to the next.
///     reduce_scatter  step t: send chunk me - 1 - t, add what comes in to chunk me - 2 - t
///     all_gather      step t: send chunk me - t, take chunk me - 1 - t
///     all_reduce      reduce_scatter in place, then all_gather
///     broadcast       a chain from the root to the next peer and on
///     reduce          a chain from the peer after the root to the root
///     all_to_all      step t: send to peer me + t, receive from me - t
///     permute         one message to the peer at the distance, one from the other side
///     barrier         empty messages to peer me + 2^t
/// Sources: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
/// clusters of workstations", JPDC 69(2), 2009; for the barrier Hensgen, Finkel
/// and Manber, 1988.
///
/// Additions happen in ring order whatever the timing, and an all-reduce copies each sum from the peer that formed it.
/// So all members hold the same bits, in every run. Sent bytes are ring_bytes_sent (core/program/program.hpp).
///
/// `ready` and the result are as in Communicator::exchange.
std::int64_t run_collective(Communicator&, const Collective&, const Members&, std::span<const MemoryView> views,
                            CollectiveScratch&, std::int64_t ready);

}  // namespace orrery
