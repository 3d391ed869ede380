#include "exec/checkpoint/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error) {
  throw Error(fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error)));
}

class Descriptor {
 public:
  Descriptor(const char* what, const fs::path& path, int flags)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail(what, path, errno);
  }
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

void sync(const Descriptor& file, const fs::path& path) {
  while (::fsync(file.number()) != 0) {
    if (errno != EINTR) fail("keep", path, errno);
  }
}

class SystemOutput final : public OutputFile {
 public:
  explicit SystemOutput(const fs::path& path) : path_(path), file_("make", path, O_WRONLY | O_CREAT | O_EXCL) {}

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.number(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void sync() override { orrery::sync(file_, path_); }

 private:
  fs::path path_;
  Descriptor file_;
};

class SystemInput final : public InputFile {
 public:
  SystemInput(fs::path path, int number) : path_(std::move(path)), file_(number) {
    struct stat about {};
    if (::fstat(number, &about) != 0) fail("read", path_, errno);
    size_ = static_cast<std::uint64_t>(about.st_size);
  }
  std::uint64_t size() const override { return size_; }
  std::size_t read(std::uint64_t at, std::span<std::byte> to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      const ssize_t n = ::pread(file_.number(), to.data() + done, to.size() - done, static_cast<off_t>(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("read", path_, errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }

 private:
  fs::path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

class SystemFiles final : public FileSystem {
 public:
  void make_folder(const fs::path& path) override {
    std::error_code error;
    if (fs::is_directory(path, error)) return;
    const fs::path around = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
    if (!around.empty() && around != path) make_folder(around);
    fs::create_directory(path, error);
    if (error) fail("make", path, error.value());
    sync_folder(around.empty() ? "." : around);
  }
  std::unique_ptr<OutputFile> create(const fs::path& path) override { return std::make_unique<SystemOutput>(path); }
  std::unique_ptr<InputFile> open(const fs::path& path) override {
    const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (number < 0 && (errno == ENOENT || errno == ENOTDIR)) return nullptr;
    if (number < 0) fail("read", path, errno);
    return std::make_unique<SystemInput>(path, number);
  }
  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename", from, errno);
  }
  void sync_folder(const fs::path& path) override { sync(Descriptor("keep", path, O_RDONLY | O_DIRECTORY), path); }
  void remove_folder(const fs::path& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail("remove", path, error.value());
  }
  std::vector<std::string> list(const fs::path& path) override {
    std::vector<std::string> names;
    std::error_code error;
    for (auto at = fs::directory_iterator(path, error); !error && at != fs::directory_iterator(); at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    if (error && error != std::errc::no_such_file_or_directory) fail("read", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

std::unique_ptr<FileSystem> system_files() { return std::make_unique<SystemFiles>(); }

}  // namespace orrery
