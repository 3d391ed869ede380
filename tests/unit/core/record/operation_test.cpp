#include "core/record/operation.hpp"

#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "tests/support/hand_program.hpp"

namespace orrery {

TEST_CASE("Operations are named by kernel, by collective and axes, or as exchange", "[unit][record]") {
  Program program = test::hand_program(2, 2);
  program.groups.push_back(Group{{Axis::pipeline, Axis::data}, {}});
  test::HandBlock block(program, "all");
  block.compute({}, KernelKind::gemm);
  block.collective(GroupId{0}, Axis::tensor);
  block.collective(GroupId{2}, Axis::pipeline, {}, Collective::Kind::reduce_scatter);
  block.exchange(GroupId{1}, TransferLane::forward_send, {{true, 1}}, BufferId{0});
  block.alloc(BufferId{0});
  const Block& b = program[block.finish()];
  const auto name = [&](std::size_t op) { return name_of(operation_of(program, b, b.ops[op])); };
  CHECK(name(0) == "gemm");
  CHECK(name(1) == "all_reduce tensor");
  CHECK(name(2) == "reduce_scatter pipeline+data");
  CHECK(name(3) == "exchange");
  CHECK_FALSE(is_timed(b.ops[4]));
}

TEST_CASE("No two operations share a name", "[unit][record]") {
  std::set<std::string> names;
  std::size_t communications = 0;
  for (std::size_t o = 0; o < operation_count; ++o) {
    names.insert(name_of(static_cast<Operation>(o)));
    communications += is_communication(static_cast<Operation>(o)) ? 1 : 0;
  }
  CHECK(names.size() == operation_count);
  // There are 8 kinds of collectives on 2^3 sets of three axes, on the 6 others alone and on several together, and the
  // exchange; a copy moves between tiers, not ranks.
  CHECK(communications == 8 * (8 + 6 + 1) + 1);
}

}  // namespace orrery
