#include "exec/checkpoint/memory_files.hpp"

#include <algorithm>
#include <map>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;
using Contents = std::shared_ptr<std::vector<std::byte>>;

class Output final : public OutputFile {
 public:
  explicit Output(Contents to) : to_(std::move(to)) {}
  void append(std::span<const std::byte> bytes) override { to_->insert(to_->end(), bytes.begin(), bytes.end()); }
  void sync() override {}

 private:
  Contents to_;
};

class Input final : public InputFile {
 public:
  explicit Input(Contents from) : from_(std::move(from)) {}
  std::uint64_t size() const override { return from_->size(); }
  std::size_t read(std::uint64_t at, std::span<std::byte> to) override {
    if (at >= from_->size()) return 0;
    const std::size_t n = std::min<std::size_t>(to.size(), from_->size() - at);
    std::copy_n(from_->begin() + static_cast<std::ptrdiff_t>(at), n, to.begin());
    return n;
  }

 private:
  Contents from_;
};

/// Whether `path` lies in `folder`, however deep.
bool is_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end() && path != folder;
}

/// Folders are what names of files say.
class MemoryFiles final : public FileSystem {
 public:
  void make_folder(const fs::path&) override {}
  std::unique_ptr<OutputFile> create(const fs::path& path) override {
    const auto [at, is_new] = files_.try_emplace(path, std::make_shared<std::vector<std::byte>>());
    if (!is_new) throw Error(path.string() + " exists");
    return std::make_unique<Output>(at->second);
  }
  std::unique_ptr<InputFile> open(const fs::path& path) override {
    const auto at = files_.find(path);
    return at == files_.end() ? nullptr : std::make_unique<Input>(at->second);
  }
  void rename(const fs::path& from, const fs::path& to) override {
    std::map<fs::path, Contents> renamed;
    for (auto& [path, contents] : files_) {
      renamed[path == from ? to : is_in(path, from) ? to / path.lexically_relative(from) : path] = std::move(contents);
    }
    files_ = std::move(renamed);
  }
  void sync_folder(const fs::path&) override {}
  void remove_folder(const fs::path& folder) override {
    std::erase_if(files_, [&](const auto& file) { return is_in(file.first, folder); });
  }
  std::vector<std::string> list(const fs::path& folder) override {
    std::vector<std::string> names;
    for (const auto& [path, contents] : files_) {
      if (is_in(path, folder)) names.push_back(path.lexically_relative(folder).begin()->string());
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

 private:
  std::map<fs::path, Contents> files_;
};

}  // namespace

std::unique_ptr<FileSystem> memory_files() { return std::make_unique<MemoryFiles>(); }

}  // namespace orrery
