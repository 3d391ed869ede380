#pragma once

#include <QWidget>
#include <memory>
#include <vector>

#include "gui/model/comparison.hpp"

class QCPBars;
class QCustomPlot;

namespace orrery::gui {

/// The way from one step time to another, term by term: each bar begins where the one above ended.
class WaterfallChart : public QWidget {
  Q_OBJECT
 public:
  explicit WaterfallChart(QWidget* parent = nullptr);
  void show_comparison(ComparisonPointer);

 protected:
  void changeEvent(QEvent*) override;

 private:
  void draw();

  ComparisonPointer comparison_;
  QCustomPlot* plot_;
  QCPBars *below_, *whole_, *longer_, *shorter_;
};

}  // namespace orrery::gui
