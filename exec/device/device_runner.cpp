#include "exec/device/device_runner.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "core/program/op_count.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/traffic.hpp"
#include "exec/kernels/gathered_routing.hpp"
#include "exec/run/op_operands.hpp"
#include "exec/run/op_text.hpp"
#include "exec/run/tier_file.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t no_queue = ~std::uint32_t{0};

bool takes_lane(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

/// A chunk is an eighth of what the rank needs: this gives few calls to the device, and little is left over.
std::uint64_t chunk_bytes(const Program& program, Rank rank) {
  LiveMemory memory;
  memory.read(program);
  const std::uint64_t peak = memory.peak(program, class_of(program, rank)).peak;
  return std::clamp<std::uint64_t>(peak / 8, std::uint64_t{2} << 20, std::uint64_t{1} << 30);
}

Storage::Pools make_pools(Device& device, const Program& program, Rank rank, const RankOptions& options,
                          std::size_t lanes, std::array<ArenaPool*, tier_count>& seen) {
  const std::uint64_t chunk = chunk_bytes(program, rank);
  const auto pool = [&](Tier tier, ArenaPool::Source source, std::uint64_t bytes) {
    auto made = std::make_unique<ArenaPool>(std::move(source), bytes, lanes);
    seen[index(tier)] = made.get();
    return made;
  };
  Storage::Pools pools;
  pools[index(Tier::device)] = pool(Tier::device,
                                    {[&device](std::uint64_t bytes) { return device.allocate(bytes); },
                                     [&device](std::byte* p) { device.release(p); }},
                                    chunk);
  pools[index(Tier::host)] = pool(Tier::host,
                                  {[&device](std::uint64_t bytes) { return device.allocate_host(bytes); },
                                   [&device](std::byte* p) { device.release_host(p); }},
                                  std::uint64_t{2} << 20);
  auto file = std::make_shared<TierFile>(options.disk_folder);
  pools[index(Tier::disk)] =
      pool(Tier::disk, {[file](std::uint64_t bytes) { return file->take(bytes); }, [](std::byte*) {}},
           std::uint64_t{2} << 20);
  return pools;
}

}  // namespace

void DeviceNotes::on_host(KernelKind kind) {
  const std::lock_guard lock(mutex_);
  on_host_.insert(kind);
}

std::vector<std::string> DeviceNotes::host_kernels() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const KernelKind k : on_host_) names.emplace_back(name_of(k));
  return names;
}

void DeviceNotes::on_odd_rows(OddRows rows) {
  const std::lock_guard lock(mutex_);
  odd_rows_.insert(rows);
}

std::vector<DeviceNotes::OddRows> DeviceNotes::odd_rows() const {
  const std::lock_guard lock(mutex_);
  return {odd_rows_.begin(), odd_rows_.end()};
}

void DeviceNotes::on_graph(bool built_anew) {
  const std::lock_guard lock(mutex_);
  ++graphs_.steps;
  graphs_.built += built_anew ? 1 : 0;
}

void DeviceNotes::on_memory(Rank rank, std::uint64_t own, std::uint64_t taken) {
  const std::lock_guard lock(mutex_);
  own_bytes_[rank] = own;
  taken_bytes_ = std::max(taken_bytes_, taken);
}

std::uint64_t DeviceNotes::beside_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t own = 0;
  for (const auto& [rank, bytes] : own_bytes_) own += bytes;
  return taken_bytes_ > own ? taken_bytes_ - own : 0;
}

DeviceNotes::Graphs DeviceNotes::graphs() const {
  const std::lock_guard lock(mutex_);
  return graphs_;
}

DeviceRunner::DeviceRunner(Device& device, DeviceNotes& notes, const DeviceTransportMaker& transport,
                           const Program& program, const Workload& workload, const DataSource& data, World& world,
                           Rank rank, const RankOptions& options, Seconds watchdog, bool graphs)
    : device_(device),
      notes_(notes),
      program_(program),
      workload_(workload),
      data_(data),
      world_(world),
      communicator_(world.communicator(rank)),
      rank_(rank),
      options_(options),
      watchdog_(watchdog),
      graphs_(graphs),
      groups_(groups_of(program, rank)),
      storage_(program, make_pools(device, program, rank, options, lanes_of(program, rank).size(), pools_),
               Storage::Taking::at_alloc, options.room),
      issuer_(program, groups_, storage_),
      transport_(transport(world, communicator_, rank)) {
  device_.use();
  queue_of_.fill(no_queue);
  const std::vector<Lane> lanes = lanes_of(program, rank);
  for (const Lane lane : lanes) {
    queue_of_[lane_number(lane)] = static_cast<std::uint32_t>(queues_.size());
    queues_.emplace_back();
    queues_.back().lane = lane;
    queues_.back().stream = device_.make_stream(lane.kind == LaneKind::collective || lane.kind == LaneKind::transfer);
    queues_.back().waited.assign(lanes.size(), 0);
  }
  base_ = device_.make_event();
}

DeviceRunner::~DeviceRunner() {
  for (Queue& q : queues_) {
    q.stream.reset();  // what is left of its work uses the rest
    q.routing_there.release(device_);
    if (q.staging != nullptr) device_.release_host(q.staging);
  }
  for (std::byte* p : old_staging_) device_.release_host(p);
}

void DeviceRunner::start() {
  device_.use();
  transport_->start();
}

void DeviceRunner::walk(std::uint64_t step, std::uint64_t data_step) {
  try {
    issue_all(step, data_step);
  } catch (...) {
    transport_->abort();
    if (now_ == Graph::gathers) {
      graph_->drop();
      for (Queue& q : queues_) q.issued.clear();
    }
    // Other ranks' ops may still read this rank's memory, and its own ops do, so everything that was given to the
    // device must end first.
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(watchdog_.base());
    const auto ended = [&](OpId id) {
      try {
        return device_.done(*ends_[index(id)]);
      } catch (const Error&) {
        return true;  // a device that failed does no more; what is thrown already names the op
      }
    };
    for (const Queue& q : queues_) {
      // The ends of a launched graph's ops may be those of the step before until it ends itself.
      while (!q.issued.empty() && (in_graph() || !ended(q.issued.back()))) {
        if (std::chrono::steady_clock::now() > until) break;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    throw;
  }
}

void DeviceRunner::issue_all(std::uint64_t step, std::uint64_t data_step) {
  const RankClass& lists = program_.classes[class_of(program_, rank_)];
  const std::vector<Slot>& slots = step == 0 ? lists.setup : lists.step;
  const auto began = std::chrono::steady_clock::now();
  progress_.list.reset();
  progress_.step.store(step, std::memory_order_relaxed);
  const std::size_t ops = op_count(program_, slots);
  times_.assign(ops, {});
  while (starts_.size() < ops) {
    starts_.push_back(device_.make_event());
    ends_.push_back(device_.make_event());
  }
  for (Queue& q : queues_) {
    q.issued.clear();
    q.done = 0;
    q.waited.assign(queues_.size(), 0);
  }
  base_time_ = now_ns() + options_.clock_offset;
  if (!queues_.empty()) {
    queues_[0].stream->record(*base_);
    while (!device_.done(*base_)) std::this_thread::yield();
    base_time_ = now_ns() + options_.clock_offset;
  }
  // The first step gives no graph, because kernels take their own memory in it.
  now_ = Graph::none;
  if (graphs_ && step >= 2) begin_graph();
  TailHistory<After> tails;
  std::vector<After> in_block;  // the block's ops so far; count 0: took no lane
  std::uint32_t block_run = ~std::uint32_t{0};
  for_each_op(program_, slots, [&](const OpRun& run) {
    if (run.block_run != block_run) {
      block_run = run.block_run;
      tails.enter(run.receives_ahead);
      in_block.assign(run.block->ops.size(), {});
    }
    progress_.list.current.store(index(run.id), std::memory_order_relaxed);
    try {
      issue(run, data_step, tails, in_block);
    } catch (const std::exception& e) {
      throw OpFailed(op_text(program_, rank_, step == 0, index(run.id)) + ": " + e.what());
    }
    progress_.list.completed.store(index(run.id), std::memory_order_relaxed);
    progress_.list.current.store(LaneProgress::none, std::memory_order_relaxed);
  });
  if (now_ == Graph::gathers) launch_graph();
  drain();
  for (const Queue& q : queues_) {
    for (const OpId id : q.issued) times_[index(id)] = times_of(id);
  }
  // The instant at which the compute lane passed the ops without time.
  std::int64_t passed = base_time_;
  for_each_op(program_, slots, [&](const OpRun& run) {
    OpTimes& times = times_[index(run.id)];
    if (!takes_lane(*run.op)) {
      times = {passed, passed};
    } else if (run.op->lane.kind == LaneKind::compute) {
      passed = times.end;
    }
  });
  for (ArenaPool* pool : pools_) pool->settle();
  for (std::byte* p : old_staging_) device_.release_host(p);
  old_staging_.clear();
  transport_->begin_again();
  list_time_ = Seconds::of(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

void DeviceRunner::begin_graph() {
  if (!graph_) {
    graph_ = device_.make_graph();
    graph_end_ = device_.make_event();
  }
  std::vector<DeviceStream*> streams;
  for (const Queue& q : queues_) streams.push_back(q.stream.get());
  graph_->begin(streams);
  now_ = Graph::gathers;
}

void DeviceRunner::launch_graph() {
  notes_.on_graph(graph_->launch());
  now_ = Graph::launched;
  queues_[0].stream->record(*graph_end_);
}

bool DeviceRunner::in_graph() const {
  return now_ == Graph::gathers || (now_ == Graph::launched && !device_.done(*graph_end_));
}

void DeviceRunner::wait_on(Queue& q, const After& after) {
  if (after.count == 0 || &queues_[after.lane] == &q || q.waited[after.lane] >= after.count) return;
  q.stream->wait(*ends_[index(queues_[after.lane].issued[after.count - 1])]);
  q.waited[after.lane] = after.count;
}

void DeviceRunner::issue(const OpRun& run, std::uint64_t data_step, TailHistory<After>& tails,
                         std::vector<After>& in_block) {
  issuer_.issue(run, data_step, op_);
  if (options_.recorder != nullptr && takes_lane(*run.op)) report_done(queues_[queue_of_[lane_number(run.op->lane)]]);
  say_in(run.id);
  if (options_.before_op) options_.before_op(rank_, run.id, progress_.step.load(std::memory_order_relaxed));
  if (!takes_lane(*run.op)) return;
  const std::uint32_t lane = queue_of_[lane_number(run.op->lane)];
  Queue& q = queues_[lane];
  for (std::uint32_t w = run.op->waits.first; w < run.op->waits.first + run.op->waits.count; ++w) {
    const Wait& wait = run.block->waits[w];
    wait_on(q, wait.kind == Wait::Kind::op ? in_block[wait.op] : tails.at_entry(lane_number(wait.lane)));
  }
  // The op must wait for earlier ops on memory that other buffers had before.
  const std::uint64_t number = q.issued.size() + 1;
  for (std::uint32_t i = 0; i < op_.memory.size(); ++i) {
    ArenaPool::Use& use = pools_[index(tier_of(i))]->use(op_.memory[i]->data());
    for (std::uint32_t l = 0; l < use.before.size(); ++l) wait_on(q, {l, use.before[l]});
    use.used[lane] = number;
  }
  DeviceEvent& start = *starts_[index(run.id)];
  if (const auto* c = std::get_if<Compute>(&run.op->action)) {
    q.stream->record(start);
    compute(q, *c);
  } else if (const auto* collect = std::get_if<Collective>(&run.op->action)) {
    collective(q, *collect, start);
  } else if (const auto* meet = std::get_if<Exchange>(&run.op->action)) {
    exchange(q, *meet, start);
  } else {
    q.stream->record(start);
    copy(q);
  }
  sent_bytes_ += orrery::sent_bytes(program_, *run.block, *run.op, rank_);
  q.stream->record(*ends_[index(run.id)]);
  q.issued.push_back(run.id);
  const After issued{lane, number};
  tails.issued(lane_number(run.op->lane), issued);
  in_block[run.op_index] = issued;
}

Tier DeviceRunner::tier_of(std::uint32_t view) const { return program_[view_of(op_.run, view).buffer].tier; }

void DeviceRunner::compute(Queue& q, const Compute& c) {
  const Kernel& kernel = op_.run.block->kernels[c.kernel];
  operands_of(program_, op_, kernel, rank_, operands_);
  KernelContext context;
  context.step = op_.step;
  context.layer = op_.run.layer;
  context.microbatch = op_.run.microbatch;
  context.rank = rank_;
  context.mesh = &program_.mesh;
  context.workload = &workload_;
  context.data = &data_;
  context.scratch = &q.scratch;
  context.rotations = program_.rotations;
  context.routing = &q.routing;
  bool on_device = q.lane.kind != LaneKind::host;
  for (std::uint32_t i = 0; i < operands_.size(); ++i) on_device = on_device && tier_of(i) == Tier::device;
  if (on_device && device_.runs(kernel, operands_)) {
    if (kernel.kind == KernelKind::gemm && size_of(operands_[0].dtype) == 2) {
      const std::uint64_t of_a = kernel.options.transpose_a ? kernel.rows : kernel.depth;
      const std::uint64_t of_b = kernel.options.transpose_b ? kernel.depth : kernel.columns;
      const std::array<std::uint64_t, 3> rows{of_a, of_b, kernel.columns};  // of a, b and c, the first operands
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint64_t bytes = size_of(operands_[i].dtype);
        if (rows[i] * bytes % 16 != 0) notes_.on_odd_rows({rows[i], bytes});
      }
    }
    // What is recomputed was counted.
    if (kernel.kind == KernelKind::route_choices && kernel.pass == Pass::forward &&
        reports_choices(kernel, program_.mesh, context.rank)) {
      context.routing_there = q.routing_there.sums(device_, *q.stream, context.layer, kernel.columns, kernel.depth);
    }
    q.stream->run(kernel, operands_, context);
    return;
  }
  if (on_device) notes_.on_host(kernel.kind);
  compute_on_host(q, kernel, context);
}

void DeviceRunner::compute_on_host(Queue& q, const Kernel& kernel, const KernelContext& context) {
  std::uint64_t bytes = 0;
  const auto size = [&](std::size_t i) {
    return (operands_[i].count * size_of(operands_[i].dtype) + 63) / 64 * 64;  // aligned
  };
  const auto staged = [&](std::uint32_t i) { return tier_of(i) == Tier::device; };
  for (std::uint32_t i = 0; i < operands_.size(); ++i) bytes += staged(i) ? size(i) : 0;
  std::byte* at = staging(q, bytes);
  std::vector<Operand> here = operands_;
  for (std::uint32_t i = 0; i < here.size(); ++i) {
    if (!staged(i)) continue;
    here[i].data = at;
    at += size(i);
    // Operands that are written are copied too, because a kernel may leave parts of them as they were.
    q.stream->copy(here[i].data, operands_[i].data, here[i].count * size_of(here[i].dtype));
  }
  q.stream->call([this, kernel, context, here] {
    try {
      run_kernel(kernel, here, context);
    } catch (const std::exception& e) {
      const std::lock_guard lock(failure_mutex_);
      if (failure_.empty()) failure_ = std::string(name_of(kernel.kind)) + " on the host: " + e.what();
    }
  });
  for (std::uint32_t i = 0; i < here.size(); ++i) {
    if (!staged(i) || view_of(op_.run, i).use == View::Use::read) continue;
    q.stream->copy(operands_[i].data, here[i].data, here[i].count * size_of(here[i].dtype));
  }
}

std::byte* DeviceRunner::staging(Queue& q, std::uint64_t bytes) {
  if (bytes <= q.staging_bytes) return q.staging;
  const std::uint64_t wanted = std::max(bytes, 2 * q.staging_bytes);
  std::byte* more = device_.allocate_host(wanted);
  if (more == nullptr)
    throw Error("no memory for " + std::to_string(wanted) + " bytes of operands for kernels on the host");
  if (q.staging != nullptr) old_staging_.push_back(q.staging);
  q.staging = more;
  q.staging_bytes = wanted;
  return more;
}

void DeviceRunner::collective(Queue& q, const Collective& c, DeviceEvent& start) {
  const GroupHere& group = groups_[index(c.group)];
  ORRERY_ASSERT(group.peer.has_value(), rank_, c.group);
  std::vector<MemoryView> views;
  for (std::uint32_t i = 0; i < op_.run.op->views.count; ++i) {
    const View& v = view_of(op_.run, i);
    views.push_back({address_of(program_, op_, i, rank_), program_[v.buffer].dtype, v.count, v.use});
  }
  say_waits_for(next_member(group));
  transport_->collective(c, {group.ranks, index(*group.peer), op_.tags[0]}, views, *q.stream, start);
  say_waits_for(std::nullopt);
}

void DeviceRunner::exchange(Queue& q, const Exchange& e, DeviceEvent& start) {
  std::vector<DeviceTransfer> transfers;
  for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
    const Transfer& t = op_.run.block->transfers[e.transfers.first + i];
    const View& v = view_of(op_.run, t.view);
    const GroupHere& group = groups_[index(t.group)];
    DeviceTransfer transfer;
    transfer.send = t.send;
    transfer.peer = group.ranks[index(t.peer)];
    transfer.tag = op_.tags[i];
    transfer.channel = t.channel;
    transfer.sender = index(t.send ? group.peer.value() : t.peer);
    transfer.data = address_of(program_, op_, t.view, rank_);
    transfer.bytes = v.count * size_of(program_[v.buffer].dtype);
    transfers.push_back(transfer);
  }
  say_waits_for(first_peer(*op_.run.block, e));
  transport_->exchange(transfers, *q.stream, start);
  say_waits_for(std::nullopt);
}

void DeviceRunner::copy(Queue& q) {
  for (std::uint32_t i = 0; i + 1 < op_.run.op->views.count; i += 2) {
    const View& from = view_of(op_.run, i);
    q.stream->copy(address_of(program_, op_, i + 1, rank_), address_of(program_, op_, i, rank_),
                   from.count * size_of(program_[from.buffer].dtype));
  }
}

RoutingCounts DeviceRunner::routing() const {
  RoutingCounts sum;
  device_.use();
  for (const Queue& q : queues_) {
    add_counts(sum, q.routing);
    add_counts(sum, q.routing_there.read(device_, *q.stream, *base_));
  }
  return sum;
}

RankMemory DeviceRunner::memory() const {
  std::uint64_t outside = 0;
  for (const Queue& q : queues_) outside += q.stream->scratch_bytes() + q.routing_there.bytes();
  outside += transport_->scratch_bytes();
  const std::uint64_t free = device_.free_bytes(), before = device_.info().free_bytes;
  notes_.on_memory(rank_, storage_.reserved_bytes() + outside, before > free ? before - free : 0);
  return {storage_.peak_bytes(),           storage_.held_bytes(),          storage_.reserved_bytes(), outside,
          storage_.peak_bytes(Tier::host), storage_.peak_bytes(Tier::disk)};
}

std::span<std::byte> DeviceRunner::find(const Instance& instance) {
  const std::span<std::byte> there = storage_.find(instance);
  if (there.empty() || program_[instance.buffer].tier != Tier::device) return there;
  const auto [at, fresh] = found_.try_emplace(instance);
  Found& found = at->second;
  if (fresh) {
    device_.use();
    found.at = there.data();
    found.now.resize(there.size());
    queues_[0].stream->copy(found.now.data(), found.at, found.now.size());
    queues_[0].stream->record(*base_);
    while (!device_.done(*base_)) std::this_thread::yield();
    found.before = found.now;
  }
  return found.now;
}

void DeviceRunner::release_found() {
  if (found_.empty()) return;
  device_.use();
  for (auto& [instance, found] : found_) {
    if (found.now != found.before) queues_[0].stream->copy(found.at, found.now.data(), found.now.size());
  }
  queues_[0].stream->record(*base_);
  while (!device_.done(*base_)) std::this_thread::yield();
  found_.clear();
}

}  // namespace orrery
