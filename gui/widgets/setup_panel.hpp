#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/legal_service.hpp"
#include "gui/model/plan_document.hpp"

class QComboBox;
class QLabel;

namespace orrery::gui {

class DimensionEditor;
class MessageLabel;
class SettingsForm;

/// Model, cluster, settings, workload and plan.  A Hugging Face config.json, a model, cluster or plan file can be
/// dropped on it.
class SetupPanel : public QWidget {
  Q_OBJECT
 public:
  explicit SetupPanel(PlanDocument&, QWidget* parent = nullptr);
  /// Whether sliders and lists know the values that can be reached from the document as it is.
  [[nodiscard]] bool is_settled() const { return reachable_from_ == document_.priced(); }

 Q_SIGNALS:
  /// A file of any kind was dropped.
  void dropped(const QString& file);
  void model_wished(const QString& reference);
  void cluster_wished(const QString& reference);
  void settled();

 protected:
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;

 private:
  void show_document();

  PlanDocument& document_;
  LegalService legal_;
  std::shared_ptr<const PricedRun> reachable_from_;
  QComboBox* model_;
  QComboBox* cluster_;
  QLabel* about_;
  SettingsForm* settings_;
  MessageLabel* answer_;
  std::vector<DimensionEditor*> editors_;
};

}  // namespace orrery::gui
