#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/program/program.hpp"

namespace orrery::test {

/// Writes one block of a hand-made Program.  Every function returns the op's
/// position, for later waits.
class HandBlock {
 public:
  HandBlock(Program& program, std::string name) : program_(program) { block_.name = std::move(name); }

  std::uint32_t compute(std::vector<Wait> waits = {}, KernelKind kind = KernelKind::fill) {
    Kernel kernel;
    kernel.kind = kind;
    block_.kernels.push_back(kernel);
    return push(Compute{static_cast<std::uint32_t>(block_.kernels.size() - 1)}, {LaneKind::compute, 0}, waits);
  }
  std::uint32_t collective(GroupId group, Axis lane, std::vector<Wait> waits = {},
                           Collective::Kind kind = Collective::Kind::all_reduce) {
    return push(Collective{kind, Collective::Reduction::sum, group, Peer{0}},
                {LaneKind::collective, static_cast<std::uint8_t>(lane)}, waits);
  }
  struct Message {
    bool send;
    std::uint32_t peer;
    std::uint8_t channel = 0;
  };
  /// `what` is the buffer of every message.
  std::uint32_t exchange(GroupId group, TransferLane lane, std::initializer_list<Message> messages, BufferId what,
                         std::vector<Wait> waits = {}) {
    const auto first = static_cast<std::uint32_t>(block_.transfers.size());
    const auto view = static_cast<std::uint32_t>(block_.views.size());
    std::uint32_t at = 0;
    for (const Message& m : messages) {
      block_.transfers.push_back({m.send, Peer{m.peer}, group, m.channel, at++});
      block_.views.push_back({what, 0, program_[what].count, m.send ? View::Use::read : View::Use::write, 0, {}});
    }
    const std::uint32_t op = push(Exchange{{first, at}}, {LaneKind::transfer, static_cast<std::uint8_t>(lane)}, waits);
    block_.ops.back().views = {view, at};
    return op;
  }
  std::uint32_t copy(std::uint8_t lane, std::vector<Wait> waits = {}) {
    return push(Copy{Tier::device, Tier::host}, {LaneKind::copy, lane}, waits);
  }
  std::uint32_t alloc(BufferId what) { return push(Alloc{what, 0}, {}, {}); }
  std::uint32_t free(BufferId what) { return push(Free{what, 0}, {}, {}); }

  [[nodiscard]] static Wait on(std::uint32_t op) { return {Wait::Kind::op, {}, op}; }
  [[nodiscard]] static Wait tail(Lane lane) { return {Wait::Kind::tail, lane, 0}; }

  BlockId finish() {
    program_.blocks.push_back(std::move(block_));
    return BlockId{static_cast<std::uint32_t>(program_.blocks.size() - 1)};
  }

 private:
  template <class Action>
  std::uint32_t push(Action action, Lane lane, const std::vector<Wait>& waits) {
    const Range range{static_cast<std::uint32_t>(block_.waits.size()), static_cast<std::uint32_t>(waits.size())};
    block_.waits.insert(block_.waits.end(), waits.begin(), waits.end());
    block_.ops.push_back({action, lane, range, {}});
    return static_cast<std::uint32_t>(block_.ops.size() - 1);
  }

  Program& program_;
  Block block_;
};

/// A Program over `stages` pipeline stages (one class each) and `tensor` ranks
/// per stage, with groups 0: tensor, 1: pipeline, and buffer 0: 8 bytes.
inline Program hand_program(std::uint32_t stages, std::uint32_t tensor = 1) {
  Program program;
  program.mesh = Mesh{{{Axis::pipeline, stages}, {Axis::tensor, tensor}}};
  program.class_axes = {Axis::pipeline};
  program.groups = {Group{{Axis::tensor}, {}}, Group{{Axis::pipeline}, {}}};
  Buffer buffer;
  buffer.name = "message";
  buffer.role = Role::activation;
  buffer.dtype = DType::f64;
  buffer.count = 1;
  program.buffers.push_back(buffer);
  program.classes.resize(stages);
  return program;
}

}  // namespace orrery::test
