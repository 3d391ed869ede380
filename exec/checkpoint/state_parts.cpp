#include "exec/checkpoint/state_parts.hpp"

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/program/factored.hpp"
#include "core/program/flat_parts.hpp"
#include "core/program/moment_scales.hpp"
#include "exec/kernels/parameter_layout.hpp"

namespace orrery {
namespace {

/// The instances that live on the rank between two steps.
std::set<Instance> live_instances(const Program& program, Rank rank) {
  std::set<Instance> live;
  for_each_op(program, program.classes[class_of(program, rank)].setup, [&](const OpRun& run) {
    if (const auto* a = std::get_if<Alloc>(&run.op->action)) {
      live.insert(instance_of(program, a->what, a->layer_shift, run.layer, run.microbatch));
    } else if (const auto* f = std::get_if<Free>(&run.op->action)) {
      live.erase(instance_of(program, f->what, f->layer_shift, run.layer, run.microbatch));
    }
  });
  return live;
}

std::optional<BufferId> buffer_named(const Program& program, const std::string& name) {
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].name == name) return BufferId{b};
  }
  return std::nullopt;
}

/// A buffer of a module's states.
struct StateBuffer {
  const ParameterTable* table = nullptr;
  std::string what;   ///< "moment1"
  std::string place;  ///< ".host", ".disk" or nothing
};

/// MODULE.WHAT, MODULE.WHAT.host or MODULE.WHAT.disk.
std::optional<StateBuffer> state_buffer(const Program& program, const Buffer& buffer) {
  for (const ParameterTable& table : program.parameter_tables) {
    for (const char* what : {"weights", "masters", "moment1", "moment2", "moments"}) {
      for (const char* place : {"", ".host", ".disk"}) {
        if (buffer.name == table.module + "." + what + place) return StateBuffer{&table, what, place};
      }
    }
  }
  return std::nullopt;
}

bool is_tied_copy(const ParameterTable& table, const ParameterSlice& slice) {
  return table.module != "embedding" && slice.name.starts_with("embedding.");
}

/// All parts of one rank.
class Parts {
 public:
  Parts(const Program& program, Rank rank) : program_(program), rank_(rank), live_(live_instances(program, rank)) {
    for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      const auto state = state_buffer(program, buffer);
      // Data that passes through host memory on its way to the disk is no state there.
      if (state && buffer.role != Role::workspace) {
        const std::uint32_t layers = per_layer(buffer.scope) ? program.layers : 1;
        for (std::uint32_t layer = 0; layer < layers; ++layer) {
          const Instance where{BufferId{b}, layer, 0};
          if (!live_.contains(where)) continue;
          state->what == "moments" ? statistics(*state, where) : parameters(*state, where);
        }
      } else if (buffer.name == "steps" || buffer.name == "loss_scale") {
        scalar({BufferId{b}, 0, 0});
      }
    }
  }

  std::vector<HeldPart> out;

 private:
  void parameters(const StateBuffer& state, const Instance& where) {
    const Buffer& buffer = program_[where.buffer];
    const ParameterTable& table = *state.table;
    const auto scales = state.what.starts_with("moment")
                            ? buffer_named(program_, table.module + ".scales" + state.place)
                            : std::nullopt;
    const bool below = !state.place.empty() && state.what == "weights" && device_has(table, where.layer);
    const std::vector<FlatPart> parts = flat_parts(table, program_.mesh, buffer.flat_split);
    for_each_run(table, program_.mesh, rank_, buffer.flat_split, [&](const ParameterRun& run) {
      HeldPart held;
      held.part.what = state.what;
      held.part.tensor = parameter_name(table, *run.slice, where.layer);
      held.part.slice =
          slice_of(run.slice->shard, box_of(run.slice->shard, program_.mesh, rank_), run.slice_first, run.count);
      held.part.dtype = buffer.dtype;
      held.where = where;
      held.first = run.buffer_first;
      held.copy = below || is_tied_copy(table, *run.slice);
      std::uint64_t first_scale = 0;
      for (const FlatPart& p : parts) {
        if (scales && p.first <= held.first && held.first < p.first + p.count) {
          held.scales = ScaleRun{{*scales, where.layer, 0}, first_scale, p.first, p.count, state.what == "moment2"};
          held.part.scale_phase = static_cast<std::uint32_t>((held.first - p.first) % moment_block(buffer.dtype));
        }
        first_scale += moment_scales(p.count, moment_block(buffer.dtype));
      }
      out.push_back(std::move(held));
    });
  }

  /// Every rank that has a part of a matrix has all statistics of the matrix.
  void statistics(const StateBuffer& state, const Instance& where) {
    const ParameterTable& table = *state.table;
    std::uint64_t first = 0;
    for (const ParameterSegment& segment : table.segments) {
      const FactoredSegment factors = factored(table, segment, program_.mesh);
      for (const FactoredTensor& t : factors.tensors) {
        const Shard& shard = t.slice->shard;
        const Box box = box_of(shard, program_.mesh, rank_);
        HeldPart held;
        held.part.what = "factored";
        held.part.tensor = parameter_name(table, *t.slice, where.layer);
        Slice& s = held.part.slice;
        s.shape = {factors.experts ? shard.dims[0].valid : 1, t.each()};
        s.offset = {factors.experts ? box.offset[0] : 0, 0};
        s.extent = {t.matrices, t.each()};
        s.count = t.matrices * t.each();
        held.part.dtype = program_[where.buffer].dtype;
        held.where = where;
        held.first = first + t.first;
        held.copy = is_tied_copy(table, *t.slice);
        out.push_back(std::move(held));
      }
      first += factors.count;
    }
  }

  void scalar(const Instance& where) {
    const Buffer& buffer = program_[where.buffer];
    HeldPart held;
    held.part.what = "scalar";
    held.part.tensor = buffer.name;
    held.part.slice = {{buffer.count}, {0}, {buffer.count}, 0, buffer.count};
    held.part.dtype = buffer.dtype;
    held.where = where;
    out.push_back(std::move(held));
  }

  bool device_has(const ParameterTable& table, std::uint32_t layer) const {
    const auto weights = buffer_named(program_, table.module + ".weights");
    return weights && live_.contains({*weights, layer, 0});
  }

  const Program& program_;
  Rank rank_;
  std::set<Instance> live_;
};

}  // namespace

std::vector<HeldPart> held_parts(const Program& program, Rank rank) { return Parts(program, rank).out; }

std::vector<std::vector<HeldPart>> written_parts(const Program& program) {
  using Key = std::tuple<std::string, std::string, Slice>;
  struct Holder {
    std::uint32_t rank;
    HeldPart held;
  };
  std::map<Key, std::vector<Holder>> holders;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    for (HeldPart& held : held_parts(program, Rank{r})) {
      if (held.copy) continue;
      auto& list = holders[{held.part.what, held.part.tensor, held.part.slice}];
      // A rank of two pipes may hold it in only one of them; no rank holds it twice.
      list.push_back({r, std::move(held)});
    }
  }
  std::vector<std::vector<HeldPart>> written(program.mesh.size());
  std::size_t turn = 0;
  for (auto& [key, list] : holders) {
    Holder& writer = list[turn++ % list.size()];
    written[writer.rank].push_back(std::move(writer.held));
  }
  return written;
}

}  // namespace orrery
