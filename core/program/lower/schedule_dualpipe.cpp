#include <algorithm>
#include <deque>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

/// One rank's list, written in terms of the pipe that enters at its end of the
/// ranks (near) and of the other (far).
class List {
 public:
  List(std::uint32_t near, std::uint32_t microbatches) : near_(near), half_(microbatches / 2) {}

  void forward(bool near) { push(Phase::forward, near, forwards_[near ? 0 : 1]++); }
  /// Makes input and weight gradients, or only the first: then the second waits in line.
  void backward(bool near, bool whole = true) {
    const std::uint32_t j = backwards_[near ? 0 : 1]++;
    push(Phase::backward, near, j);
    if (whole) {
      push(Phase::weight, near, j);
    } else {
      waiting_.push_back(order_.back());
    }
  }
  void weight() {
    Action a = waiting_.front();
    waiting_.pop_front();
    a.phase = Phase::weight;
    order_.push_back(a);
  }
  [[nodiscard]] std::vector<Action> take() { return std::move(order_); }

 private:
  void push(Phase phase, bool near, std::uint32_t j) {
    const std::uint32_t pipe = near ? near_ : 1 - near_;
    order_.push_back({phase, pipe, pipe * half_ + j});
  }

  std::uint32_t near_, half_;
  std::uint32_t forwards_[2]{}, backwards_[2]{};
  std::deque<Action> waiting_;
  std::vector<Action> order_;
};

}  // namespace

/// Eight phases per rank, h ranks away from the nearer end of p, c microbatches in each pipe:
///   1  forwards of the near pipe ahead          5  far backward, far forward beside near backward
///   2  forwards of both in turn                 6  the last backwards of both in turn, half of them split
///   3  far backward split, its weight, far      7  weight gradients and near backwards, split
///      forward
///   4  forward of one beside backward of the other   8  the weight gradients left
/// A forward beside a backward is two neighbouring actions here.
Orders schedule_dualpipe(const PipelineShape& shape) {
  const std::uint32_t p = shape.ranks, c = shape.microbatches / 2;
  Orders orders(p);
  for (std::uint32_t r = 0; r < p; ++r) {
    const std::uint32_t h = std::min(r, p - 1 - r), inner = p / 2 - h - 1;  // pairs of ranks further in
    List list(r < p / 2 ? 0 : 1, shape.microbatches);
    for (std::uint32_t k = 0; k < 2 * inner; ++k) list.forward(true);
    for (std::uint32_t k = 0; k <= h; ++k) {
      list.forward(true);
      list.forward(false);
    }
    for (std::uint32_t k = 0; k < inner; ++k) {
      list.backward(false, false);
      list.weight();
      list.forward(false);
    }
    for (std::uint32_t k = 0; k <= c + h - p; ++k) {
      list.forward(true);
      list.backward(false);
      list.forward(false);
      list.backward(true);
    }
    for (std::uint32_t k = 0; k < inner; ++k) {
      list.backward(false);
      list.forward(false);
      list.backward(true);
    }
    // 2 h + 2 backwards, of which the last h + 1 are split.
    for (std::uint32_t k = 0; k <= h; ++k) {
      list.backward(false, 2 * k < h + 1);
      list.backward(true, 2 * k + 1 < h + 1);
    }
    for (std::uint32_t k = 0; k < inner; ++k) {
      list.weight();
      list.backward(true, false);
    }
    for (std::uint32_t k = 0; k <= h; ++k) list.weight();
    orders[r] = list.take();
  }
  return orders;
}

}  // namespace orrery::lowering
