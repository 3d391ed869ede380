#include "exec/run/gather.hpp"

#include <bit>
#include <cstring>
#include <functional>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "core/program/flat_parts.hpp"
#include "core/program/moment_scales.hpp"
#include "exec/kernels/convert.hpp"
#include "exec/kernels/dynamic_map.hpp"
#include "exec/kernels/parameter_layout.hpp"

namespace orrery {
namespace {

/// Elements [first, first + count) of one instance, which are elements of one tensor on the rank.
struct Part {
  std::string name;
  const Shard* shard = nullptr;
  Box box;
  std::uint64_t box_first = 0;
  std::span<std::byte> bytes;  ///< of the whole instance
  DType dtype = DType::f32;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t first_scale = 0;  ///< number of the first scale of the segment that holds element `first`, and that
                                  ///< begins at element `segment`
  std::uint64_t segment = 0;
  std::span<std::byte> scales;  ///< of moments with scales; else empty
  bool second = false;          ///< the second moment
};

/// Multiplies the stored values of a part by its scales.
void apply_scales(const Part& part, std::vector<double>& values) {
  for (std::uint64_t i = 0; i < part.count && !part.scales.empty(); ++i) {
    const std::uint64_t block = (part.first + i - part.segment) / moment_block(part.dtype);
    double scale = 0.0;
    load_elements(DType::f32, part.scales.data(), part.first_scale + 2 * block + (part.second ? 1 : 0), 1, &scale);
    values[i] = moment_of_stored(part.dtype, part.second, values[i]) * scale;
  }
}

/// The buffer "MODULE.scales" beside "MODULE.moment1", in the same tier.
std::optional<BufferId> scales_beside(const Program& program, const Buffer& moments, std::string_view what) {
  std::string name = moments.name;
  if (what != "moment1" && what != "moment2") return std::nullopt;
  name.replace(name.rfind(what), what.size(), "scales");
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].name == name) return BufferId{b};
  }
  return std::nullopt;
}

/// The axes along which every rank owns only its part of this buffer: those of the reduce-scatters that write into it.
AxisList owned_split(const Program& program, BufferId buffer) {
  AxisList axes;
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      const auto* collective = std::get_if<Collective>(&op.action);
      if (collective == nullptr || collective->kind != Collective::Kind::reduce_scatter) continue;
      for (std::uint32_t i = 1; i < op.views.count; i += 2) {
        const View& v = block.views[op.views.first + i];
        if (v.buffer == buffer && v.member_of.count > axes.count) axes = v.member_of;
      }
    }
  }
  return axes;
}

/// The part in which element `at` of a split buffer lies.
const FlatPart& part_at(const std::vector<FlatPart>& parts, std::uint64_t at) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const FlatPart& p) { return at < p.first + p.count; });
  ORRERY_ASSERT(found != parts.end(), at);
  return *found;
}

/// Calls `visit(rank, Part)` for everything that any rank holds (or owns) of
/// the buffers named "MODULE.what".
void for_each_part(const Program& program, const RunBuffers& buffers, std::string_view what, bool owned_only,
                   const std::function<void(Rank, const Part&)>& visit) {
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (!buffer.parameters) continue;
    const ParameterTable& table = program.parameter_tables[*buffer.parameters];
    // Only host or disk hold offloaded masters and moments; the weights there are a second copy.
    const std::string name = table.module + "." + std::string(what);
    if (buffer.name != name && buffer.name != name + ".host" && buffer.name != name + ".disk") continue;
    const AxisList owned = owned_only ? owned_split(program, BufferId{b}) : AxisList{};
    const AxisList& split = owned.empty() ? buffer.flat_split : owned;
    const std::optional<BufferId> scales = scales_beside(program, buffer, what);
    const std::vector<FlatPart> parts = flat_parts(table, program.mesh, split);
    const std::uint32_t layers = per_layer(buffer.scope) ? program.layers : 1;
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      const Rank rank{r};
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const std::span<std::byte> bytes = buffers.find(rank, {BufferId{b}, layer, 0});
        if (bytes.empty()) continue;
        for_each_run(table, program.mesh, rank, split, [&](const ParameterRun& run) {
          Part part;
          part.name = parameter_name(table, *run.slice, layer);
          part.shard = &run.slice->shard;
          part.box = box_of(run.slice->shard, program.mesh, rank);
          part.box_first = run.slice_first;
          part.bytes = bytes;
          part.dtype = buffer.dtype;
          const FlatPart& of = part_at(parts, run.buffer_first);
          part.first = run.buffer_first;
          if (!owned.empty()) {  // stored whole
            part.first += of.segment->offset + coordinate(program.mesh, rank, of.axes) * of.count - of.first;
          }
          part.count = run.count;
          part.second = what == "moment2";
          if (scales) part.scales = buffers.find(rank, {*scales, layer, 0});
          for (const FlatPart& p : parts) {
            if (part.first < part.segment + p.count) break;
            part.segment += p.count;
            part.first_scale += moment_scales(p.count, moment_block(part.dtype));
          }
          visit(rank, part);
        });
      }
    }
  }
}

std::vector<std::uint64_t> valid_shape(const Shard& shard) {
  std::vector<std::uint64_t> shape;
  for (std::size_t i = 0; i < shard.rank; ++i) shape.push_back(shard.dims[i].valid);
  return shape;
}

std::uint64_t product(const std::vector<std::uint64_t>& shape) {
  std::uint64_t n = 1;
  for (const std::uint64_t extent : shape) n *= extent;
  return n;
}

}  // namespace

GlobalTensors gather(const Program& program, const RunBuffers& buffers, std::string_view what) {
  constexpr std::uint32_t nobody = ~std::uint32_t{0};
  GlobalTensors tensors;
  std::map<std::string, std::vector<std::uint32_t>> holders;  // rank that gave each element
  std::vector<double> values;
  for_each_part(program, buffers, what, true, [&](Rank rank, const Part& part) {
    GlobalTensor& tensor = tensors[part.name];
    std::vector<std::uint32_t>& holder = holders[part.name];
    if (holder.empty()) {
      tensor.shape = valid_shape(*part.shard);
      tensor.values.resize(product(tensor.shape));
      holder.assign(tensor.values.size(), nobody);
    }
    values.resize(part.count);
    load_elements(part.dtype, part.bytes.data(), part.first, part.count, values.data());
    apply_scales(part, values);
    for (std::uint64_t i = 0; i < part.count; ++i) {
      const std::uint64_t at = valid_index(*part.shard, part.box, part.box_first + i);
      if (at == outside) continue;
      if (holder[at] == nobody) {
        holder[at] = index(rank);
        tensor.values[at] = values[i];
      } else if (std::bit_cast<std::uint64_t>(tensor.values[at]) != std::bit_cast<std::uint64_t>(values[i])) {
        throw Error(part.name + "." + std::string(what) + " element " + std::to_string(at) + " is " +
                    std::to_string(tensor.values[at]) + " on rank " + std::to_string(holder[at]) + " but " +
                    std::to_string(values[i]) + " on rank " + std::to_string(index(rank)));
      }
    }
  });
  for (const auto& [name, holder] : holders) {
    for (std::size_t at = 0; at < holder.size(); ++at) {
      if (holder[at] == nobody) {
        throw Error(name + "." + std::string(what) + " element " + std::to_string(at) + " is on no rank");
      }
    }
  }
  return tensors;
}

void scatter(const Program& program, const RunBuffers& buffers, std::string_view what, const GlobalTensors& tensors) {
  std::vector<double> values;
  for_each_part(program, buffers, what, false, [&](Rank, const Part& part) {
    ORRERY_ASSERT(part.scales.empty(), part.name);
    const auto found = tensors.find(part.name);
    ORRERY_ASSERT(found != tensors.end(), part.name);
    ORRERY_ASSERT(found->second.values.size() == product(valid_shape(*part.shard)), part.name);
    values.resize(part.count);
    for (std::uint64_t i = 0; i < part.count; ++i) {
      const std::uint64_t at = valid_index(*part.shard, part.box, part.box_first + i);
      values[i] = at == outside ? 0.0 : found->second.values[at];
    }
    store_elements(part.dtype, part.bytes.data(), part.first, part.count, values.data());
  });
}

}  // namespace orrery
