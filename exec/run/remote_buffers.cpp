#include "exec/run/remote_buffers.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

void control_send(ProcessWorld& world, Rank to, const void* data, std::uint64_t bytes) {
  // A Piece serves both directions; a send never writes through it.
  const Piece piece{static_cast<std::byte*>(const_cast<void*>(data)), bytes};
  const Message message{true, to, control_tag, std::span(&piece, 1)};
  world.control().exchange(std::span(&message, 1), 0);
}

void control_receive(ProcessWorld& world, Rank from, void* data, std::uint64_t bytes) {
  const Piece piece{static_cast<std::byte*>(data), bytes};
  const Message message{false, from, control_tag, std::span(&piece, 1)};
  world.control().exchange(std::span(&message, 1), 0);
}

std::span<std::byte> RemoteBuffers::find(Rank rank, const Instance& instance) const {
  if (rank == world_.rank()) return own_.find(instance);
  const auto key = std::make_pair(rank, instance);
  auto found = copies_.find(key);
  if (found == copies_.end()) {
    const PauseCommand ask{PauseCommand::Kind::find, index(instance.buffer), instance.layer, instance.microbatch};
    control_send(world_, rank, &ask, sizeof ask);
    std::uint64_t bytes = 0;
    control_receive(world_, rank, &bytes, sizeof bytes);
    found = copies_.emplace(key, Copy{}).first;
    found->second.now.resize(bytes);
    if (bytes > 0) control_receive(world_, rank, found->second.now.data(), bytes);
    found->second.before = found->second.now;
  }
  return found->second.now;
}

void RemoteBuffers::release() {
  for (auto& [key, copy] : copies_) {
    if (copy.now == copy.before) continue;
    const auto& [rank, instance] = key;
    const PauseCommand bring{PauseCommand::Kind::write, index(instance.buffer), instance.layer, instance.microbatch};
    control_send(world_, rank, &bring, sizeof bring);
    control_send(world_, rank, copy.now.data(), copy.now.size());
  }
  copies_.clear();
  own_.release_found();
}

PauseCommand::Kind serve_pause(ProcessWorld& world, RankWalker& own) {
  for (;;) {
    PauseCommand command;
    control_receive(world, Rank{0}, &command, sizeof command);
    if (command.kind == PauseCommand::Kind::go || command.kind == PauseCommand::Kind::stop) {
      own.release_found();
      return command.kind;
    }
    const std::span<std::byte> bytes = own.find({BufferId{command.buffer}, command.layer, command.microbatch});
    if (command.kind == PauseCommand::Kind::write) {
      control_receive(world, Rank{0}, bytes.data(), bytes.size());
      continue;
    }
    const std::uint64_t size = bytes.size();
    control_send(world, Rank{0}, &size, sizeof size);
    if (size > 0) control_send(world, Rank{0}, bytes.data(), size);
  }
}

void end_pause(ProcessWorld& world, bool go) {
  const PauseCommand command{go ? PauseCommand::Kind::go : PauseCommand::Kind::stop, 0, 0, 0};
  for (std::uint32_t r = 1; r < world.ranks(); ++r) control_send(world, Rank{r}, &command, sizeof command);
}

}  // namespace orrery
