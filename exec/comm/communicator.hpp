#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/ids.hpp"

namespace orrery {

struct Collective;
struct Members;
struct MemoryView;

/// Contiguous bytes of this rank's memory.
struct Piece {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// One message between two ranks.  Its bytes are the pieces one after the
/// other; sender and receiver may cut them differently.
///
/// The k-th send from a to b with a tag meets the k-th receive with that tag at
/// b from a, whichever lane of the ranks they come from.
struct Message {
  bool send = true;
  Rank peer{};
  std::uint64_t tag = 0;
  std::span<const Piece> pieces;
};

/// One rank's end of the transport: the only way in which ranks meet.  Used by
/// one thread; a rank whose lanes run side by side has one for each.
///
/// `exchange` is the single operation; every collective algorithm is made of it
/// (collective_algorithms.hpp), so that a new transport has only this to write.
/// Sends have rendezvous semantics: a message may wait until its receiver has
/// come.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;

  /// Issues sends and receives as one, and returns when all are done.
  ///
  /// `ready` is the caller's time of arrival (nanoseconds of a clock that all ranks share), which travels with the
  /// messages. Returns the latest of `ready` and of what the partners of these messages sent along. This is the instant
  /// from which nobody waited for a partner any more. Throws Aborted when the run has ended: another rank failed, a
  /// partner of these messages is gone, or the wait was too long. The transport knows why.
  virtual std::int64_t exchange(std::span<const Message> messages, std::int64_t ready) = 0;

  /// A collective by the transport's own library, with the meaning of run_collective (collective_algorithms.hpp). Empty
  /// where the library has none or must not use it; then the collective is made of exchanges. It waits and ends as
  /// exchanges do, but counts no bytes, and the result is `ready`, because it is not known when partners came.
  virtual std::optional<std::int64_t> library_collective(const Collective&, const Members&,
                                                         std::span<const MemoryView> views, std::int64_t ready) {
    static_cast<void>(views);
    static_cast<void>(ready);
    return std::nullopt;
  }

  /// Payload bytes of all sends of this end so far.
  [[nodiscard]] virtual std::uint64_t sent_bytes() const = 0;
};

/// The run ended while this rank waited; the reason is told elsewhere.
class Aborted {};

}  // namespace orrery
