#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/fabric_service.hpp"
#include "gui/model/focus.hpp"

class QComboBox;
class QListWidget;
class QSlider;
class QTableView;

namespace orrery::gui {

class FabricView;

/// The fabric under the plan, its hottest links by name, and the order of the mesh's axes, which decides where ranks
/// are.
class TopologyPanel : public QWidget {
  Q_OBJECT
 public:
  TopologyPanel(Library, Focus&, QWidget* parent = nullptr);
  void set_prediction(PredictionPointer);
  void set_step(SimulatedPointer);
  [[nodiscard]] const CellTable& table() const { return table_; }
  /// Whether the picture belongs to the newest prediction, or cannot be shown.
  [[nodiscard]] bool is_settled() const { return !asked_; }

 Q_SIGNALS:
  /// Axes stand outermost first.
  void order_wished(const std::vector<orrery::Axis>&);
  void swap_wished(std::uint32_t device, std::uint32_t other);

 protected:
  void showEvent(QShowEvent*) override;

 private:
  void show_axes();
  void ask();
  void take(const FabricShownPointer&);
  /// The time over which links are loaded, in the order of its box.
  enum class LoadOf : std::uint8_t { step, range, cursor };
  [[nodiscard]] LoadOf load_of() const;
  /// Unset means the whole step.
  [[nodiscard]] std::optional<TimeRange> range() const;

  Library library_;
  Focus& focus_;
  FabricService service_;
  PredictionPointer prediction_;
  SimulatedPointer step_;
  bool asked_ = false;
  bool outdated_ = false;  ///< asks when it is shown
  CellTable table_;
  FabricView* view_;
  QComboBox* fabric_;
  QComboBox* axis_;
  QComboBox* load_;
  QSlider* time_;
  QListWidget* order_;
  QTableView* list_;
};

}  // namespace orrery::gui
