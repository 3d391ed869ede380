#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/units.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/net/earliest.hpp"
#include "sim/net/link.hpp"

namespace orrery {

/// Messages that share links, as fluids.
///
/// A flow waits for the latency of its route, then moves its bytes at the rate that max-min fairness gives it: all
/// flows grow together, and one stops growing when a link on its route is full. Rates hold until a flow begins or ends.
/// Time is a whole number of picoseconds; of several ends at one instant, the flow that was started first comes first.
///
/// Rates are kept as one *level* per link: the rate of a flow there that no other link holds lower. A link's level
/// follows from the levels of the other links that its flows cross. So after a change only links whose flows' limits
/// moved are looked at again; a fixed point of all levels is the max-min fair allocation (docs/network-model.md).
///
/// Bertsekas and Gallager, Data Networks, 2nd ed., 1992, section 6.5.2, define
/// max-min fairness and prove that every flow has a bottleneck link.
class FlowNetwork {
 public:
  /// `capacity` is called once for each of the `links` that a flow crosses; it must be above zero.
  FlowNetwork(std::uint32_t links, std::function<Bandwidth(LinkId)> capacity);

  /// From `now` on, `payload` travels over `route`; its first byte takes `latency`. `number` comes back when the last
  /// byte is there. A route crosses a link at most once; an empty route takes its latency only. Requires that now is
  /// neither before the time that advance() has reached nor after next_event().
  void start(Picoseconds now, std::span<const LinkId> route, Picoseconds latency, Bytes payload, std::uint32_t number);
  /// Starts a flow of several strands that keep pace, such as the hops of a ring: at rate r each, link route[i] gives
  /// it weights[i] r. It is never faster than `most`, whatever its links have to spare.
  void start(Picoseconds now, std::span<const LinkId> route, std::span<const double> weights, Bandwidth most,
             Picoseconds latency, Bytes payload, std::uint32_t number);

  [[nodiscard]] bool idle() const { return flows_ == 0; }
  /// The time of the next event: a first byte or an end. Requires a network that is not idle.
  [[nodiscard]] Picoseconds next_event();
  /// Goes to next_event() and appends the numbers of the flows that end there,
  /// possibly none.
  void advance(std::vector<std::uint32_t>& ended);

  /// Bytes of the flows that have crossed a link to their ends.
  [[nodiscard]] Bytes carried(LinkId) const;
  /// Current rate of a flow that moves bytes; zero for any other number. It is slow, and made for tests.
  [[nodiscard]] Bandwidth rate(std::uint32_t number);
  /// Number of levels computed so far, a measure of work.
  [[nodiscard]] std::uint64_t levels_computed() const { return levels_computed_; }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct Hop {
    double weight = 1.0;         ///< of the flow's rate on the link
    std::uint32_t position = 0;  ///< of the flow in the link's list
  };
  /// The parts of a flow that are read whenever a level is computed, kept close together.
  struct Course {
    double alone = 0.0;           ///< `most`, or less where the hops that no other flow crosses give less
    std::uint32_t first_hop = 0;  ///< a multiple of four
    std::uint32_t shared = 0;     ///< number of its hops that others cross as well; they stand first
    std::uint32_t hops = 0;
    std::uint32_t binder = none;  ///< the shared link that holds it back; none: only its own hops do
    bool weighted = false;        ///< its start gave weights
  };
  struct Flow {
    double left = 0.0;        ///< bytes: when alone, at `since`; otherwise the `given` of its binder at which it ends
    double rate = 0.0;        ///< bytes per picosecond, where it is alone
    Picoseconds since = 0;    ///< its rate holds
    std::uint64_t order = 0;  ///< of its start
    double most = 0.0;        ///< rate that it never exceeds
    double payload = 0.0;
    std::uint32_t number = 0, room = 0;
  };
  struct Member {
    std::uint32_t flow, hop;  ///< hop: of hops_
  };
  /// All flows that a link holds back have one rate, the link's level. So their ends keep their order while the level
  /// changes, and a change costs nothing per flow.
  struct SharedLink {
    double capacity = 0.0;  ///< bytes per picosecond
    std::vector<Member> members;
    std::uint32_t weighted = 0;  ///< members whose weight is not 1
    std::uint32_t bound = 0;     ///< members that it holds back
    double given = 0.0;          ///< bytes, to each of these up to `since`
    double first = 0.0;          ///< the value of `given` at which the first of them ends
    Picoseconds since = 0;
    double carried = 0.0;
    bool touched = false;
    bool rebound = false;  ///< which flows it holds back has changed
  };
  struct Waiting {
    Picoseconds at;
    std::uint64_t order;
    std::uint32_t flow;
  };

  std::uint32_t link_of(LinkId);
  std::uint32_t new_flow(std::uint32_t hops);
  void enter(std::uint32_t flow);
  void leave(std::uint32_t flow);
  void settle();
  void set_shared(Member, bool shared);
  void mark(std::uint32_t link);
  void touch(std::uint32_t link);
  void update_level(std::uint32_t link);
  void compute_level(std::uint32_t link);
  [[nodiscard]] double least_on(std::uint32_t flow) const;
  struct Sums {
    double below, counted;
  };
  template <bool weighted>
  [[nodiscard]] Sums add_few(double level) const;
  template <bool weighted>
  [[nodiscard]] Sums add_many(double level, std::size_t flows) const;
  template <bool weighted>
  [[nodiscard]] double fair_level(std::uint32_t link);
  [[nodiscard]] double alone_on(std::uint32_t hop) const { return links_[hop_link_[hop]].capacity / hops_[hop].weight; }
  void set_level(std::uint32_t link, double level);
  void pass_on(std::uint32_t flow, double before, double after);
  void bind(std::uint32_t flow);
  void rebind(std::uint32_t link);
  void give(std::uint32_t link);
  void refresh_end(std::uint32_t link);
  [[nodiscard]] Picoseconds end_on(std::uint32_t link, double left) const;
  [[nodiscard]] Picoseconds next_entry() const;

  std::function<Bandwidth(LinkId)> capacity_;
  std::vector<std::uint32_t> slot_;  ///< place of a LinkId in links_, none before its first flow
  std::vector<SharedLink> links_;
  std::vector<double> level_;  ///< of links_: bytes per picosecond; infinity where not full
  /// For links_: how much more their flows may take before the level has to be computed. Infinity: it will be computed
  /// anyway. Less than anything: the link is full.
  std::vector<double> spare_;
  std::vector<char> is_dirty_;  ///< of links_
  std::vector<Flow> flow_;
  std::vector<Course> course_;  ///< of flow_
  std::vector<double> rate_;    ///< for flow_: the least level on its route, as far as levels are computed
  std::vector<Hop> hops_;
  std::vector<std::uint32_t> hop_link_;  ///< for hops_: index in links_; after a flow's hops the first link, which has
                                         ///< no flow
  std::vector<std::uint32_t> free_;

  std::vector<Waiting> in_order_;  ///< waiting flows; entries from in_order_first_ on, by time
  std::size_t in_order_first_ = 0;
  std::vector<Waiting> heap_;  ///< those that came out of order

  Earliest link_ends_;  ///< by link: first end among the flows that it holds back
  Earliest flow_ends_;  ///< by flow: ends of flows that are alone on the link that holds them back

  std::vector<std::pair<double, std::uint32_t>> dirty_;  ///< heap: links to look at again, lowest level first
  std::vector<std::uint32_t> touched_, ending_;
  std::vector<std::uint32_t> unsure_;  ///< flows that another link may hold back now, or that a link may hold back for
                                       ///< the first time
  std::vector<std::uint32_t> held_;    ///< scratch of compute_level: members at the link's level
  std::size_t held_count_ = 0;         ///< as many of held_ count
  // The same, filled up with infinities and zeros to a multiple of four.
  std::vector<double> limits_, weights_;
  double wanted_ = 0.0;  ///< where the link cannot be filled: the sum of its flows' rates
  std::uint64_t orders_ = 0, levels_computed_ = 0;
  std::uint32_t flows_ = 0;
  Picoseconds now_ = 0;
};

}  // namespace orrery
