#include <catch2/catch.hpp>

#include <random>
#include <set>

#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"

using namespace orrery;

// An independent judge of deadlock: all interleavings of a few ops on two or
// three ranks, each op started and ended as separate events.

namespace {

/// One timed op of one rank.
struct Event {
  enum class Kind { compute, collective, exchange } kind = Kind::compute;
  std::size_t lane = 0;                    ///< 0 compute, else one of three others
  std::vector<std::size_t> waits;          ///< positions in the rank's list
  std::vector<std::pair<bool, int>> ends;  ///< exchange: (send, peer); a message is one element
};

using Lists = std::vector<std::vector<Event>>;

int draw(std::mt19937_64& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

/// A few messages and collectives, their ends at random places of each list.
Lists random_lists(std::mt19937_64& random) {
  const int ranks = draw(random, 2, 3);
  Lists lists(static_cast<std::size_t>(ranks));
  const auto insert = [&](int rank, Event event) {
    auto& list = lists[static_cast<std::size_t>(rank)];
    event.lane = static_cast<std::size_t>(draw(random, 1, 3));
    list.insert(list.begin() + draw(random, 0, static_cast<int>(list.size())), event);
  };
  const int meetings = draw(random, 1, ranks == 2 ? 4 : 3);
  for (int i = 0; i < meetings; ++i) {
    if (draw(random, 0, 3) == 0) {
      for (int r = 0; r < ranks; ++r) insert(r, {Event::Kind::collective, 0, {}, {}});
      continue;
    }
    const int from = draw(random, 0, ranks - 1);
    const int to = (from + draw(random, 1, ranks - 1)) % ranks;
    insert(from, {Event::Kind::exchange, 0, {}, {{true, to}}});
    insert(to, {Event::Kind::exchange, 0, {}, {{false, from}}});
  }
  for (auto& list : lists) {
    // Sometimes neighbours become one exchange, sometimes there is compute between.
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      if (list[i].kind == Event::Kind::exchange && list[i + 1].kind == Event::Kind::exchange &&
          draw(random, 0, 2) == 0) {
        list[i].ends.insert(list[i].ends.end(), list[i + 1].ends.begin(), list[i + 1].ends.end());
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    if (draw(random, 0, 2) == 0 && list.size() < 4) {
      list.insert(list.begin() + draw(random, 0, static_cast<int>(list.size())), Event{});
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (draw(random, 0, 2) == 0) list[i].waits.push_back(j);
      }
    }
  }
  return lists;
}

/// The lists as a Program: one class and one block per rank, every operand its
/// own element, so that only order between ranks can be wrong.
Program program_of(const Lists& lists) {
  std::string text = "orrery-program 1\nmesh data=" + std::to_string(lists.size()) +
                     "\nlayers 0\nmicrobatches 1\nclasses data\nbuffer x workspace stage f32 64\ngroup data\n"
                     "block setup setup\n  0: alloc x\n  1: compute fill setup f32 rows=1 columns=64 (write x)\n";
  static const char* const lanes[] = {"compute", "data", "forward-send", "backward-receive"};
  int element = 0;
  const auto next = [&] {
    ++element;
    return "x[" + std::to_string(element - 1) + ":" + std::to_string(element) + "]";
  };
  for (std::size_t r = 0; r < lists.size(); ++r) {
    text += "block rank" + std::to_string(r) + " forward\n";
    for (std::size_t i = 0; i < lists[r].size(); ++i) {
      const Event& e = lists[r][i];
      text += "  " + std::to_string(i) + ": " + lanes[e.lane] + " ";
      if (e.kind == Event::Kind::compute) text += "fill forward f32 (write " + next() + ")";
      if (e.kind == Event::Kind::collective) text += "all_reduce sum data (accumulate " + next() + ")";
      if (e.kind == Event::Kind::exchange) {
        std::string views, transfers;
        for (std::size_t t = 0; t < e.ends.size(); ++t) {
          const auto& [send, peer] = e.ends[t];
          views += std::string(t > 0 ? ", " : "") + (send ? "read " : "write ") + next();
          transfers += std::string(t > 0 ? ", " : " ") + (send ? "send " : "receive ") + std::to_string(t) +
                       (send ? " to " : " from ") + std::to_string(peer) + " in data channel 0";
        }
        text += "exchange (" + views + ")" + transfers;
      }
      for (std::size_t w = 0; w < e.waits.size(); ++w) text += (w == 0 ? " after " : ", ") + std::to_string(e.waits[w]);
      text += "\n";
    }
  }
  for (std::size_t r = 0; r < lists.size(); ++r) {
    text += "class " + std::to_string(r) + "\n  setup\n    run setup\n  step\n    run rank" + std::to_string(r) + "\n";
  }
  Diagnostics diagnostics;
  auto program = read_program(text, "interleaving", diagnostics);
  INFO(text << render(diagnostics));
  REQUIRE(program.has_value());
  return *program;
}

/// Walks every reachable state.
class Interleavings {
 public:
  Interleavings(const Lists& lists, bool serial) : lists_(lists), serial_(serial) {
    for (std::size_t r = 0; r < lists.size(); ++r) {
      first_.push_back(size_);
      size_ += lists[r].size();
    }
    visit(std::vector<char>(size_, 0));
  }
  [[nodiscard]] bool can_finish() const { return finished_; }
  [[nodiscard]] bool can_stick() const { return stuck_; }

 private:
  // 0 not started, 1 started, 2 ended
  using State = std::vector<char>;

  void visit(const State& state) {
    if (!seen_.insert(state).second) return;
    bool moved = false;
    for (std::size_t r = 0; r < lists_.size(); ++r) {
      for (std::size_t i = 0; i < lists_[r].size(); ++i) {
        const std::size_t at = first_[r] + i;
        if (state[at] == 0 ? may_start(state, r, i) : state[at] == 1 && may_end(state, r, i)) {
          State next = state;
          ++next[at];
          visit(next);
          moved = true;
        }
      }
    }
    if (moved) return;
    const bool all = std::all_of(state.begin(), state.end(), [](char c) { return c == 2; });
    (all ? finished_ : stuck_) = true;
  }

  [[nodiscard]] bool may_start(const State& state, std::size_t r, std::size_t i) const {
    const Event& e = lists_[r][i];
    for (std::size_t j = 0; j < i; ++j) {
      const bool queued = serial_ || lists_[r][j].lane == e.lane;
      if (queued && state[first_[r] + j] != 2) return false;
    }
    return std::all_of(e.waits.begin(), e.waits.end(), [&](std::size_t j) { return state[first_[r] + j] == 2; });
  }

  [[nodiscard]] bool may_end(const State& state, std::size_t r, std::size_t i) const {
    const Event& e = lists_[r][i];
    if (e.kind == Event::Kind::collective) {
      const std::size_t k = collectives_before(r, i);
      for (std::size_t q = 0; q < lists_.size(); ++q) {
        for (std::size_t j = 0; j < lists_[q].size(); ++j) {
          const bool same = lists_[q][j].kind == Event::Kind::collective && collectives_before(q, j) == k;
          if (same && state[first_[q] + j] == 0) return false;
        }
      }
    }
    for (std::size_t t = 0; t < e.ends.size(); ++t) {
      const auto [q, j] = partner(r, i, t);
      if (state[first_[q] + j] == 0) return false;
    }
    return true;
  }

  [[nodiscard]] std::size_t collectives_before(std::size_t r, std::size_t i) const {
    std::size_t n = 0;
    for (std::size_t j = 0; j < i; ++j) n += lists_[r][j].kind == Event::Kind::collective ? 1U : 0U;
    return n;
  }

  /// Where the message of the t-th end of an exchange has its other end: the
  /// k-th send between two ranks meets the k-th receive.
  [[nodiscard]] std::pair<std::size_t, std::size_t> partner(std::size_t r, std::size_t i, std::size_t t) const {
    const auto [send, peer] = lists_[r][i].ends[t];
    std::size_t k = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      for (std::size_t u = 0; u < (j == i ? t : lists_[r][j].ends.size()); ++u) {
        k += lists_[r][j].ends[u] == lists_[r][i].ends[t] ? 1U : 0U;
      }
    }
    const auto q = static_cast<std::size_t>(peer);
    for (std::size_t j = 0; j < lists_[q].size(); ++j) {
      for (const auto& end : lists_[q][j].ends) {
        if (end == std::pair(!send, static_cast<int>(r)) && k-- == 0) return {q, j};
      }
    }
    FAIL("a message has one end");
    return {};
  }

  const Lists& lists_;
  bool serial_;
  std::vector<std::size_t> first_;
  std::size_t size_ = 0;
  std::set<State> seen_;
  bool finished_ = false, stuck_ = false;
};

}  // namespace

TEST_CASE("the verdict on deadlock agrees with all interleavings", "[verify]") {
  std::size_t free = 0, lanes = 0, serial_only = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const Lists lists = random_lists(random);
    const Program program = program_of(lists);
    CAPTURE(seed, write_program(program));
    const Interleavings side_by_side(lists, false);
    const Interleavings one_at_a_time(lists, true);
    // No choice is left: whether the ranks finish does not depend on the order of events.
    REQUIRE(side_by_side.can_finish() != side_by_side.can_stick());
    REQUIRE(one_at_a_time.can_finish() != one_at_a_time.can_stick());
    // One op at a time is the harder of the two.
    if (one_at_a_time.can_finish()) REQUIRE(side_by_side.can_finish());
    const auto found = verify(program);
    INFO(render(found));
    const std::string code = found.empty() ? "" : found[0].code;
    if (side_by_side.can_stick()) {
      REQUIRE(code == "program.deadlock");
      ++lanes;
    } else if (one_at_a_time.can_stick()) {
      REQUIRE(code == "program.deadlock-serial");
      ++serial_only;
    } else {
      REQUIRE(code.empty());
      ++free;
    }
  }
  // Each of the three verdicts occurs often enough to mean something.
  CHECK(free > 300);
  CHECK(lanes > 300);
  CHECK(serial_only > 300);
}
