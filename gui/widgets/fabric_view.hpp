#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "gui/model/fabric_service.hpp"

namespace orrery::gui {

/// The fabric: devices are below, coloured by their group along an axis, switches above, and links are coloured by
/// load. Dragging a device onto another one asks to exchange their ranks. By keyboard, left and right go from device to
/// device. Space takes one up and, on another, puts it down; Escape lets it go.
class FabricView : public QWidget {
  Q_OBJECT
 public:
  explicit FabricView(QWidget* parent = nullptr);
  void set_fabric(FabricShownPointer);
  void set_axis(Axis);
  void set_message(const QString&);
  [[nodiscard]] QSize minimumSizeHint() const override { return {200, 160}; }
  /// Where a cell is drawn.
  [[nodiscard]] QRectF cell_rect(std::uint32_t level, std::uint32_t cell) const;

 Q_SIGNALS:
  /// Devices of the fabric.
  void swap_wished(std::uint32_t one, std::uint32_t other);
  void device_chosen(std::uint32_t device);

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void mouseReleaseEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;
  void focusInEvent(QFocusEvent*) override;
  void focusOutEvent(QFocusEvent*) override;
  bool event(QEvent*) override;

 private:
  /// The rank on a device of the fabric; empty where the plan leaves it idle.
  [[nodiscard]] std::optional<Rank> rank_on(std::uint32_t device) const;
  [[nodiscard]] QString level_name(std::uint32_t level) const;
  /// Width at the left for the names of levels.
  [[nodiscard]] double names_width() const;
  void paint_cell(QPainter&, std::uint32_t level, std::uint32_t cell) const;
  /// The only device at a place; empty where there is none, or several.
  [[nodiscard]] std::optional<std::uint32_t> device_at(const QPointF&) const;
  [[nodiscard]] QString describe(const QPointF&) const;

  FabricShownPointer shown_;
  std::vector<std::uint32_t> rank_of_device_;
  Axis axis_ = Axis::data;
  QString message_;
  /// Devices that are drawn alone.
  [[nodiscard]] std::vector<std::uint32_t> single_devices() const;

  std::optional<std::uint32_t> hand_;  ///< the device that keys are for
  std::optional<std::uint32_t> dragged_;
  QPointF drag_at_;
};

}  // namespace orrery::gui
