#include "core/program/lower/pipeline_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/order_memo.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

/// Runs the orders with blocking messages and writes down what each rank does.
class Rendezvous {
 public:
  Rendezvous(const Orders& orders, const StageMap& map, std::uint32_t microbatches)
      : orders_(orders),
        map_(map),
        microbatches_(microbatches),
        at_(orders.size()),
        out_(orders.size()),
        received_(2 * std::size_t{map.stages()} * microbatches) {
    for (std::size_t r = 0; r < orders.size(); ++r) out_[r].reserve(2 * orders[r].size());
  }

  Orders run() {
    for (std::uint32_t r = map_.ranks; r-- > 0;) awake_.push_back(r);
    for (;;) {
      while (!awake_.empty()) {
        const std::uint32_t rank = awake_.back();
        awake_.pop_back();
        advance(rank);
      }
      const std::optional<std::uint32_t> sender = stuck();
      if (!sender) break;
      early(*sender);
    }
    return std::move(out_);
  }

 private:
  enum class Step : std::uint8_t { receive, compute, send };
  struct Place {
    std::size_t action = 0;
    Step step = Step::receive;
  };

  [[nodiscard]] bool done(std::uint32_t rank) const { return at_[rank].action == orders_[rank].size(); }
  [[nodiscard]] const Action& now(std::uint32_t rank) const { return orders_[rank][at_[rank].action]; }
  [[nodiscard]] std::uint32_t stage(std::uint32_t rank, const Action& a) const { return map_.stage(rank, a.chunk); }

  /// The stage that the action's message comes from or goes to, if it is on another rank.
  [[nodiscard]] std::optional<std::uint32_t> neighbour(std::uint32_t rank, const Action& a, bool send) const {
    if (a.phase == Phase::weight) return std::nullopt;
    const bool up = (a.phase == Phase::forward) == send;
    const std::uint32_t here = stage(rank, a);
    if (up ? here + 1 == map_.stages() : here == 0) return std::nullopt;
    const std::uint32_t there = up ? here + 1 : here - 1;
    if (map_.rank(there, map_.pipe(a.chunk)) == rank) return std::nullopt;
    return there;
  }
  /// Whether the message for that action has come.
  [[nodiscard]] std::vector<bool>::reference received(bool forward, std::uint32_t to, std::uint32_t microbatch) {
    return received_[(2 * std::size_t{to} + (forward ? 0U : 1U)) * microbatches_ + microbatch];
  }

  void put(std::uint32_t rank, bool send, const Action& a) {
    const bool forward = a.phase == Phase::forward;
    const Phase phase = send ? (forward ? Phase::send_hidden : Phase::send_gradient)
                             : (forward ? Phase::receive_hidden : Phase::receive_gradient);
    out_[rank].push_back({phase, a.chunk, a.microbatch});
  }
  void next(std::uint32_t rank) {
    ++at_[rank].action;
    at_[rank].step = Step::receive;
  }
  [[nodiscard]] bool sends(std::uint32_t rank) const { return !done(rank) && at_[rank].step == Step::send; }

  /// Receives at once what `sender` sends now, whatever the receiver was about to do.
  void early(std::uint32_t sender) {
    const Action& a = now(sender);
    const std::uint32_t to = *neighbour(sender, a, true), pipe = map_.pipe(a.chunk);
    const std::uint32_t receiver = map_.rank(to, pipe);
    put(receiver, false, {a.phase, map_.chunk(to, pipe), a.microbatch});
    received(a.phase == Phase::forward, to, a.microbatch) = true;
    put(sender, true, a);
    next(sender);
    awake_.push_back(receiver);
    awake_.push_back(sender);
  }

  /// Runs the rank as far as it gets by itself or with a partner that stands ready.
  void advance(std::uint32_t rank) {
    while (!done(rank)) {
      const Action& a = now(rank);
      const bool forward = a.phase == Phase::forward;
      Step& step = at_[rank].step;
      if (step == Step::receive) {
        const auto from = neighbour(rank, a, false);
        if (from && !received(forward, stage(rank, a), a.microbatch)) {
          const std::uint32_t pipe = map_.pipe(a.chunk), sender = map_.rank(*from, pipe);
          if (!sends(sender) || now(sender) != Action{a.phase, map_.chunk(*from, pipe), a.microbatch}) return;
          early(sender);
        }
        step = Step::compute;
      }
      if (step == Step::compute) {
        out_[rank].push_back(a);
        step = Step::send;
        if (!neighbour(rank, a, true)) {
          next(rank);
          continue;
        }
      }
      const std::uint32_t to = *neighbour(rank, a, true), pipe = map_.pipe(a.chunk);
      const std::uint32_t receiver = map_.rank(to, pipe);
      if (done(receiver)) return;
      const Action& theirs = now(receiver);
      if (at_[receiver].step == Step::receive) {
        if (theirs != Action{a.phase, map_.chunk(to, pipe), a.microbatch}) return;
        early(rank);
      } else {
        const auto back = at_[receiver].step == Step::send ? neighbour(receiver, theirs, true) : std::nullopt;
        if (!back || map_.rank(*back, map_.pipe(theirs.chunk)) != rank) return;
        early(forward || theirs.phase != Phase::forward ? rank : receiver);
        return;
      }
    }
  }

  /// When no rank can go on, returns one that stands at a send: one of a ring. Forward messages come first.
  [[nodiscard]] std::optional<std::uint32_t> stuck() const {
    std::optional<std::uint32_t> found;
    bool all_done = true;
    for (std::uint32_t r = 0; r < map_.ranks; ++r) {
      all_done = all_done && done(r);
      if (!sends(r)) continue;
      if (now(r).phase == Phase::forward) return r;
      if (!found) found = r;
    }
    ORRERY_ASSERT(found || all_done, map_.ranks, map_.chunks, microbatches_);
    return found;
  }

  const Orders& orders_;
  StageMap map_;
  std::uint32_t microbatches_;
  std::vector<Place> at_;
  Orders out_;
  std::vector<bool> received_;
  std::vector<std::uint32_t> awake_;
};

std::string before(const State& s) {
  if (s.stages.empty()) return "there is no schedule";
  for (const Stage& stage : s.stages) {
    if (stage.step.empty()) return fmt::format("stage {} has no schedule", stage.number);
    if (count(stage.step, Phase::forward) + count(stage.step, Phase::backward) + count(stage.step, Phase::weight) !=
        stage.step.size()) {
      return fmt::format("stage {} does more than compute", stage.number);
    }
    if (!s.orders || stage.step != s.orders->compute[stage.number]) {
      return fmt::format("stage {} does not do what its schedule says", stage.number);
    }
  }
  return {};
}

/// The lanes on which a chunk without layers gets what it sends on, beside compute.
LaneList lanes_of_bare(const State& s, const Chunk& chunk, bool hidden) {
  LaneList lanes;
  if (!chunk.embedding) {
    lanes.push_back(receive_lane(hidden ? TransferLane::forward_receive : TransferLane::backward_receive));
  } else {
    if (s.tensor > 1) lanes.push_back({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
    if (s.grid) lanes.push_back(collective_lane(s.program, s.row_group));
  }
  return lanes;
}

/// Chunks share the blocks of messages that go to the same rank and wait for the same lanes: what a chunk without
/// layers sends has just been received, or is the sum of tensor ranks' embeddings.
void build_transfers(State& s, Stage& stage) {
  const std::uint32_t i = stage.number;
  struct Built {
    Phase phase;
    std::uint32_t peer;
    LaneList lanes;
    BlockId block;
  };
  std::vector<Built> built;
  const auto build = [&](Chunk& chunk, Phase phase, std::uint32_t there) {
    const std::uint32_t peer = s.map.rank(there, s.map.pipe(static_cast<std::uint32_t>(&chunk - stage.chunks.data())));
    if (peer == i) return;
    BlockId& block = chunk.transfers[message_index(phase)];
    const bool hidden = phase == Phase::receive_hidden || phase == Phase::send_hidden;
    const bool send = phase == Phase::send_hidden || phase == Phase::send_gradient;
    const bool bare = chunk.layers == 0 && !chunk.head && (hidden || !chunk.embedding);
    const LaneList lanes = send && bare ? lanes_of_bare(s, chunk, hidden) : LaneList();
    const auto same = std::find_if(built.begin(), built.end(), [&](const Built& b) {
      return b.phase == phase && b.peer == peer &&
             std::equal(b.lanes.begin(), b.lanes.end(), lanes.begin(), lanes.end());
    });
    if (same != built.end()) {
      block = same->block;
      return;
    }
    const bool another = std::any_of(built.begin(), built.end(), [&](const Built& b) { return b.phase == phase; });
    BlockBuilder b(s,
                   std::string(send ? "send." : "receive.") + (hidden ? "hidden.stage" : "gradient.stage") +
                       std::to_string(i) + (another ? ".rank" + std::to_string(peer) : ""),
                   hidden ? Pass::forward : Pass::input_gradient, Section::transfers, i);
    const BufferId what = hidden ? s.hidden : s.hidden_gradient;
    for (const Lane lane : lanes) b.after_tail(lane);
    b.transfer(send, s.pipeline_group, Peer{peer}, hidden ? 0 : 1, send ? read(what) : write(what));
    block = b.finish(s);
    built.push_back({phase, peer, lanes, block});
  };
  for (std::uint32_t c = 0; c < stage.own_chunks; ++c) {
    const std::uint32_t here = s.map.stage(i, c);
    if (here > 0) {
      build(stage.chunks[c], Phase::receive_hidden, here - 1);
      build(stage.chunks[c], Phase::send_gradient, here - 1);
    }
    if (here + 1 < s.map.stages()) {
      build(stage.chunks[c], Phase::send_hidden, here + 1);
      build(stage.chunks[c], Phase::receive_gradient, here + 1);
    }
  }
}

void run(State& s) {
  for (Stage& stage : s.stages) {
    build_transfers(s, stage);
    stage.step = s.orders->with_transfers[stage.number];
  }
}

/// Every message that one rank sends, the other one receives: of the same stages and microbatches, in the same order.
std::string after(const State& s) {
  struct Message {
    std::uint32_t rank, peer, to, microbatch;  ///< `to`: stage that takes it
    bool forward;
    auto operator<=>(const Message&) const = default;
  };
  std::vector<Message> sent, taken;
  for (const Stage& stage : s.stages) {
    for (const Action& a : stage.step) {
      if (!is_message(a.phase)) continue;
      const std::uint32_t here = s.map.stage(stage.number, a.chunk), pipe = s.map.pipe(a.chunk);
      const bool forward = a.phase == Phase::send_hidden || a.phase == Phase::receive_hidden;
      if (a.phase == Phase::send_hidden || a.phase == Phase::send_gradient) {
        const std::uint32_t to = forward ? here + 1 : here - 1;
        sent.push_back({stage.number, s.map.rank(to, pipe), to, a.microbatch, forward});
      } else {
        const std::uint32_t from = forward ? here - 1 : here + 1;
        taken.push_back({s.map.rank(from, pipe), stage.number, here, a.microbatch, forward});
      }
    }
  }
  std::size_t crossings = 0;
  for (std::uint32_t v = 0; v + 1 < s.map.stages(); ++v) crossings += s.map.rank(v) != s.map.rank(v + 1) ? 1U : 0U;
  const auto by_ends = [](const Message& a, const Message& b) {
    return std::tie(a.rank, a.peer, a.forward) < std::tie(b.rank, b.peer, b.forward);
  };
  std::stable_sort(sent.begin(), sent.end(), by_ends);
  std::stable_sort(taken.begin(), taken.end(), by_ends);
  if (sent != taken) return "ranks do not exchange the same microbatches in the same order";
  if (sent.size() != 2 * crossings * s.program.microbatches) return "messages are missing";
  return {};
}

}  // namespace

Orders with_transfers(const Orders& orders, const StageMap& map, std::uint32_t microbatches) {
  return Rendezvous(orders, map, microbatches).run();
}

LoweringPass pipeline_transfers() { return {"pipeline_transfers", before, run, after}; }

}  // namespace orrery::lowering
