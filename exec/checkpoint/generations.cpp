#include "exec/checkpoint/generations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace orrery {
namespace {

namespace fs = std::filesystem;

/// The number 12 for "0012-step-34"; empty for any other name.
std::optional<std::uint64_t> generation_of(const std::string& name) {
  std::uint64_t number = 0, step = 0;
  const char* end = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end, number);
  constexpr std::string_view between = "-step-";
  if (first.ec != std::errc() || !std::string_view(first.ptr, end).starts_with(between)) return std::nullopt;
  const auto second = std::from_chars(first.ptr + between.size(), end, step);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  return number;
}

/// Most bytes of a manifest with this many rank files: three texts, and for each rank an entry and its place in the
/// plan.
constexpr std::uint64_t most_manifest_bytes(std::uint64_t rank_files) {
  return (std::uint64_t{4} << 20) + 160 * rank_files;
}

/// Reads no more than a manifest can have, so that a file that somebody has made long costs no time.
std::string read_manifest_text(FileSystem& files, const fs::path& path, std::uint64_t rank_files) {
  const auto file = files.open(path);
  if (!file) throw Damaged(path.string() + " is missing");
  if (const std::uint64_t most = most_manifest_bytes(rank_files); file->size() > most) {
    throw Damaged(fmt::format("{} is damaged: it has {} bytes, but a manifest beside {} rank files has at most {}",
                              path.string(), file->size(), rank_files, most));
  }
  std::string text(file->size(), '\0');
  text.resize(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

std::vector<std::string> generations(FileSystem& files, const fs::path& folder) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (const std::string& name : files.list(folder)) {
    if (const auto number = generation_of(name)) found.emplace_back(*number, name);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

std::string rank_file_name(std::uint32_t rank) { return fmt::format("rank-{:05}.bin", rank); }

Checkpoint open_checkpoint(FileSystem& files, const fs::path& folder, const std::string& name) {
  Checkpoint c;
  c.name = name;
  c.folder = folder / name;
  const fs::path path = c.folder / manifest_name;
  const std::vector<std::string> names = files.list(c.folder);
  const auto rank_files = static_cast<std::uint64_t>(
      std::count_if(names.begin(), names.end(), [](const std::string& n) { return n.starts_with("rank-"); }));
  Diagnostics d;
  auto manifest = read_manifest(read_manifest_text(files, path, rank_files), path.string(), d);
  if (!manifest) {
    const Diagnostic& first = d.list().front();
    std::string text = first.message;
    for (const std::string& line : first.details) text += ". " + line;
    if (first.code == "checkpoint.damaged") throw Damaged(fmt::format("{} is damaged: {}", path.string(), text));
    throw Error(fmt::format("{} cannot be used: {}", path.string(), text));
  }
  c.manifest = *std::move(manifest);
  for (std::uint32_t r = 0; r < c.manifest.ranks.size(); ++r) {
    const fs::path at = c.folder / rank_file_name(r);
    auto file = files.open(at);
    if (!file) {
      throw Damaged(fmt::format("{} is missing; the manifest names {} rank files, the last {}", at.string(),
                                c.manifest.ranks.size(),
                                rank_file_name(static_cast<std::uint32_t>(c.manifest.ranks.size() - 1))));
    }
    RankFileReader& reader = c.files.emplace_back(std::move(file), at, r, c.manifest.step, c.manifest.ranks[r]);
    reader.verify();
    for (std::size_t p = 0; p < reader.parts().size(); ++p) {
      c.places[{reader.parts()[p].what, reader.parts()[p].tensor}].push_back({r, p});
    }
  }
  return c;
}

NewestWhole newest_whole(FileSystem& files, const fs::path& folder) {
  NewestWhole found;
  for (const std::string& name : generations(files, folder)) {
    try {
      found.checkpoint = open_checkpoint(files, folder, name);
      break;
    } catch (const Damaged& damage) {
      found.damaged.emplace_back(damage.what());
    }
  }
  return found;
}

}  // namespace orrery
