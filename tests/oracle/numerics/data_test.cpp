#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/diagnostics.hpp"
#include "exec/train/data.hpp"

namespace orrery {
namespace {

/// A file that exists while the object does.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& content)
      : path_(std::filesystem::temp_directory_path() / name) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string error_of(const std::string& path, std::uint64_t vocabulary, std::uint64_t length) {
  try {
    (void)text_data(path, vocabulary, length, 1);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A synthetic target is the next token, and tokens stay below the vocabulary", "[oracle][data]") {
  const auto data = synthetic_data(5, 1);
  for (std::uint64_t position = 0; position < 200; ++position) {
    CHECK(data->token(1, 0, position) < 5);
    CHECK(data->token(1, 0, position) >= 0);
    CHECK(data->target(1, 0, position) == data->token(1, 0, position + 1));
  }
}

// With 4000 targets and share 0.25 the mean is 1000 and the deviation sqrt(4000 * 0.25 * 0.75) = 27; five deviations
// are allowed.
TEST_CASE("The asked share of synthetic targets does not count", "[oracle][data]") {
  Workload w;
  w.global_batch = 40;
  w.sequence_length = 100;
  const auto data = synthetic_data(50, 9, 0.25);
  CHECK(static_cast<double>(count_targets(*data, w, 3)) == Approx(3000.0).margin(5 * 27.0));
  CHECK(count_targets(*synthetic_data(50, 9), w, 3) == 4000);
  CHECK(count_targets(*synthetic_data(50, 9, 1.0), w, 3) == 0);
}

TEST_CASE("Steps and sequences see different synthetic tokens, equal keys the same", "[oracle][data]") {
  const auto data = synthetic_data(1000000, 1);
  const auto again = synthetic_data(1000000, 1);
  const auto other = synthetic_data(1000000, 2);
  CHECK(data->token(1, 0, 0) == again->token(1, 0, 0));
  CHECK(data->token(1, 0, 0) != other->token(1, 0, 0));
  CHECK(data->token(1, 0, 0) != data->token(2, 0, 0));
  CHECK(data->token(1, 0, 0) != data->token(1, 1, 0));
  CHECK(data->token(1, 0, 0) != data->token(1, 0, 1));
}

TEST_CASE("Text sequences are runs of the file's bytes", "[oracle][data]") {
  const std::string text = "all the bytes of this file are different: no";
  const TemporaryFile file("orrery-data-test-runs.txt", text);
  const auto data = text_data(file.path(), 256, 6, 4);
  bool moved = false;
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    std::string read;
    for (std::uint64_t position = 0; position < 6; ++position) {
      read += static_cast<char>(data->token(2, sequence, position));
      CHECK(data->target(2, sequence, position) == data->token(2, sequence, position + 1));
    }
    read += static_cast<char>(data->target(2, sequence, 5));
    CAPTURE(read);
    CHECK(text.find(read) != std::string::npos);
    moved = moved || data->token(2, sequence, 0) != data->token(2, 0, 0);
  }
  CHECK(moved);
}

TEST_CASE("A file of length + 1 bytes has exactly one sequence", "[oracle][data]") {
  const TemporaryFile file("orrery-data-test-one.txt", "abcd");
  const auto data = text_data(file.path(), 256, 3, 1);
  for (std::uint64_t sequence = 0; sequence < 5; ++sequence) {
    CHECK(data->token(1, sequence, 0) == 'a');
    CHECK(data->target(1, sequence, 2) == 'd');
  }
}

TEST_CASE("A token file that cannot serve is an error that says why", "[oracle][data]") {
  CHECK(error_of("/no/such/file", 256, 4) == "/no/such/file: cannot open the token file: No such file or directory");
  const std::string directory = std::filesystem::temp_directory_path().string();
  CHECK(error_of(directory, 256, 4) == directory + ": cannot read the token file; is it a directory?");
  const TemporaryFile file("orrery-data-test-bad.txt",
                           "ab\xff"
                           "d");
  CHECK(error_of(file.path(), 256, 4) ==
        file.path() + ": the token file has 4 bytes; a sequence of 4 tokens and its last target need 5");
  CHECK(error_of(file.path(), 128, 3) == file.path() +
                                             ": byte 2 of the token file is 255, but the model's vocabulary is 128; a "
                                             "vocabulary of 256 takes every byte");
  CHECK(error_of(file.path(), 256, 3).empty());
}

TEST_CASE("A workload without a token file trains on synthetic tokens", "[oracle][data]") {
  ModelSpec m;
  m.vocabulary = 50;
  Workload w;
  w.sequence_length = 4;
  w.seed = 6;
  CHECK(data_of(m, w)->token(1, 2, 3) == synthetic_data(50, 6)->token(1, 2, 3));
}

}  // namespace orrery
