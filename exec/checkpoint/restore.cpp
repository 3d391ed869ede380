#include "exec/checkpoint/restore.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <tuple>

#include "core/program/moment_scales.hpp"
#include "exec/kernels/convert.hpp"
#include "exec/kernels/dynamic_map.hpp"

namespace orrery {
namespace {

struct Target {
  Rank rank;
  HeldPart held;
};

/// One whole tensor of the state, as it was stored.
struct WholeTensor {
  std::vector<std::byte> elements;
  std::vector<float> scales;  ///< of each element, where there are some
};

WholeTensor whole_tensor(Checkpoint& checkpoint, const StatePart& like) {
  const std::string name = like.what + " of " + like.tensor;
  const auto found = checkpoint.places.find({like.what, like.tensor});
  if (found == checkpoint.places.end()) {
    throw Error(fmt::format("{} has no {}", checkpoint.folder.string(), name));
  }
  const std::uint64_t element = size_of(like.dtype), count = element_count(like.slice);
  WholeTensor whole;
  whole.elements.resize(count * element);
  if (like.scale_phase) whole.scales.resize(count);
  std::vector<bool> there(count);
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  for (const Checkpoint::Place& place : found->second) {
    RankFileReader& file = checkpoint.files[place.file];
    const StatePart& part = file.parts()[place.part];
    if (!of_one_tensor(part.slice, like.slice) || part.dtype != like.dtype ||
        part.scale_phase.has_value() != like.scale_phase.has_value()) {
      throw Error(fmt::format("{} has {} as {} [{}], but the plan has it as {} [{}]", checkpoint.folder.string(), name,
                              name_of(part.dtype), fmt::join(part.slice.shape, ", "), name_of(like.dtype),
                              fmt::join(like.slice.shape, ", ")));
    }
    bytes.resize(element_bytes(part));
    file.read(place.part, 0, bytes);
    scales.resize(scale_count(part));
    file.read(place.part, bytes.size(), std::as_writable_bytes(std::span(scales)));
    for_each_stretch(part.slice, [&](std::uint64_t global, std::uint64_t local, std::uint64_t n) {
      std::memcpy(whole.elements.data() + global * element, bytes.data() + local * element, n * element);
      for (std::uint64_t i = 0; i < n; ++i) {
        there[global + i] = true;
        if (part.scale_phase)
          whole.scales[global + i] = scales[(*part.scale_phase + local + i) / moment_block(part.dtype)];
      }
    });
  }
  if (const auto hole = std::find(there.begin(), there.end(), false); hole != there.end()) {
    throw Error(fmt::format("{} lacks element {} of {}", checkpoint.folder.string(), hole - there.begin(), name));
  }
  return whole;
}

/// Moments that are rounded together, and the scales with which their elements were saved.
struct ScaledRun {
  ScaleRun run;
  DType dtype = DType::f32;
  std::vector<float> scales;  ///< by element of the run; below 0: padding
};
using ScaledRuns = std::map<std::tuple<Rank, Instance, std::uint64_t>, ScaledRun>;

/// Gives every block of a run its scale, and rounds its elements once more where they had several.
void set_scales(const ScaledRun& run, std::span<std::byte> elements, std::span<std::byte> scales) {
  const std::uint64_t block = moment_block(run.dtype);
  for (std::uint64_t first = 0; first < run.run.count; first += block) {
    const std::uint64_t end = std::min(run.run.count, first + block);
    float scale = -1.0F;
    bool alike = true;
    for (std::uint64_t i = first; i < end; ++i) {
      const float own = run.scales[i];
      if (own < 0.0F) continue;
      alike = alike && (scale < 0.0F || own == scale);
      scale = own;
    }
    if (!alike) {
      std::array<double, longest_moment_block> values{};
      double most = 0.0;
      load_elements(run.dtype, elements.data(), run.run.first + first, end - first, values.data());
      for (std::uint64_t i = first; i < end; ++i) {
        double& x = values[i - first];
        x = moment_of_stored(run.dtype, run.run.second, x);
        x *= run.scales[i] < 0.0F ? 0.0 : static_cast<double>(run.scales[i]);
        most = std::max(most, std::abs(x));
      }
      scale = static_cast<float>(most / largest_of(run.dtype));
      for (double& x : values) {
        x = scale > 0.0F ? stored_of_moment(run.dtype, run.run.second, x / static_cast<double>(scale)) : 0.0;
      }
      store_elements(run.dtype, elements.data(), run.run.first + first, end - first, values.data());
    }
    scale = std::max(scale, 0.0F);
    const std::uint64_t at = run.run.first_scale + 2 * (first / block) + (run.run.second ? 1 : 0);
    std::memcpy(scales.data() + at * sizeof(float), &scale, sizeof(float));
  }
}

void write_part(const WholeTensor& whole, const Target& target, std::span<std::byte> to, ScaledRuns& scaled) {
  const HeldPart& held = target.held;
  const std::uint64_t element = size_of(held.part.dtype);
  ORRERY_ASSERT((held.first + held.part.slice.count) * element <= to.size(), held.part.tensor, to.size());
  ScaledRun* run = nullptr;
  if (held.scales) {
    run = &scaled[{target.rank, held.where, held.scales->first}];
    run->run = *held.scales;
    run->dtype = held.part.dtype;
    run->scales.resize(held.scales->count, -1.0F);
  }
  for_each_stretch(held.part.slice, [&](std::uint64_t global, std::uint64_t local, std::uint64_t n) {
    std::memcpy(to.data() + (held.first + local) * element, whole.elements.data() + global * element, n * element);
    if (run == nullptr) return;
    std::copy_n(whole.scales.begin() + static_cast<std::ptrdiff_t>(global), n,
                run->scales.begin() + static_cast<std::ptrdiff_t>(held.first + local - held.scales->first));
  });
}

}  // namespace

void restore(Checkpoint& checkpoint, const Program& program, const std::vector<Rank>& ranks,
             const RunBuffers& buffers) {
  std::map<std::pair<std::string, std::string>, std::vector<Target>> targets;
  for (const Rank rank : ranks) {
    for (HeldPart& held : held_parts(program, rank)) {
      targets[{held.part.what, held.part.tensor}].push_back({rank, std::move(held)});
    }
  }
  ScaledRuns scaled;
  for (const auto& [name, list] : targets) {
    const WholeTensor whole = whole_tensor(checkpoint, list.front().held.part);
    for (const Target& t : list) write_part(whole, t, buffers.find(t.rank, t.held.where), scaled);
  }
  for (const auto& [key, run] : scaled) {
    const auto& [rank, where, first] = key;
    set_scales(run, buffers.find(rank, where), buffers.find(rank, run.run.instance));
  }
}

StateMemory::StateMemory(const Program& program, const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) {
    for (const HeldPart& held : held_parts(program, rank)) {
      memory_[{rank, held.where}].resize(size_of(program[held.where.buffer]));
      if (held.scales) memory_[{rank, held.scales->instance}].resize(size_of(program[held.scales->instance.buffer]));
    }
  }
}

std::span<std::byte> StateMemory::find(Rank rank, const Instance& instance) const {
  const auto found = memory_.find({rank, instance});
  return found == memory_.end() ? std::span<std::byte>() : std::span<std::byte>(found->second);
}

}  // namespace orrery
