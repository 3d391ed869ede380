#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "exec/run/storage.hpp"
#include "exec/run/tier_file.hpp"

using namespace orrery;

namespace {

/// One buffer of each scope with odd sizes.
Program program() {
  Program p;
  p.layers = 2;
  p.microbatches = 3;
  const auto add = [&](const char* name, Scope scope, DType dtype, std::uint64_t count) {
    Buffer b;
    b.name = name;
    b.scope = scope;
    b.dtype = dtype;
    b.count = count;
    p.buffers.push_back(b);
  };
  add("a", Scope::stage, DType::f32, 5);              // 20 bytes
  add("b", Scope::layer_microbatch, DType::bf16, 9);  // 18 bytes
  return p;
}

}  // namespace

// The live bytes are 20, 38, 56, 38, 56; rounding to 64 bytes does not count.
TEST_CASE("live and peak bytes are the Program's to the byte", "[storage]") {
  const Program p = program();
  Storage s(p, false);
  s.allocate({BufferId{0}, 0, 0});
  s.allocate({BufferId{1}, 0, 0});
  s.allocate({BufferId{1}, 2, 2});  // the input of the layer after the last
  CHECK(s.live_bytes() == 56);
  s.free({BufferId{1}, 0, 0});
  CHECK(s.live_bytes() == 38);
  s.allocate({BufferId{1}, 1, 0});
  CHECK(s.live_bytes() == 56);
  CHECK(s.peak_bytes() == 56);
  CHECK(s.reserved_bytes() == 3 * 64);  // the freed block was handed out again
}

TEST_CASE("each memory tier is counted apart, and its room is a bound", "[storage]") {
  Program p = program();
  p.buffers[0].tier = Tier::host;
  Storage s(p, false, Storage::Taking::at_alloc, {18, 20, 0});
  s.allocate({BufferId{0}, 0, 0});
  s.allocate({BufferId{1}, 0, 0});
  CHECK(s.peak_bytes() == 18);
  CHECK(s.peak_bytes(Tier::host) == 20);
  REQUIRE_THROWS_WITH(s.allocate({BufferId{1}, 1, 0}),
                      "no room for 18 bytes of buffer b: 18 of 18 bytes of device memory are in use");
  s.free({BufferId{1}, 0, 0});
  CHECK_NOTHROW(s.allocate({BufferId{1}, 1, 0}));
}

TEST_CASE("instances are apart, aligned to 64 bytes, and found only while they live", "[storage]") {
  const Program p = program();
  Storage s(p, true);
  for (std::uint32_t m = 0; m < 3; ++m) s.allocate({BufferId{1}, 1, m});
  for (std::uint32_t m = 0; m < 3; ++m) {
    const auto bytes = s.find({BufferId{1}, 1, m});
    REQUIRE(bytes.size() == 18);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0);
    CHECK(bytes[17] == std::byte{0xff});  // poisoned
    bytes[0] = std::byte{static_cast<unsigned char>(m)};
  }
  CHECK(s.at({BufferId{1}, 1, 0})[0] == std::byte{0});
  CHECK(s.at({BufferId{1}, 1, 2})[0] == std::byte{2});
  CHECK(s.find({BufferId{1}, 0, 0}).empty());
  s.free({BufferId{1}, 1, 2});
  CHECK(s.find({BufferId{1}, 1, 2}).empty());
}

namespace {

/// An empty folder, which is removed with everything in it at the end.
class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::filesystem::path path() const { return path_; }
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "orrery-storage-XXXXXX").string();
};

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the disk tier is a file without a name, which holds what is written", "[storage]") {
  Program p = program();
  p.buffers[0].tier = Tier::disk;
  const Folder folder;
  Storage s(p, false, Storage::Taking::at_alloc, Storage::no_bounds, folder.path());
  s.allocate({BufferId{0}, 0, 0});
  s.allocate({BufferId{1}, 0, 0});
  CHECK(folder.empty());
  CHECK(s.peak_bytes(Tier::disk) == 20);
  CHECK(s.live_bytes() == 18);
  auto* data = reinterpret_cast<float*>(s.at({BufferId{0}, 0, 0}));
  for (int i = 0; i < 5; ++i) data[i] = static_cast<float>(i);
  CHECK(reinterpret_cast<const float*>(s.find({BufferId{0}, 0, 0}).data())[4] == 4.0F);
  s.free({BufferId{0}, 0, 0});
  CHECK(s.live_bytes(Tier::disk) == 0);
}

TEST_CASE("a folder that takes no file, and a full disk, are said", "[storage]") {
  CHECK(failure_of([] { static_cast<void>(TierFile("/nowhere").take(1)); }) ==
        "cannot make a file for the disk tier in /nowhere: No such file or directory");
  // A limit on the size of files stands for a full disk.
  const Folder folder;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  TierFile file(folder.path());
  REQUIRE(file.take(1000) != nullptr);
  const std::string text = failure_of([&] { static_cast<void>(file.take(1 << 20)); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(text == "cannot keep 1048576 more bytes of the disk tier in " + folder.path().string() + ", after " +
                    std::to_string(sysconf(_SC_PAGESIZE)) + ": File too large");
}
