#include "gui/model/focus.hpp"

#include <algorithm>

namespace orrery::gui {

void Focus::set_duration(std::int64_t duration) {
  if (duration == duration_) return;
  duration_ = duration;
  select(std::nullopt);
  set_cursor(std::nullopt);
  show_all();
}

void Focus::set_visible(TimeRange range) {
  range = clamped(range, duration_);
  if (range == visible_) return;
  visible_ = range;
  Q_EMIT visible_changed();
}

void Focus::show_all() { set_visible({0, duration_}); }

void Focus::select(std::optional<TimeRange> range) {
  if (range == selected_) return;
  selected_ = range;
  Q_EMIT selection_changed();
}

void Focus::set_cursor(std::optional<std::int64_t> time) {
  if (time) time = std::clamp<std::int64_t>(*time, 0, duration_);
  if (time == cursor_) return;
  cursor_ = time;
  Q_EMIT cursor_changed();
}

void Focus::set_op(std::optional<OpPlace> op) {
  if (op == op_) return;
  op_ = op;
  Q_EMIT op_changed();
}

void Focus::set_stage(std::optional<std::uint32_t> stage) {
  if (stage == stage_) return;
  stage_ = stage;
  Q_EMIT stage_changed();
}

void Focus::set_found(std::optional<std::uint64_t> found) {
  if (found == found_) return;
  found_ = found;
  Q_EMIT found_changed();
}

}  // namespace orrery::gui
