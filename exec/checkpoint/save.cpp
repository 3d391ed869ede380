#include "exec/checkpoint/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/program/moment_scales.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/checkpoint/rank_file.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view unfinished = ".partial";
constexpr std::string_view retired = ".removed";

fs::path partial(const fs::path& folder, const std::string& name) { return folder / (name + std::string(unfinished)); }

/// The scales of a part, two of which stand for each block.
std::vector<float> scales_of(const HeldPart& held, std::span<const std::byte> scales) {
  const ScaleRun& run = *held.scales;
  const std::uint64_t block = (held.first - run.first) / moment_block(held.part.dtype);
  std::vector<float> out(scale_count(held.part));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = run.first_scale + 2 * (block + i) + (run.second ? 1 : 0);
    std::copy_n(scales.begin() + static_cast<std::ptrdiff_t>(at * sizeof(float)), sizeof(float),
                reinterpret_cast<std::byte*>(&out[i]));
  }
  return out;
}

}  // namespace

std::string begin_checkpoint(FileSystem& files, const fs::path& folder, std::uint64_t step) {
  files.make_folder(folder);
  for (const std::string& name : files.list(folder)) {
    if (name.ends_with(unfinished) || name.ends_with(retired)) files.remove_folder(folder / name);
  }
  std::uint64_t number = 1;
  if (const auto names = generations(files, folder); !names.empty()) {
    std::from_chars(names.front().data(), names.front().data() + names.front().size(), number);
    ++number;
  }
  std::string name = fmt::format("{:04}-step-{}", number, step);
  files.make_folder(partial(folder, name));
  return name;
}

RankFileEntry write_rank_file(FileSystem& files, const fs::path& folder, const std::string& name, std::uint64_t step,
                              Rank rank, const std::vector<HeldPart>& held, const RunBuffers& buffers) {
  std::vector<StatePart> parts;
  for (const HeldPart& h : held) parts.push_back(h.part);
  RankFileWriter out(files.create(partial(folder, name) / rank_file_name(index(rank))), index(rank), step, parts);
  for (const HeldPart& h : held) {
    const std::span<const std::byte> bytes = buffers.find(rank, h.where);
    const std::uint64_t element = size_of(h.part.dtype);
    ORRERY_ASSERT((h.first + h.part.slice.count) * element <= bytes.size(), h.part.tensor, bytes.size());
    out.append(bytes.subspan(h.first * element, element_bytes(h.part)));
    if (!h.scales) continue;
    const std::vector<float> scales = scales_of(h, buffers.find(rank, h.scales->instance));
    out.append(std::as_bytes(std::span(scales)));
  }
  return out.finish();
}

void finish_checkpoint(FileSystem& files, const fs::path& folder, const std::string& name, const Manifest& manifest,
                       const std::vector<std::string>& keep) {
  const fs::path made = partial(folder, name);
  const std::string text = write_manifest(manifest);
  const auto file = files.create(made / manifest_name);
  file->append(std::as_bytes(std::span(text)));
  file->sync();
  files.sync_folder(made);
  files.rename(made, folder / name);
  files.sync_folder(folder);
  for (const std::string& old : generations(files, folder)) {
    if (old == name || std::find(keep.begin(), keep.end(), old) != keep.end()) continue;
    // A half-written folder must not be taken for a checkpoint.
    files.rename(folder / old, folder / (old + std::string(retired)));
    files.remove_folder(folder / (old + std::string(retired)));
  }
}

SavedCheckpoint save_checkpoint(FileSystem& files, const fs::path& folder, const Program& program,
                                const RunBuffers& buffers, Manifest manifest,
                                const std::optional<std::string>& previous) {
  SavedCheckpoint saved;
  saved.step = manifest.step;
  try {
    saved.name = begin_checkpoint(files, folder, manifest.step);
    const auto parts = written_parts(program);
    manifest.ranks.clear();
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      manifest.ranks.push_back(write_rank_file(files, folder, saved.name, saved.step, Rank{r}, parts[r], buffers));
      saved.bytes += manifest.ranks.back().bytes;
    }
    finish_checkpoint(files, folder, saved.name, manifest,
                      previous ? std::vector<std::string>{*previous} : std::vector<std::string>{});
  } catch (const Error& e) {
    std::string text = fmt::format("no checkpoint of step {}: {}", saved.step, e.what());
    if (previous) text += fmt::format("; {} is kept", (folder / *previous).string());
    try {
      if (!saved.name.empty()) files.remove_folder(partial(folder, saved.name));
    } catch (const Error&) {
      // The next checkpoint removes it.
    }
    throw Error(text);
  }
  return saved;
}

}  // namespace orrery
