#pragma once

#include <cstdint>
#include <vector>

#include "gui/model/timeline_places.hpp"
#include "sim/cost/prices.hpp"
#include "sim/des/critical_path.hpp"
#include "sim/des/step_list.hpp"

namespace orrery::gui {

/// One op that another waits for.
struct Dependency {
  enum class Kind : std::uint8_t {
    lane,        ///< before it on its lane
    wait,        ///< named by its waits
    message,     ///< its message goes there
    collective,  ///< both are members of one collective, which begins when the last is ready
  };
  OpPlace from, to;
  Kind kind = Kind::lane;
  bool last = false;  ///< among all that `to` waited for it ended last, so it held `to` up
  friend bool operator==(const Dependency&, const Dependency&) = default;
};
[[nodiscard]] const char* name_of(Dependency::Kind);

/// Which op waits for which in a step, among the ranks of a timeline.
///
/// A rank that the trace left out is represented by the one of its class, which does the same at the same time.
class Dependencies {
 public:
  /// The prices say which lanes there are. Times are those of the timeline, which must outlive this object.
  Dependencies(const Program&, const Prices&, TimelinePointer);

  /// The ops that an op waited for; and the ops that wait for it. Members of one collective stand in both.
  [[nodiscard]] std::vector<Dependency> waited_for(const OpPlace&) const;
  [[nodiscard]] std::vector<Dependency> waited_by(const OpPlace&) const;

 private:
  [[nodiscard]] const StepList& list(std::uint32_t rank) const { return lists_[classes_[rank]]; }
  [[nodiscard]] std::uint32_t stand_in(Rank) const;
  void add_partners(const OpPlace&, bool incoming, std::vector<Dependency>&) const;
  [[nodiscard]] std::int64_t end_of(const OpPlace&) const;

  TimelinePointer timeline_;
  Mesh mesh_;
  std::vector<Group> groups_;
  std::vector<StepList> lists_;                       ///< by class
  std::vector<std::vector<std::uint32_t>> previous_;  ///< [class][op]: before it on its lane
  std::vector<std::uint32_t> classes_;                ///< by rank of the timeline
  std::vector<std::uint32_t> of_rank_;                ///< by rank of the mesh: who stands for it
};

/// A part of the critical path, on the timeline: consecutive ops of one rank are marks of their own.
struct PathMark {
  SlicePlace place;
  std::int64_t start = 0, end = 0;  ///< in which it decides
};
/// The steps of the path that the timeline has, in order of time.
[[nodiscard]] std::vector<PathMark> path_marks(const Timeline&, const CriticalPath&);

}  // namespace orrery::gui
