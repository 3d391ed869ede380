#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/plan_document.hpp"

class QComboBox;
class QLabel;

namespace orrery::gui {

class DimensionEditor;

/// Model, cluster, workload and plan.  A Hugging Face config.json, a model, cluster or plan file can be dropped on it.
class SetupPanel : public QWidget {
  Q_OBJECT
 public:
  explicit SetupPanel(PlanDocument&, QWidget* parent = nullptr);

 Q_SIGNALS:
  /// A file that was dropped, of whatever kind.
  void dropped(const QString& file);
  void model_wished(const QString& reference);
  void cluster_wished(const QString& reference);

 protected:
  void dragEnterEvent(QDragEnterEvent*) override;
  void dropEvent(QDropEvent*) override;

 private:
  void show_document();

  PlanDocument& document_;
  QComboBox* model_;
  QComboBox* cluster_;
  QLabel* about_;
  QLabel* answer_;
  std::vector<DimensionEditor*> editors_;
};

}  // namespace orrery::gui
