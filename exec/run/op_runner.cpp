#include "exec/run/op_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/convert.hpp"
#include "exec/run/op_operands.hpp"

namespace orrery {
namespace {

/// Sum of the squares of a view's elements.
double square_of(const MemoryView& view) {
  constexpr std::uint64_t at_once = 1024;
  double values[at_once], sum = 0.0;
  for (std::uint64_t first = 0; first < view.count; first += at_once) {
    const std::uint64_t count = std::min(at_once, view.count - first);
    load_elements(view.dtype, view.data, first, count, values);
    for (std::uint64_t i = 0; i < count; ++i) sum += values[i] * values[i];
  }
  return sum;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

OpRunner::OpRunner(const Program& program, const Workload& workload, const DataSource& data,
                   const std::vector<GroupHere>& groups, Communicator& communicator, Rank rank,
                   std::int64_t clock_offset)
    : program_(program),
      workload_(workload),
      data_(data),
      groups_(groups),
      communicator_(communicator),
      rank_(rank),
      clock_offset_(clock_offset) {}

OpTimes OpRunner::run(const IssuedOp& issued) {
  const Op& op = *issued.run.op;
  OpTimes times;
  times.start = now_ns() + clock_offset_;
  if (const auto* c = std::get_if<Compute>(&op.action)) {
    compute(issued, *c);
  } else if (const auto* collect = std::get_if<Collective>(&op.action)) {
    times.start = collective(issued, *collect, times.start);
  } else if (const auto* meet = std::get_if<Exchange>(&op.action)) {
    times.start = exchange(issued, *meet, times.start);
  } else if (std::holds_alternative<Copy>(op.action)) {
    copy(issued);
  } else {  // an Alloc or Free, which took effect when it was issued
    times.end = times.start;
    return times;
  }
  times.end = now_ns() + clock_offset_;
  return times;
}

void wait_for_all(Communicator& communicator, const Mesh& mesh) {
  std::vector<Rank> world;
  for (std::uint32_t r = 0; r < mesh.size(); ++r) world.push_back(Rank{r});
  const Members members{world, index(communicator.rank()), barrier_tag};
  const Collective barrier{Collective::Kind::barrier, Collective::Reduction::sum, {}, {}};
  CollectiveScratch none;
  run_collective(communicator, barrier, members, {}, none, 0);
}

void OpRunner::compute(const IssuedOp& issued, const Compute& c) {
  const OpRun& run = issued.run;
  const Kernel& kernel = run.block->kernels[c.kernel];
  operands_of(program_, issued, kernel, rank_, operands_);
  KernelContext context;
  context.step = issued.step;
  context.layer = run.layer;
  context.microbatch = run.microbatch;
  context.rank = rank_;
  context.mesh = &program_.mesh;
  context.workload = &workload_;
  context.data = &data_;
  context.scratch = &kernel_scratch_;
  context.rotations = program_.rotations;
  context.routing = &routing_;
  run_kernel(kernel, operands_, context);
}

std::int64_t OpRunner::collective(const IssuedOp& issued, const Collective& c, std::int64_t ready) {
  const GroupHere& group = groups_[index(c.group)];
  ORRERY_ASSERT(group.peer.has_value(), rank_, c.group);
  memory_views_.clear();
  for (std::uint32_t i = 0; i < issued.run.op->views.count; ++i) {
    const View& v = view_of(issued.run, i);
    memory_views_.push_back({address_of(program_, issued, i, rank_), program_[v.buffer].dtype, v.count, v.use});
  }
  const Members members{group.ranks, index(*group.peer), issued.tags[0]};
  if (squares_ == nullptr || !sums_gradients(issued, c)) return move(c, members, ready);
  // A reduce-scatter has pairs of source and result; an all-reduce has sums in place.
  const std::size_t stride = c.kind == Collective::Kind::reduce_scatter ? 2 : 1;
  for (std::size_t i = 0; i < memory_views_.size(); i += stride) squares_->apart += square_of(memory_views_[i]);
  const std::int64_t done = move(c, members, ready);
  const double holders = stride == 2 ? 1.0 : members.size();
  for (std::size_t i = stride - 1; i < memory_views_.size(); i += stride) {
    squares_->summed += square_of(memory_views_[i]) / holders;
  }
  return done;
}

std::int64_t OpRunner::move(const Collective& c, const Members& members, std::int64_t ready) {
  if (const auto done = communicator_.library_collective(c, members, memory_views_, ready)) return *done;
  return run_collective(communicator_, c, members, memory_views_, collective_scratch_, ready);
}

bool OpRunner::sums_gradients(const IssuedOp& issued, const Collective& c) const {
  if (c.kind != Collective::Kind::reduce_scatter && c.kind != Collective::Kind::all_reduce) return false;
  return program_[c.group].axes == AxisList{Axis::data} && issued.run.op->views.count > 0 &&
         program_[view_of(issued.run, 0).buffer].role == Role::gradient;
}

std::int64_t OpRunner::exchange(const IssuedOp& issued, const Exchange& e, std::int64_t ready) {
  const OpRun& run = issued.run;
  pieces_.clear();
  for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
    const Transfer& t = run.block->transfers[e.transfers.first + i];
    const View& v = view_of(run, t.view);
    pieces_.push_back({address_of(program_, issued, t.view, rank_), v.count * size_of(program_[v.buffer].dtype)});
  }
  messages_.clear();
  for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
    const Transfer& t = run.block->transfers[e.transfers.first + i];
    messages_.push_back(
        {t.send, groups_[index(t.group)].ranks[index(t.peer)], issued.tags[i], std::span<const Piece>(&pieces_[i], 1)});
  }
  return communicator_.exchange(messages_, ready);
}

/// Host and device memory are parts of this machine's memory; the disk is a file that is mapped there.
void OpRunner::copy(const IssuedOp& issued) {
  for (std::uint32_t i = 0; i + 1 < issued.run.op->views.count; i += 2) {
    const View& from = view_of(issued.run, i);
    std::memcpy(address_of(program_, issued, i + 1, rank_), address_of(program_, issued, i, rank_),
                from.count * size_of(program_[from.buffer].dtype));
  }
}

}  // namespace orrery
