#pragma once

#include <QAbstractButton>
#include <QWidget>
#include <array>

#include "gui/model/metric.hpp"
#include "gui/model/services.hpp"

namespace orrery::gui {

/// One figure: its name, value, details, and the change against the baseline.
class MetricCard : public QAbstractButton {
  Q_OBJECT
 public:
  explicit MetricCard(Metric, QWidget* parent = nullptr);
  void show_prediction(const Prediction&, const Prediction* baseline);
  /// Whether the figure belongs to the plan before; then it is faint and says so.
  void set_outdated(bool);
  [[nodiscard]] bool is_outdated() const { return outdated_; }
  [[nodiscard]] const Reading& reading() const { return reading_; }
  [[nodiscard]] const MetricChange& shown_change() const { return change_; }
  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  Metric metric_;
  Reading reading_;
  MetricChange change_;
  bool outdated_ = false;
};

/// The figures of a prediction in a row; a click asks for the explanation of one.
class ResultsStrip : public QWidget {
  Q_OBJECT
 public:
  explicit ResultsStrip(QWidget* parent = nullptr);
  void show_prediction(const PredictionPointer&, const PredictionPointer& baseline);
  void set_outdated(bool);

 Q_SIGNALS:
  void explanation_wished(orrery::gui::Metric);

 private:
  std::array<MetricCard*, metric_count> cards_{};
};

}  // namespace orrery::gui
