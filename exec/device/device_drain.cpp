// The end of a list on a device. Its ops end one by one while the rank's thread watches, tells the recorder how far the
// device is and for whom it waits, and notices where it does not go on.

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "exec/device/device_runner.hpp"
#include "exec/run/op_text.hpp"

namespace orrery {
namespace {

/// Whether ops of the lane meet ops of others.
bool meets(Lane lane) { return lane.kind == LaneKind::collective || lane.kind == LaneKind::transfer; }

}  // namespace

void DeviceRunner::report_done(Queue& q) {
  if (in_graph()) return;
  while (q.done < q.issued.size()) {
    const OpId id = q.issued[q.done];
    try {
      if (!device_.done(*ends_[index(id)])) return;
    } catch (const std::exception& e) {
      // The device tells of a failure late, to whoever asks first.
      const bool setup = progress_.step.load(std::memory_order_relaxed) == 0;
      throw OpFailed(
          fmt::format("{}, or an operation that began before it ended: {}; with CUDA_LAUNCH_BLOCKING=1 in "
                      "the environment the operation itself is named",
                      op_text(program_, rank_, setup, index(id)), e.what()));
    }
    ++q.done;
    if (options_.recorder == nullptr) continue;
    const OpTimes times = times_of(id);
    options_.recorder->end(0, {progress_.step.load(std::memory_order_relaxed), id, times.start, times.end});
  }
}

void DeviceRunner::drain() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  const Queue* named = nullptr;  ///< the lane whose next op the recorder names as the rank's current one
  std::size_t done_before = 0;
  bool told = false;
  // A graph ends as a whole, after as long as the step before, or a few times that.
  const double longest =
      now_ == Graph::launched ? std::max(watchdog_.base(), 10.0 * list_time_.base()) : watchdog_.base();
  for (;;) {
    std::size_t done = 0;
    const Queue* next = nullptr;
    for (Queue& q : queues_) {
      report_done(q);
      done += q.done;
      // A message holds up the other lanes' later work.
      const bool open = q.done < q.issued.size();
      if (open && (next == nullptr || (meets(q.lane) && !meets(next->lane)))) next = &q;
    }
    if (next == nullptr) break;
    const OpId stuck = next->issued[next->done];
    if (done != done_before || next != named) {
      if (done != done_before) last = Clock::now();
      done_before = done;
      named = next;
      say_in(stuck);
      if (told) say_waits_for(std::nullopt);
      told = false;
    }
    if (world_.aborted()) throw Aborted{};
    try {
      transport_->look();
    } catch (const Error& e) {
      throw OpFailed(op_text(program_, rank_, progress_.step.load(std::memory_order_relaxed) == 0, index(stuck)) +
                     ": " + e.what());
    }
    const double waited = std::chrono::duration<double>(Clock::now() - last).count();
    if (!told && waited > 0.1 && meets(next->lane)) {
      say_waits_for(partner_in(stuck));
      told = true;
    }
    if (waited > longest && now_ == Graph::launched) {
      throw OpFailed(fmt::format("step {}: the device has not ended its graph within {:g} s",
                                 progress_.step.load(std::memory_order_relaxed), longest));
    }
    if (waited > longest) give_up_on(*next, stuck);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (told) say_waits_for(std::nullopt);
  const std::lock_guard lock(failure_mutex_);
  if (!failure_.empty()) throw Error(failure_);
}

void DeviceRunner::give_up_on(const Queue& q, OpId stuck) {
  const std::uint64_t step = progress_.step.load(std::memory_order_relaxed);
  const std::string op = op_text(program_, rank_, step == 0, index(stuck));
  if (!meets(q.lane)) {
    throw OpFailed(op + ": the device has not ended it within " + std::to_string(watchdog_.base()) + " s");
  }
  // This rank is not at fault, because it waits for others.
  const std::optional<Rank> whom = partner_in(stuck);
  world_.abort(waited_text(rank_, whom.value_or(rank_), watchdog_.base()) + " or another partner, in " + op);
  throw Aborted{};
}

/// A rank that the op waits for. For a collective it is the next member, so that going from one to the next finds the
/// one that is missing.
std::optional<Rank> DeviceRunner::partner_in(OpId id) const {
  const RankClass& lists = program_.classes[class_of(program_, rank_)];
  const bool setup = progress_.step.load(std::memory_order_relaxed) == 0;
  std::optional<Rank> partner;
  for_each_op(program_, setup ? lists.setup : lists.step, [&](const OpRun& run) {
    if (run.id != id) return;
    if (const auto* c = std::get_if<Collective>(&run.op->action)) partner = next_member(groups_[index(c->group)]);
    if (const auto* e = std::get_if<Exchange>(&run.op->action)) partner = first_peer(*run.block, *e);
  });
  return partner;
}

std::optional<Rank> DeviceRunner::next_member(const GroupHere& group) {
  if (!group.peer || group.ranks.size() < 2) return std::nullopt;
  return group.ranks[(index(*group.peer) + 1) % group.ranks.size()];
}

std::optional<Rank> DeviceRunner::first_peer(const Block& block, const Exchange& e) const {
  if (e.transfers.count == 0) return std::nullopt;
  const Transfer& t = block.transfers[e.transfers.first];
  return groups_[index(t.group)].ranks[index(t.peer)];
}

void DeviceRunner::say_in(OpId id) {
  if (options_.recorder == nullptr) return;
  options_.recorder->begin(0, progress_.step.load(std::memory_order_relaxed), id);
}

void DeviceRunner::say_waits_for(std::optional<Rank> whom) {
  if (options_.recorder != nullptr) options_.recorder->set_waits_for(whom);
}

OpTimes DeviceRunner::times_of(OpId id) {
  const auto at = [&](const DeviceEvent& e) {
    return base_time_ + static_cast<std::int64_t>(1e9 * device_.seconds_between(*base_, e));
  };
  return {at(*starts_[index(id)]), at(*ends_[index(id)])};
}

}  // namespace orrery
