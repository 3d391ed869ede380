#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "exec/checkpoint/checksum.hpp"
#include "tests/unit/exec/checkpoint/saved_state.hpp"

using namespace orrery;
using test::MemoryDisk;

namespace {

/// CRC-32 bit by bit: polynomial 0xedb88320, reflected, all ones before and after.
std::uint32_t slow_crc(const std::vector<std::byte>& bytes) {
  std::uint32_t crc = 0xffffffffU;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

std::vector<std::byte> bytes_of_text(std::string_view text) {
  const auto span = std::as_bytes(std::span(text));
  return {span.begin(), span.end()};
}

std::uint64_t little_endian(const std::vector<std::byte>& b, std::size_t at, int n) {
  std::uint64_t value = 0;
  for (int i = n; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(b[at + static_cast<std::size_t>(i)]);
  return value;
}

void append(std::vector<std::byte>& to, std::uint64_t value, int n) {
  for (int i = 0; i < n; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

TEST_CASE("the checksum is the CRC-32 that everyone has", "[checkpoint]") {
  // The check value of the catalogues is that of the digits 1 to 9.
  CHECK(crc32_of(bytes_of_text("123456789")) == 0xcbf43926U);
  CHECK(slow_crc(bytes_of_text("123456789")) == 0xcbf43926U);
  CHECK(crc32_of(bytes_of_text("6789"), crc32_of(bytes_of_text("12345"))) == 0xcbf43926U);
  CHECK(crc32_of({}, 7U) == 7U);
}

// docs/checkpoints.md, read by hand.
TEST_CASE("a rank's file is laid out as documented", "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string name = state.save(disk, 9, {});
  const std::vector<std::byte> file = disk.bytes("dir/" + name + "/rank-00001.bin");
  CHECK(std::memcmp(file.data(), "ORRYRANK", 8) == 0);
  CHECK(little_endian(file, 8, 4) == 1);
  CHECK(little_endian(file, 12, 4) == 1);
  CHECK(little_endian(file, 16, 8) == 9);
  const std::uint64_t directory = little_endian(file, 24, 8), data = little_endian(file, 32, 8);
  CHECK(little_endian(file, 40, 4) == 65536);
  const std::vector<std::byte> head(file.begin(), file.begin() + 44);
  CHECK(little_endian(file, 44, 4) == slow_crc(head));
  REQUIRE(directory + data < 65536);  // one block
  REQUIRE(file.size() == 48 + directory + data + 4);
  // The head goes before the block's number and the block.
  std::vector<std::byte> summed = head;
  append(summed, 0, 8);
  summed.insert(summed.end(), file.begin() + 48, file.end() - 4);
  CHECK(little_endian(file, file.size() - 4, 4) == slow_crc(summed));
  // The parts stand behind the directory one after the other.
  const auto written = written_parts(state.program)[1];
  const auto memory = state.state(9);
  auto at = static_cast<std::ptrdiff_t>(48 + directory);
  for (const HeldPart& held : written) {
    const auto bytes = memory->find(Rank{1}, held.where).subspan(held.first * size_of(held.part.dtype));
    CHECK(std::equal(file.begin() + at, file.begin() + at + static_cast<std::ptrdiff_t>(bytes_of(held.part)),
                     bytes.begin()));
    at += static_cast<std::ptrdiff_t>(bytes_of(held.part));
  }
  CHECK(at == static_cast<std::ptrdiff_t>(file.size()) - 4);
  Diagnostics d;
  const std::string text(reinterpret_cast<const char*>(file.data()) + 48, directory);
  const auto parts = read_directory(text, "file", d);
  REQUIRE(parts);
  REQUIRE(parts->size() == written.size());
  for (std::size_t i = 0; i < written.size(); ++i) CHECK((*parts)[i] == written[i].part);
}

TEST_CASE("a file longer than a block reads back, and its blocks cannot change places", "[checkpoint]") {
  MemoryDisk disk;
  disk.make_folder("d");
  StatePart part{"weights", "t", {{50000}, {0}, {50000}, 0, 50000}, DType::f32, {}};
  std::vector<std::byte> data(200000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 1000);
  RankFileWriter out(disk.create("d/f"), 3, 8, {part});
  out.append(std::span(data).first(70000));
  out.append(std::span(data).subspan(70000));
  const RankFileEntry entry = out.finish();
  CHECK(entry.bytes == disk.bytes("d/f").size());
  CHECK(entry.bytes == rank_file_bytes(200000 + write_directory({part}).size()));
  RankFileReader in(disk.open("d/f"), "d/f", 3, 8, entry);
  CHECK_NOTHROW(in.verify());
  std::vector<std::byte> back(200000);
  in.read(0, 0, back);
  CHECK(back == data);
  in.read(0, 65530, std::span(back).first(100));
  CHECK(std::equal(back.begin(), back.begin() + 100, data.begin() + 65530));
  auto& bytes = disk.bytes("d/f");
  std::swap_ranges(bytes.begin() + 48, bytes.begin() + 48 + 65540, bytes.begin() + 48 + 65540);
  CHECK_THROWS_AS(RankFileReader(disk.open("d/f"), "d/f", 3, 8, entry), Damaged);
}

TEST_CASE("another version is refused by name, not taken for damage", "[checkpoint]") {
  const test::SavedState state;
  MemoryDisk disk;
  const std::string older = state.save(disk, 2, {}), newer = state.save(disk, 4, older);
  auto& manifest = disk.bytes("dir/" + newer + "/manifest");
  std::string text(reinterpret_cast<const char*>(manifest.data()), manifest.size() - 15);
  const std::size_t at = text.find("\"version\": 1");
  REQUIRE(at != std::string::npos);
  text[at + 11] = '2';
  const std::uint32_t crc = crc32_of(std::as_bytes(std::span(text)));
  char line[16];
  std::snprintf(line, sizeof line, "crc32 %08x\n", crc);
  manifest = bytes_of_text(text + line);
  CHECK_THROWS_WITH(newest_whole(disk, "dir"),
                    "dir/0002-step-4/manifest cannot be used: this is version 2 of a checkpoint. This program "
                    "reads version 1. The program that wrote it can read it.");
}

TEST_CASE("a run of another model, or with other states, is refused; other changes are told", "[checkpoint]") {
  const test::SavedState state;
  const Manifest m = manifest_of(state.run, 4);
  const auto codes = [&](const PlannedRun& run) {
    Diagnostics d;
    check_resume(m, run, "manifest", d);
    std::vector<std::string> list;
    for (const Diagnostic& one : d.list()) list.push_back(one.code);
    return list;
  };
  PlannedRun run = state.run;
  run.model.name = "the same by another name";
  run.plan.zero_stage = 1;
  CHECK(codes(run).empty());
  CHECK(workload_changes(m, run).empty());
  run.model.layers = 2;
  CHECK(codes(run) == std::vector<std::string>{"checkpoint.model"});
  run.workload.precision = Precision::bf16;
  CHECK(codes(run) == std::vector<std::string>{"checkpoint.model", "checkpoint.states"});
  run = state.run;
  run.workload.optimizer.momentum = 0.5;
  CHECK(codes(run) == std::vector<std::string>{"checkpoint.states"});
  run = state.run;
  run.workload.adapters = Adapters{4, 8.0, Adapters::bit(AdaptedMatrix::q)};
  CHECK(codes(run) == std::vector<std::string>{"checkpoint.adapters"});
  run = state.run;
  run.workload.global_batch = 4;
  CHECK(codes(run).empty());
  CHECK(workload_changes(m, run) == std::vector<std::string>{"batch = 4 (it was 2)"});
}

TEST_CASE("a checkpoint with master weights is none without them", "[checkpoint]") {
  PlannedRun run = test::SavedState().run;
  run.workload.precision = Precision::bf16;
  const Manifest with = manifest_of(run, 4);
  run.workload.master_weights = false;
  const Manifest without = manifest_of(run, 4);
  Diagnostics d;
  check_resume(without, run, "dir", d);
  CHECK(d.empty());
  check_resume(with, run, "dir", d);
  REQUIRE(d.list().size() == 1);
  CHECK(d.list()[0].code == "checkpoint.states");
  CHECK(d.list()[0].details[1].starts_with("The plan has precision bf16 without master weights, optimizer "));
}

TEST_CASE("adapters go on as adapters of the same rank and matrices", "[checkpoint]") {
  PlannedRun run = test::SavedState().run;
  run.workload.adapters = Adapters{4, 8.0, Adapters::bit(AdaptedMatrix::q) | Adapters::bit(AdaptedMatrix::k)};
  const Manifest m = manifest_of(run, 4);
  const auto refused = [&](const Adapters& now) {
    run.workload.adapters = now;
    Diagnostics d;
    check_resume(m, run, "dir", d);
    return d.list().size() == 1 && d.list()[0].code == "checkpoint.adapters";
  };
  const Adapters same = *run.workload.adapters;
  CHECK_FALSE(refused(same));
  CHECK_FALSE(refused({same.rank, 64.0, same.matrices}));
  CHECK(refused({8, same.alpha, same.matrices}));
  // Matrices in few bits are made again from the seed.
  Adapters few = same;
  few.base = BaseWeights::nf4;
  CHECK(refused(few));
  few.base = BaseWeights::unquantized;
  ++run.workload.seed;
  CHECK_FALSE(refused(same));
  --run.workload.seed;
  // k's and v's adapters have one shape; only the names tell them apart.
  CHECK(refused({same.rank, same.alpha, Adapters::bit(AdaptedMatrix::q) | Adapters::bit(AdaptedMatrix::v)}));
}

TEST_CASE("adapters beside matrices in few bits go on with the same seed and the same format", "[checkpoint]") {
  PlannedRun run = test::SavedState().run;
  run.workload.adapters = Adapters{.rank = 4, .base = BaseWeights::nf4};
  const Manifest m = manifest_of(run, 4);
  const auto said = [&] {
    Diagnostics d;
    check_resume(m, run, "dir", d);
    return render(d);
  };
  CHECK(said() == "");
  ++run.workload.seed;
  CHECK(said().find("beside other frozen weights [checkpoint.adapters]") != std::string::npos);
  --run.workload.seed;
  run.workload.adapters->double_quantization = true;
  CHECK(said().find("in nf4 with scales in 8 bits.") != std::string::npos);
}

TEST_CASE("a manifest and a directory read back equal", "[checkpoint]") {
  const test::SavedState state;
  Manifest m = manifest_of(state.run, 4);
  m.ranks = {{1234567890123, 0xffffffffU}, {1, 0}};
  Diagnostics d;
  CHECK(read_manifest(write_manifest(m), "m", d) == m);
  CHECK(d.empty());
  std::vector<StatePart> parts;
  const auto written = written_parts(state.program);
  for (const HeldPart& held : written[0]) parts.push_back(held.part);
  parts.push_back({"moment1", "a \"name\"\n", {{3, 5}, {0, 4}, {3, 2}, 1, 5}, DType::f8, 127});
  CHECK(read_directory(write_directory(parts), "d", d) == parts);
  CHECK(d.empty());
}

TEST_CASE("shapes that join neighbouring dimensions are of one tensor", "[checkpoint]") {
  const auto alike = [](std::vector<std::uint64_t> a, std::vector<std::uint64_t> b) {
    const Slice x{std::move(a), {}, {}, 0, 0}, y{std::move(b), {}, {}, 0, 0};
    CHECK(of_one_tensor(x, y) == of_one_tensor(y, x));
    return of_one_tensor(x, y);
  };
  CHECK(alike({6, 4, 5}, {6, 4, 5}));
  CHECK(alike({6, 4, 5}, {6, 20}));
  CHECK(alike({6, 1, 5}, {6, 5}));
  CHECK(alike({6, 4, 5}, {120}));
  CHECK_FALSE(alike({6, 4, 5}, {4, 30}));
  CHECK_FALSE(alike({6, 4, 5}, {6, 21}));
  CHECK_FALSE(alike({6, 20}, {20, 6}));
  CHECK_FALSE(alike({6, 4, 5}, {6, 4}));
}

TEST_CASE("a slice visits each of its elements inside the tensor once, at its row-major index", "[checkpoint]") {
  // A box [1..3) x [3..6) of a tensor [3, 5], from its second element on: columns 3, 4 and one of padding.
  const Slice slice{{3, 5}, {1, 3}, {2, 3}, 1, 5};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  for_each_stretch(slice, [&](std::uint64_t global, std::uint64_t local, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) seen.emplace_back(global + i, local + i);
  });
  CHECK(seen == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{9, 0}, {13, 2}, {14, 3}});
}
