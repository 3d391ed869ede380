#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/unit/exec/checkpoint/saved_state.hpp"

using namespace orrery;
using test::MemoryDisk;

namespace {

/// A disk with the checkpoints of steps 2 and 4.
struct TwoSaved {
  test::SavedState state;
  MemoryDisk disk;
  std::string older, newer;
  TwoSaved() {
    older = state.save(disk, 2, {});
    newer = state.save(disk, 4, older);
  }
};

std::uint64_t calls_of_a_save() {
  TwoSaved s;
  const std::uint64_t before = s.disk.calls();
  s.state.save(s.disk, 6, s.newer);
  return s.disk.calls() - before;
}

}  // namespace

TEST_CASE("a save keeps the checkpoint before it and no other", "[checkpoint]") {
  TwoSaved s;
  CHECK(generations(s.disk, "dir") == std::vector<std::string>{"0002-step-4", "0001-step-2"});
  CHECK(s.state.save(s.disk, 6, s.newer) == "0003-step-6");
  CHECK(s.disk.list("dir") == std::vector<std::string>{"0002-step-4", "0003-step-6"});
}

TEST_CASE("whatever call of a save the power fails in, the old or the new checkpoint is whole", "[checkpoint]") {
  const std::uint64_t calls = calls_of_a_save();
  // The calls are: the folder; two rank files, made, head and block appended, synced; the manifest, made, written,
  // synced; its folder synced, renamed, the one around it synced; the oldest renamed, and its three files and it
  // removed.
  REQUIRE(calls == 1 + 2 * 4 + 3 + 3 + 1 + 4);
  std::size_t old_ones = 0, new_ones = 0;
  for (std::uint64_t at = 0; at <= calls; ++at) {
    for (const auto survives :
         {MemoryDisk::Survives::all, MemoryDisk::Survives::names, MemoryDisk::Survives::what_was_synced}) {
      CAPTURE(at, static_cast<int>(survives));
      TwoSaved s;
      s.disk.fail(MemoryDisk::Failure::power, at);
      bool returned = false;
      try {
        s.state.save(s.disk, 6, s.newer);
        returned = true;
      } catch (const test::PowerCut&) {
      }
      CHECK(returned == (at == calls));
      s.disk.restart(survives);
      auto found = newest_whole(s.disk, "dir");
      REQUIRE(found.checkpoint);
      CHECK(found.damaged.empty());  // what is half written has no checkpoint's name
      const std::uint64_t step = found.checkpoint->manifest.step;
      CHECK((step == 4 || step == 6));
      CHECK(s.state.holds_its_step(*found.checkpoint));
      if (returned) CHECK(step == 6);
      (step == 4 ? old_ones : new_ones) += 1;
      // The run goes on, and what the crash left behind is removed.
      s.state.save(s.disk, 8, found.checkpoint->name);
      auto next = newest_whole(s.disk, "dir");
      REQUIRE(next.checkpoint);
      CHECK(next.checkpoint->manifest.step == 8);
      CHECK(s.disk.list("dir").size() == 2);
    }
  }
  CHECK(old_ones > 0);
  CHECK(new_ones > 0);
}

TEST_CASE("a full disk ends the save with an error, the old checkpoint is kept", "[checkpoint]") {
  const std::uint64_t calls = calls_of_a_save();
  std::size_t failed = 0;
  for (std::uint64_t at = 0; at < calls; ++at) {
    CAPTURE(at);
    TwoSaved s;
    s.disk.fail(MemoryDisk::Failure::full, at);
    std::string text;
    try {
      s.state.save(s.disk, 6, s.newer);
    } catch (const Error& e) {
      text = e.what();
    }
    s.disk.clear();
    auto found = newest_whole(s.disk, "dir");
    REQUIRE(found.checkpoint);
    CHECK(s.state.holds_its_step(*found.checkpoint));
    CHECK(found.checkpoint->manifest.step == (text.empty() ? 6 : 4));
    CHECK(s.disk.list("dir").size() == 2);  // nothing half done is left
    if (text.empty()) continue;
    ++failed;
    CHECK(text == "no checkpoint of step 6: cannot write: No space left on device; dir/0002-step-4 is kept");
  }
  CHECK(failed > 8);
}
