#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/comm/world.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {

/// Rank 0's command to the others between two steps.
struct PauseCommand {
  enum class Kind : std::uint32_t { find, write, go, stop };
  Kind kind = Kind::go;
  std::uint32_t buffer = 0, layer = 0, microbatch = 0;  ///< find and write: of an instance
};
/// The tag of commands and answers: control messages between two ranks follow each other.
inline constexpr std::uint64_t control_tag = std::uint64_t{0x7ffffffeU} << 32;

/// The buffers of all ranks as rank 0 sees them where ranks are processes. Other ranks' buffers are fetched when they
/// are asked for, and `release` brings back what was written into them.
class RemoteBuffers final : public RunBuffers {
 public:
  RemoteBuffers(ProcessWorld& world, RankWalker& own) : world_(world), own_(own) {}

  [[nodiscard]] std::span<std::byte> find(Rank, const Instance&) const override;
  /// Spans that were handed out are invalid afterwards.
  void release();

 private:
  struct Copy {
    std::vector<std::byte> now, before;
  };
  ProcessWorld& world_;
  RankWalker& own_;
  mutable std::map<std::pair<Rank, Instance>, Copy> copies_;
};

/// The other side: answers rank 0 until it says go or stop, and returns which of the two.
[[nodiscard]] PauseCommand::Kind serve_pause(ProcessWorld&, RankWalker& own);

/// Tells every other rank to go on or to stop.
void end_pause(ProcessWorld&, bool go);

/// Sends or receives a value or a vector of known size on the control end.
void control_send(ProcessWorld&, Rank to, const void* data, std::uint64_t bytes);
void control_receive(ProcessWorld&, Rank from, void* data, std::uint64_t bytes);

}  // namespace orrery
