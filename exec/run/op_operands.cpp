#include "exec/run/op_operands.hpp"

#include "exec/kernels/parameter_layout.hpp"

namespace orrery {
namespace {

Place place_of(const Program& program, const OpRun& run, const View& v, Rank rank) {
  const Buffer& buffer = program[v.buffer];
  Place place;
  place.first = offset_on(program.mesh, v, rank);
  if (buffer.shard) {
    place.shard = &*buffer.shard;
    place.box = box_of(*buffer.shard, program.mesh, rank, run.microbatch, program.microbatches);
  } else if (buffer.parameters) {
    place.table = &program.parameter_tables[*buffer.parameters];
    place.flat_split = buffer.flat_split;
    place.flat_first = place.first;
    place.layer = instance_of(program, v.buffer, v.layer_shift, run.layer, run.microbatch).layer;
    const ParameterSlice* slice =
        buffer.flat_split.empty() ? slice_at(*place.table, program.mesh, place.first) : nullptr;
    if (slice != nullptr) {
      place.shard = &slice->shard;
      place.box = box_of(slice->shard, program.mesh, rank);
      place.first -= slice->offset;
    }
  }
  return place;
}

}  // namespace

std::byte* address_of(const Program& program, const IssuedOp& issued, std::uint32_t i, Rank rank) {
  const View& v = view_of(issued.run, i);
  return issued.memory[i]->data() + offset_on(program.mesh, v, rank) * size_of(program[v.buffer].dtype);
}

void operands_of(const Program& program, const IssuedOp& issued, const Kernel& kernel, Rank rank,
                 std::vector<Operand>& operands) {
  const bool places = needs_place(kernel);
  operands.clear();
  for (std::uint32_t i = 0; i < issued.run.op->views.count; ++i) {
    const View& v = view_of(issued.run, i);
    Operand operand;
    operand.data = address_of(program, issued, i, rank);
    operand.dtype = program[v.buffer].dtype;
    operand.count = v.count;
    operand.accumulate = v.use == View::Use::accumulate;
    if (places) operand.place = place_of(program, issued.run, v, rank);
    operands.push_back(operand);
  }
}

}  // namespace orrery
