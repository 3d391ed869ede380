#include "sim/memory/live_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/dtype.hpp"
#include "sim/memory/held_memory.hpp"

namespace orrery {
namespace {

/// Whole numbers as a text, with runs of neighbours folded: "0-3 5".
std::string ranges(const std::set<std::uint32_t>& numbers) {
  std::string out;
  for (auto i = numbers.begin(); i != numbers.end();) {
    const std::uint32_t first = *i;
    std::uint32_t last = first;
    while (++i != numbers.end() && *i == last + 1) last = *i;
    if (!out.empty()) out += " ";
    out += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return out;
}

std::string where(const Buffer& b, const std::set<std::uint32_t>& layers, const std::set<std::uint32_t>& microbatches) {
  std::string out;
  if (per_layer(b.scope)) out = fmt::format("{} {}", layers.size() > 1 ? "layers" : "layer", ranges(layers));
  if (per_microbatch(b.scope)) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", microbatches.size() > 1 ? "microbatches" : "microbatch",
                       ranges(microbatches));
  }
  return out;
}

std::string shape(const Program& program, const Buffer& b) {
  if (b.shard) {
    const Box box = box_of(*b.shard, program.mesh, Rank{0}, 0, program.microbatches);
    return fmt::format("[{}]", fmt::join(box.extent.begin(), box.extent.begin() + box.rank, ", "));
  }
  return fmt::format("[{}]", b.count);
}

/// All instances of one buffer, or of the training program's tensors of one name.
struct Held {
  std::set<std::uint32_t> layers, microbatches;
  std::uint64_t count = 0, bytes = 0;
};

PeakTensors peak_of(const HeldMemory& memory, std::uint32_t rank_class) {
  const Program& program = memory.program();
  const RankClass& ranks = program.classes[rank_class];
  PeakTensors out;
  out.stage = program.mesh.coordinate(representative(program, rank_class), Axis::pipeline);
  // The first walk finds the peak, the second sees what lives there.
  std::uint64_t live = 0, number = 0, at = 0;
  const auto walk = [&](auto&& visit) {
    std::vector<bool> kept;
    memory.process(visit);
    memory.walk(ranks.setup, kept, visit);
    // Shared tensors that stay are there from the first step on, so the second step holds most.
    memory.walk(ranks.step, kept, visit);
    memory.walk(ranks.step, kept, visit);
  };
  walk([&](bool alloc, std::uint64_t, std::uint64_t bytes) {
    ++number;
    live += alloc ? bytes : -bytes;
    if (live <= out.bytes) return;
    out.bytes = live;
    at = number;
  });
  std::map<TensorId, std::uint64_t> there;
  number = 0;
  walk([&](bool alloc, std::uint64_t name, std::uint64_t bytes) {
    if (++number > at) return;
    if (alloc) {
      there.emplace(memory.tensor_of(name), bytes);
    } else {
      there.erase(memory.tensor_of(name));
    }
  });
  std::map<std::uint32_t, Held> buffers;
  for (const auto& [id, bytes] : there) {
    if (id.own) {
      const HeldMemory::Own& own = memory.own()[*id.own];
      out.tensors.push_back({own.name, own.rows > 0 ? fmt::format("[{}, {}]", own.rows, own.columns) : "", "",
                             "framework", "", 1, bytes});
      continue;
    }
    Held& held = buffers[index(id.instance.buffer)];
    held.layers.insert(id.instance.layer);
    held.microbatches.insert(id.instance.microbatch);
    ++held.count;
    held.bytes += bytes;
  }
  std::vector<LiveTensor> of_program;
  for (const auto& [b, held] : buffers) {
    const Buffer& buffer = program.buffers[b];
    of_program.push_back({buffer.name, shape(program, buffer), std::string(name_of(buffer.dtype)),
                          std::string(name_of(buffer.role)), where(buffer, held.layers, held.microbatches), held.count,
                          held.bytes});
  }
  out.tensors.insert(out.tensors.begin(), of_program.begin(), of_program.end());
  std::stable_sort(out.tensors.begin(), out.tensors.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace

std::vector<PeakTensors> peak_tensors(const Program& program, const FrameworkMemory& framework) {
  const HeldMemory memory(program, framework);
  std::vector<PeakTensors> out;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) out.push_back(peak_of(memory, c));
  return out;
}

}  // namespace orrery
