#include "exec/run/rank_runner.hpp"

#include <chrono>
#include <cstring>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/parameter_layout.hpp"

namespace orrery {
namespace {

// Tags: a collective's is its group's number.
constexpr std::uint32_t exchange_tag = 0x80000000U;  // plus the channel
constexpr std::uint32_t barrier_tag = 0x7fffffffU;

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

RankRunner::RankRunner(const Program& program, const Workload& workload, const DataSource& data,
                       Communicator& communicator, Rank rank, bool poison)
    : program_(program),
      workload_(workload),
      data_(data),
      communicator_(communicator),
      rank_(rank),
      storage_(program, poison) {
  for (const Group& group : program.groups) {
    groups_.push_back({group_ranks(group, program.mesh, rank), peer_of(group, program.mesh, rank)});
  }
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) world_.push_back(Rank{r});
}

RankRunner::Times RankRunner::run(const OpRun& run, std::uint64_t step) {
  Times times;
  times.start = now_ns();
  if (const auto* c = std::get_if<Compute>(&run.op->action)) {
    compute(run, *c, step);
  } else if (const auto* collect = std::get_if<Collective>(&run.op->action)) {
    times.start = collective(run, *collect, times.start);
  } else if (const auto* meet = std::get_if<Exchange>(&run.op->action)) {
    times.start = exchange(run, *meet, times.start);
  } else if (std::holds_alternative<Copy>(run.op->action)) {
    copy(run);
  } else if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) {
    storage_.allocate(instance_of(program_, alloc->what, alloc->layer_shift, run.layer, run.microbatch));
    times.end = times.start;
    return times;
  } else if (const auto* free = std::get_if<Free>(&run.op->action)) {
    storage_.free(instance_of(program_, free->what, free->layer_shift, run.layer, run.microbatch));
    times.end = times.start;
    return times;
  }
  times.end = now_ns();
  return times;
}

void RankRunner::barrier() {
  const Members members{world_, index(rank_), barrier_tag};
  const Collective barrier{Collective::Kind::barrier, Collective::Reduction::sum, {}, {}};
  run_collective(communicator_, barrier, members, {}, collective_scratch_, 0);
}

std::byte* RankRunner::address(const OpRun& run, const View& v) const {
  const Instance instance = instance_of(program_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  return storage_.at(instance) + offset_on(program_.mesh, v, rank_) * size_of(program_[v.buffer].dtype);
}

Place RankRunner::place_of(const OpRun& run, const View& v) const {
  const Buffer& buffer = program_[v.buffer];
  Place place;
  place.first = offset_on(program_.mesh, v, rank_);
  if (buffer.shard) {
    place.shard = &*buffer.shard;
    place.box = box_of(*buffer.shard, program_.mesh, rank_, run.microbatch, program_.microbatches);
  } else if (buffer.parameters) {
    place.table = &program_.parameter_tables[*buffer.parameters];
    place.flat_split = buffer.flat_split;
    place.layer = instance_of(program_, v.buffer, v.layer_shift, run.layer, run.microbatch).layer;
    const ParameterSlice* slice =
        buffer.flat_split.empty() ? slice_at(*place.table, program_.mesh, place.first) : nullptr;
    if (slice != nullptr) {
      place.shard = &slice->shard;
      place.box = box_of(slice->shard, program_.mesh, rank_);
      place.first -= slice->offset;
    }
  }
  return place;
}

void RankRunner::compute(const OpRun& run, const Compute& c, std::uint64_t step) {
  const Kernel& kernel = run.block->kernels[c.kernel];
  const bool places = needs_place(kernel);
  operands_.clear();
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const View& v = view(run, i);
    Operand operand;
    operand.data = address(run, v);
    operand.dtype = program_[v.buffer].dtype;
    operand.count = v.count;
    operand.accumulate = v.use == View::Use::accumulate;
    if (places) operand.place = place_of(run, v);
    operands_.push_back(operand);
  }
  KernelContext context;
  context.step = step;
  context.layer = run.layer;
  context.microbatch = run.microbatch;
  context.rank = rank_;
  context.mesh = &program_.mesh;
  context.workload = &workload_;
  context.data = &data_;
  context.scratch = &kernel_scratch_;
  run_kernel(kernel, operands_, context);
}

std::int64_t RankRunner::collective(const OpRun& run, const Collective& c, std::int64_t ready) {
  const GroupHere& group = groups_[index(c.group)];
  ORRERY_ASSERT(group.peer.has_value(), rank_, c.group);
  memory_views_.clear();
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    const View& v = view(run, i);
    memory_views_.push_back({address(run, v), program_[v.buffer].dtype, v.count});
  }
  const Members members{group.ranks, index(*group.peer), index(c.group)};
  return run_collective(communicator_, c, members, memory_views_, collective_scratch_, ready);
}

std::int64_t RankRunner::exchange(const OpRun& run, const Exchange& e, std::int64_t ready) {
  pieces_.clear();
  for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
    const Transfer& t = run.block->transfers[e.transfers.first + i];
    const View& v = view(run, t.view);
    pieces_.push_back({address(run, v), v.count * size_of(program_[v.buffer].dtype)});
  }
  messages_.clear();
  for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
    const Transfer& t = run.block->transfers[e.transfers.first + i];
    messages_.push_back({t.send, groups_[index(t.group)].ranks[index(t.peer)], exchange_tag + t.channel,
                         std::span<const Piece>(&pieces_[i], 1)});
  }
  return communicator_.exchange(messages_, ready);
}

/// All tiers of this machine are its memory.
void RankRunner::copy(const OpRun& run) {
  for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
    const View& from = view(run, i);
    const View& to = view(run, i + 1);
    std::memcpy(address(run, to), address(run, from), from.count * size_of(program_[from.buffer].dtype));
  }
}

}  // namespace orrery
