#include "tests/support/memory_disk.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery::test {

namespace fs = std::filesystem;

class MemoryOutput final : public OutputFile {
 public:
  MemoryOutput(MemoryDisk& disk, std::shared_ptr<MemoryDisk::Node> node) : disk_(disk), node_(std::move(node)) {}
  void append(std::span<const std::byte> bytes) override {
    const bool stops = disk_.stops(true);
    if (stops) bytes = bytes.first(bytes.size() / 2);
    node_->now.insert(node_->now.end(), bytes.begin(), bytes.end());
    if (stops) throw PowerCut{};
  }
  void sync() override {
    const bool stops = disk_.stops(false);
    const auto end = node_->now.begin() + static_cast<std::ptrdiff_t>(node_->now.size() / (stops ? 2 : 1));
    node_->kept.assign(node_->now.begin(), end);
    if (stops) throw PowerCut{};
  }

 private:
  MemoryDisk& disk_;
  std::shared_ptr<MemoryDisk::Node> node_;
};

namespace {

class MemoryInput final : public InputFile {
 public:
  explicit MemoryInput(std::shared_ptr<MemoryDisk::Node> node) : node_(std::move(node)) {}
  std::uint64_t size() const override { return node_->now.size(); }
  std::size_t read(std::uint64_t at, std::span<std::byte> to) override {
    if (at >= node_->now.size()) return 0;
    const std::size_t n = std::min<std::size_t>(to.size(), node_->now.size() - at);
    std::copy_n(node_->now.begin() + static_cast<std::ptrdiff_t>(at), n, to.begin());
    return n;
  }

 private:
  std::shared_ptr<MemoryDisk::Node> node_;
};

void start_again(MemoryDisk::Node& node, MemoryDisk::Survives survives) {
  if (survives == MemoryDisk::Survives::all) {
    // The contents of a page cache are finally written.
    node.kept = node.now;
    node.kept_names = node.names;
  } else {
    node.now = node.kept;
    if (survives == MemoryDisk::Survives::what_was_synced) node.names = node.kept_names;
    node.kept_names = node.names;
  }
  for (auto& [name, child] : node.names) start_again(*child, survives);
}

}  // namespace

bool MemoryDisk::stops(bool takes_room) {
  const std::uint64_t call = calls_++;
  if (!failure_ || call < fails_at_) return false;
  if (*failure_ == Failure::power) {
    if (call > fails_at_) throw PowerCut{};
    return true;
  }
  if (takes_room) throw Error("cannot write: No space left on device");
  return false;
}

void MemoryDisk::fail(Failure failure, std::uint64_t at) {
  failure_ = failure;
  fails_at_ = calls_ + at;
}

std::shared_ptr<MemoryDisk::Node> MemoryDisk::find(const fs::path& path) const {
  std::shared_ptr<Node> node = root_;
  for (const fs::path& name : path) {
    const auto found = node->names.find(name.string());
    if (found == node->names.end()) return nullptr;
    node = found->second;
  }
  return node;
}

void MemoryDisk::make_folder(const fs::path& path) {
  if (find(path)) return;
  if (path.has_parent_path()) make_folder(path.parent_path());
  const bool stop = stops(true);
  if (stop) throw PowerCut{};
  auto node = std::make_shared<Node>();
  node->folder = true;
  const auto around = find(path.parent_path());
  around->names[path.filename().string()] = around->kept_names[path.filename().string()] = node;
}

std::unique_ptr<OutputFile> MemoryDisk::create(const fs::path& path) {
  const auto folder = find(path.parent_path());
  if (!folder || folder->names.contains(path.filename().string())) throw Error("cannot make " + path.string());
  const bool stop = stops(true);
  auto node = std::make_shared<Node>();
  folder->names[path.filename().string()] = node;
  if (stop) throw PowerCut{};
  return std::make_unique<MemoryOutput>(*this, node);
}

std::unique_ptr<InputFile> MemoryDisk::open(const fs::path& path) {
  auto node = find(path);
  if (!node) return nullptr;
  return std::make_unique<MemoryInput>(std::move(node));
}

void MemoryDisk::rename(const fs::path& from, const fs::path& to) {
  const auto node = find(from);
  if (!node || find(to)) throw Error("cannot rename " + from.string());
  if (stops(false)) throw PowerCut{};
  find(from.parent_path())->names.erase(from.filename().string());
  find(to.parent_path())->names[to.filename().string()] = node;
}

void MemoryDisk::sync_folder(const fs::path& path) {
  if (stops(false)) throw PowerCut{};
  const auto folder = find(path);
  folder->kept_names = folder->names;
}

void MemoryDisk::remove(Node& node) {
  while (!node.names.empty()) {
    remove(*node.names.begin()->second);
    if (stops(false)) throw PowerCut{};
    node.names.erase(node.names.begin());
  }
}

void MemoryDisk::remove_folder(const fs::path& path) {
  const auto node = find(path);
  if (!node) return;
  remove(*node);
  if (stops(false)) throw PowerCut{};
  find(path.parent_path())->names.erase(path.filename().string());
}

std::vector<std::string> MemoryDisk::list(const fs::path& path) {
  std::vector<std::string> names;
  if (const auto node = find(path)) {
    for (const auto& [name, child] : node->names) names.push_back(name);
  }
  return names;
}

void MemoryDisk::restart(Survives survives) {
  failure_.reset();
  start_again(*root_, survives);
}

std::vector<std::byte>& MemoryDisk::bytes(const fs::path& path) { return find(path)->now; }

void MemoryDisk::lose(const fs::path& path) { find(path.parent_path())->names.erase(path.filename().string()); }

}  // namespace orrery::test
