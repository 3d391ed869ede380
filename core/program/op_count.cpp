#include "core/program/op_count.hpp"

namespace orrery {

std::uint64_t op_count(const Program& program, std::span<const Slot> slots) {
  std::uint64_t ops = 0;
  for (const Slot& slot : slots) ops += std::uint64_t{slot.repeat} * program[slot.block].ops.size();
  return ops;
}

}  // namespace orrery
