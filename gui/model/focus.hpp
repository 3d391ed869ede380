#pragma once

#include <QObject>
#include <cstdint>
#include <optional>

#include "gui/model/time_axis.hpp"
#include "gui/model/timeline_places.hpp"

namespace orrery::gui {

/// The things that all views look at: the range of time on the screen, the selected range, the instant, the operation,
/// the stage and the selected found plan.
///
/// One per window. A view that changes it does not tell the others, because all of them follow its signals.
class Focus : public QObject {
  Q_OBJECT
 public:
  using QObject::QObject;

  /// Length of the step that is shown, in picoseconds. Setting another one shows all of it and selects nothing.
  [[nodiscard]] std::int64_t duration() const { return duration_; }
  void set_duration(std::int64_t);

  [[nodiscard]] TimeRange visible() const { return visible_; }
  void set_visible(TimeRange);  ///< clamped to the step
  void show_all();

  [[nodiscard]] std::optional<TimeRange> selected() const { return selected_; }
  void select(std::optional<TimeRange>);

  /// The current instant, to which playing has come.
  [[nodiscard]] std::optional<std::int64_t> cursor() const { return cursor_; }
  void set_cursor(std::optional<std::int64_t>);  ///< clamped to the step

  [[nodiscard]] std::optional<OpPlace> op() const { return op_; }
  void set_op(std::optional<OpPlace>);

  [[nodiscard]] std::optional<std::uint32_t> stage() const { return stage_; }
  void set_stage(std::optional<std::uint32_t>);

  /// Number, in the searched space, of the found plan that is selected.
  [[nodiscard]] std::optional<std::uint64_t> found() const { return found_; }
  void set_found(std::optional<std::uint64_t>);

 Q_SIGNALS:
  void visible_changed();
  void selection_changed();
  void cursor_changed();
  void op_changed();
  void stage_changed();
  void found_changed();

 private:
  std::int64_t duration_ = 0;
  TimeRange visible_;
  std::optional<TimeRange> selected_;
  std::optional<std::int64_t> cursor_;
  std::optional<OpPlace> op_;
  std::optional<std::uint32_t> stage_;
  std::optional<std::uint64_t> found_;
};

}  // namespace orrery::gui
