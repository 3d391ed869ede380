#include "exec/calibrate/disk_rates.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t block = std::size_t{8} << 20;
constexpr std::size_t page = 4096;

class File {
 public:
  explicit File(const std::filesystem::path& folder) : folder_(folder) {
    std::string name = (folder / "orrery-disk-XXXXXX").string();
    file_ = ::mkstemp(name.data());
    if (file_ < 0) fail("make a file");
    ::unlink(name.c_str());
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void reserve(std::uint64_t bytes) {
    errno = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
    if (errno != 0) fail("keep " + std::to_string(bytes) + " bytes");
  }
  void write(const std::byte* from, std::size_t bytes, std::uint64_t at) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = ::pwrite(file_, from + done, bytes - done, static_cast<off_t>(at + done));
      if (n < 0 && errno != EINTR) fail("write");
      done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  }
  void read(std::byte* to, std::size_t bytes, std::uint64_t at) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = ::pread(file_, to + done, bytes - done, static_cast<off_t>(at + done));
      if (n == 0 || (n < 0 && errno != EINTR)) fail("read");
      done += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  }
  void flush() {
    if (::fdatasync(file_) != 0) fail("write");
  }
  void forget() { ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED); }

 private:
  [[noreturn]] void fail(const std::string& what) {
    throw Error("cannot " + what + " in " + folder_.string() +
                " to measure its disk: " + std::generic_category().message(errno));
  }
  std::filesystem::path folder_;
  int file_ = -1;
};

template <class Work>
double seconds(Work work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DiskRate measure_disk(const std::filesystem::path& folder, std::uint64_t bytes,
                      const std::function<void(double)>& progress) {
  const std::uint64_t blocks = std::max<std::uint64_t>(bytes / block, 1);
  const auto done = [&](std::uint64_t moved) {
    if (progress) progress(static_cast<double>(moved) / static_cast<double>(2 * blocks));
  };
  std::vector<std::byte> data(block);
  // No two words are alike, because some disks store less than they are given.
  std::uint64_t word = 0x9e3779b97f4a7c15U;
  for (std::size_t i = 0; i < block; ++i) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    data[i] = static_cast<std::byte>(word >> 56);
  }
  File file(folder);
  file.reserve(blocks * block);
  const double writing = seconds([&] {
    for (std::uint64_t b = 0; b < blocks; ++b) {
      file.write(data.data(), block, b * block);
      // The file is flushed now and then, so that the share done is that of bytes on the disk.
      if (b % 8 == 7) file.flush();
      done(b + 1);
    }
    file.flush();
  });
  file.forget();
  constexpr std::uint64_t looks = 64;
  std::vector<double> small;
  for (std::uint64_t i = 0; i < looks; ++i) {
    // Reads every 37th place, in no order that a read-ahead foresees.
    const std::uint64_t place = (i * 37 % looks) * (blocks * block / looks) / page * page;
    small.push_back(seconds([&] { file.read(data.data(), page, place); }));
  }
  std::sort(small.begin(), small.end());
  file.forget();
  const double reading = seconds([&] {
    for (std::uint64_t b = 0; b < blocks; ++b) {
      file.read(data.data(), block, b * block);
      done(blocks + b + 1);
    }
  });
  const auto all = static_cast<double>(blocks * block);
  return {Bandwidth::of(all / reading), Bandwidth::of(all / writing), Seconds::of(small[looks / 2])};
}

}  // namespace orrery
