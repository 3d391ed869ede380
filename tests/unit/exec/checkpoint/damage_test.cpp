#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <chrono>
#include <span>
#include <string>

#include "core/base/random.hpp"
#include "exec/checkpoint/checksum.hpp"
#include "tests/unit/exec/checkpoint/saved_state.hpp"

using namespace orrery;
using test::MemoryDisk;

namespace {

const std::vector<std::string> files_of_two_ranks = {"manifest", "rank-00000.bin", "rank-00001.bin"};

}  // namespace

TEST_CASE("any byte that is changed, and any end that is lost, is noticed; the checkpoint before is used",
          "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string older = state.save(disk, 2, {}), newer = state.save(disk, 4, older);
  for (const std::string& name : files_of_two_ranks) {
    std::vector<std::byte>& bytes = disk.bytes(std::filesystem::path("dir") / newer / name);
    const std::vector<std::byte> whole = bytes;
    REQUIRE(whole.size() > 500);
    std::size_t missed = 0, tried = 0;
    const auto noticed = [&] {
      try {
        static_cast<void>(open_checkpoint(disk, "dir", newer));
        ++missed;
      } catch (const Damaged& damage) {
        missed += std::string(damage.what()).find(name) == std::string::npos ? 1 : 0;
      }
      if (++tried % 20 != 0) return;
      auto found = newest_whole(disk, "dir");
      missed += found.checkpoint && found.checkpoint->name == older && found.damaged.size() == 1 ? 0 : 1;
    };
    for (std::size_t at = 0; at < whole.size(); ++at) {
      // Changes one bit, or makes any other change.
      bytes[at] =
          whole[at] ^ static_cast<std::byte>(at % 2 == 0 ? 1U << (at / 2 % 8) : 1 + random_bits(1, 2, at) % 255);
      noticed();
      bytes[at] = whole[at];
    }
    for (std::size_t size = 0; size < whole.size(); ++size) {
      bytes.resize(size);
      noticed();
      bytes = whole;
    }
    bytes.push_back(std::byte{0});
    noticed();
    bytes = whole;
    CAPTURE(name);
    CHECK(missed == 0);
  }
  auto found = newest_whole(disk, "dir");
  REQUIRE(found.checkpoint);
  CHECK(found.checkpoint->name == newer);
}

TEST_CASE("a damaged file is named with the place and both checksums", "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string name = state.save(disk, 4, {});
  const auto path = std::filesystem::path("dir") / name;
  std::vector<std::byte>& bytes = disk.bytes(path / "rank-00001.bin");
  bytes[100] ^= std::byte{4};
  auto found = newest_whole(disk, "dir");
  CHECK_FALSE(found.checkpoint);
  REQUIRE(found.damaged.size() == 1);
  CHECK_THAT(found.damaged[0], Catch::Contains("dir/0001-step-4/rank-00001.bin is damaged: bytes 48 to ") &&
                                   Catch::Contains("have the checksum ") && Catch::Contains(" says "));
  bytes[100] ^= std::byte{4};
  disk.lose(path / "rank-00000.bin");
  found = newest_whole(disk, "dir");
  REQUIRE(found.damaged.size() == 1);
  CHECK(found.damaged[0] ==
        "dir/0001-step-4/rank-00000.bin is missing; the manifest names 2 rank files, the last rank-00001.bin");
}

TEST_CASE("a file of another checkpoint, or of another rank, is not taken for this one's", "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string older = state.save(disk, 2, {}), newer = state.save(disk, 4, older);
  const std::filesystem::path dir = "dir";
  const auto right = disk.bytes(dir / newer / "rank-00000.bin");
  disk.bytes(dir / newer / "rank-00000.bin") = disk.bytes(dir / older / "rank-00000.bin");
  CHECK_THROWS_AS(open_checkpoint(disk, dir, newer), Damaged);
  disk.bytes(dir / newer / "rank-00000.bin") = disk.bytes(dir / newer / "rank-00001.bin");
  CHECK_THROWS_AS(open_checkpoint(disk, dir, newer), Damaged);
  // The same step of another run has all right but the numbers.
  MemoryDisk twin;
  auto other = state.state(5);
  static_cast<void>(save_checkpoint(twin, "dir", state.program, *other, manifest_of(state.run, 4), {}));
  disk.bytes(dir / newer / "rank-00000.bin") = twin.bytes("dir/0001-step-4/rank-00000.bin");
  CHECK_THROWS_AS(open_checkpoint(disk, dir, newer), Damaged);
  disk.bytes(dir / newer / "rank-00000.bin") = right;
  CHECK_NOTHROW(open_checkpoint(disk, dir, newer));
}

// Checksums are no secret: a manifest may be forged whole.  A reader whose time grew with the square of the entries
// would take minutes for these.
TEST_CASE("a forged manifest is refused soon, however many entries and lines it has", "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string name = state.save(disk, 4, {});
  std::vector<std::byte>& bytes = disk.bytes(std::filesystem::path("dir") / name / "manifest");
  const std::string whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto said = [&](std::string text) {
    text += fmt::format("crc32 {:08x}\n", crc32_of(std::as_bytes(std::span(text))));
    const auto all = std::as_bytes(std::span(text));
    bytes.assign(all.begin(), all.end());
    const auto start = std::chrono::steady_clock::now();
    std::string what;
    try {
      static_cast<void>(open_checkpoint(disk, "dir", name));
    } catch (const Error& e) {
      what = e.what();
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    return what;
  };
  const std::string body = whole.substr(0, whole.size() - 15), path = "dir/" + name + "/manifest";
  const auto with_ranks = [&](const std::string& entry, std::size_t count) {
    std::string ranks = entry;
    for (std::size_t i = 1; i < count; ++i) ranks += "," + entry;
    return body.substr(0, body.find("\"ranks\": [")) + "\"ranks\": [" + ranks + "]}\n";
  };
  const std::string entry = R"({"bytes":1,"checksum":1})";
  const std::string most = with_ranks(entry, 1'600'000);
  // 4 MiB, and 160 bytes for each of the two.
  CHECK(said(most) ==
        fmt::format("{} is damaged: it has {} bytes, but a manifest beside 2 rank files has at most 4194624", path,
                    most.size() + 15));
  CHECK_THAT(said(with_ranks(entry, 150'000)), Catch::Contains("rank-00000.bin is damaged: it ends at byte "));
  CHECK(said(with_ranks("1", 2'000'000)) == path + " cannot be used: ranks[0] is not an object");
  std::string model = body;
  model.insert(model.find("\"model\": \"") + 10, std::string(1'000'000, '#') + "\\n");
  CHECK_THAT(said(model), Catch::StartsWith(path + " cannot be used: model has 10") &&
                              Catch::EndsWith(" bytes, but at most 65536 are read"));
  CHECK(said(body).empty());
}
