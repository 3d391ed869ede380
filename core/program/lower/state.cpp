#include "core/program/lower/state.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {
namespace {

GroupId add_group(Program& program, Group group) {
  for (std::uint32_t i = 0; i < program.groups.size(); ++i) {
    if (program.groups[i] == group) return GroupId{i};
  }
  program.groups.push_back(std::move(group));
  return GroupId{static_cast<std::uint32_t>(program.groups.size() - 1)};
}

}  // namespace

State::State(const ModelSpec& m, const Workload& w, const Plan& p) : model(m), workload(w), plan(p) {
  tensor = plan.mesh.size(Axis::tensor);
  data = plan.mesh.size(Axis::data);
  pipeline = plan.mesh.size(Axis::pipeline);
  sequence_parallel = plan.sequence_parallel && tensor > 1;
  sequences = plan.microbatch_size;
  tokens = sequences * workload.sequence_length;
  rows = sequence_parallel ? tokens / tensor : tokens;
  heads = static_cast<std::uint32_t>(model.heads / tensor);
  kv_heads = static_cast<std::uint32_t>(model.kv_heads / tensor);
  context_width = heads * model.head_dim;
  qkv_width = context_width + 2 * kv_heads * model.head_dim;
  ffn = model.ffn / tensor;
  vocabulary = padded_vocabulary(plan, model) / tensor;
  shard_states = plan.zero_stage >= 1 && data > 1;
  reduce_gradients = data > 1 || sequence_parallel;
  clip = workload.clip_norm.has_value();
  scaled = workload.precision == Precision::fp16;
  factor = clip || scaled;
  act = weight_dtype(workload);
  grad = gradient_dtype(workload);
  state = state_dtype(workload);
  logits = state;

  program.buffers.reserve(64);
  program.mesh = plan.mesh;
  program.layers = static_cast<std::uint32_t>(model.layers);
  program.microbatches = static_cast<std::uint32_t>(microbatches(plan, workload));
  if (pipeline > 1) program.class_axes = {Axis::pipeline};
  tensor_group = add_group(program, {{Axis::tensor}, {}});
  data_group = add_group(program, {{Axis::data}, {}});
  pipeline_group = add_group(program, {{Axis::pipeline}, {}});
  // The norm is summed over ranks that hold different parts of the gradient.
  AxisList parts = {Axis::pipeline, Axis::tensor};
  if (shard_states) parts = {Axis::pipeline, Axis::data, Axis::tensor};
  norm_group = add_group(program, {parts, {}});
  if (model.tied_embeddings && pipeline > 1) tied_group = add_group(program, {{Axis::pipeline}, {0, pipeline - 1}});
}

BufferId State::declare(Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  return BufferId{static_cast<std::uint32_t>(program.buffers.size() - 1)};
}

BufferId State::activation(std::string name, Role role, Scope scope, DType dtype, ShardDim feature, bool sharded_rows) {
  ShardDim position{workload.sequence_length, workload.sequence_length, {}, false};
  if (sharded_rows) position.split = {Axis::tensor};
  const ShardDim sequence{workload.global_batch, workload.global_batch, {Axis::data}, true};
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.role = role;
  buffer.scope = scope;
  buffer.dtype = dtype;
  buffer.shard = Shard{position, sequence, feature};
  buffer.count = local_count(*buffer.shard, program.mesh, program.microbatches);
  return declare(std::move(buffer));
}

Kernel State::kernel(KernelKind kind, Pass pass, std::uint64_t r, std::uint64_t c, std::uint64_t depth) const {
  Kernel k;
  k.kind = kind;
  k.pass = pass;
  k.compute = act;
  k.rows = r;
  k.columns = c;
  k.depth = depth;
  return k;
}

State::Parameter State::parameter(const Module& module, std::string_view slice) const {
  for (const ParameterSlice& s : program.parameter_tables[module.table].slices) {
    if (s.name == slice) return {s.offset, local_count(s.shard, program.mesh)};
  }
  ORRERY_ASSERT(false, std::string(slice));
  return {};
}

HeadMatrix head_matrix(const State& c) {
  if (!c.model.tied_embeddings) return {&c.head, "output.weight"};
  if (c.pipeline > 1) return {&c.head, "embedding.word.weight"};
  return {&c.embedding, "word.weight"};
}

Operand own_part(const State& c, BufferId buffer, const ParameterSegment& s, View::Use use, std::int8_t layer_shift) {
  if (!c.shard_states) return {buffer, use, layer_shift, s.offset, s.count, {}};
  const std::uint64_t part = s.count / c.data;
  // States that are stored sharded hold only this rank's part of every segment.
  if (!c.program[buffer].flat_split.empty()) return {buffer, use, layer_shift, s.offset / c.data, part, {}};
  return {buffer, use, layer_shift, s.offset, part, {Axis::data}};
}

bool is_persistent(const Buffer& b) {
  return b.role == Role::weight || b.role == Role::gradient || b.role == Role::master || b.role == Role::moment ||
         b.role == Role::scalar;
}

}  // namespace orrery::lowering
