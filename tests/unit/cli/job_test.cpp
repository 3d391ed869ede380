#include <catch2/catch.hpp>

#include <vector>

#include "cli/job.hpp"
#include "cli/status.hpp"

using namespace orrery;

TEST_CASE("processes of a job run the same, each with a GPU of its own, or one of them says what is wrong", "[cli]") {
  CHECK_FALSE(first_wrong({{0, 7, 0}, {0, 7, 0}}).has_value());    // hosts: no GPUs
  CHECK_FALSE(first_wrong({{0, 7, 11}, {0, 7, 12}}).has_value());  // a GPU each
  const auto shared = first_wrong({{0, 7, 11}, {0, 7, 12}, {0, 7, 11}});
  REQUIRE(shared.has_value());
  CHECK(shared->rank == Rank{0});
  CHECK(shared->status == status_world);
  CHECK(shared->what ==
        "ranks 0 and 2 have the same GPU. Start no more processes on a host than it has GPUs; --share-gpu puts all "
        "ranks of one host on one.");
  const auto other = first_wrong({{0, 7, 11}, {0, 8, 11}});
  REQUIRE(other.has_value());
  CHECK(other->what.find("rank 1 is about to run something other than rank 0") == 0);
  // A process's own mistake comes first.
  const auto failed = first_wrong({{0, 7, 11}, {2, 0, 0}});
  REQUIRE(failed.has_value());
  CHECK((failed->rank == Rank{1} && failed->status == 2 && failed->what.empty()));
}
