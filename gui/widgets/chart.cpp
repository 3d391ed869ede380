#include "gui/widgets/chart.hpp"

#include "gui/widgets/theme.hpp"

namespace orrery::gui {

void lift_legend(QCustomPlot& plot, int columns) {
  plot.setMinimumSize(90, 90);  // on nothing at all it complains
  plot.legend->setVisible(true);
  plot.legend->setWrap(columns);
  plot.legend->setFillOrder(QCPLegend::foColumnsFirst);  // arranges what is there by both
  plot.legend->setRowSpacing(1);
  plot.legend->setMargins(QMargins(6, 4, 6, 2));
  plot.legend->setIconSize(14, 10);
  plot.plotLayout()->insertRow(0);
  plot.plotLayout()->addElement(0, 0, plot.legend);
  plot.plotLayout()->setRowStretchFactor(0, 0.001);
}

void dress(QCustomPlot& plot, const QPalette& p) {
  const QColor text = p.color(QPalette::WindowText);
  const QPen line(faint(p));
  QColor grid = faint(p);
  grid.setAlpha(70);
  plot.setBackground(p.color(QPalette::Base));
  for (QCPAxis* axis : {plot.xAxis, plot.yAxis, plot.xAxis2, plot.yAxis2}) {
    axis->setBasePen(line);
    axis->setTickPen(line);
    axis->setSubTickPen(line);
    axis->setTickLabelColor(text);
    axis->setLabelColor(text);
    axis->setTickLabelFont(plot.font());
    axis->setLabelFont(plot.font());
    axis->grid()->setPen(QPen(grid));
    axis->grid()->setZeroLinePen(Qt::NoPen);
  }
  plot.legend->setBrush(p.color(QPalette::Base));
  plot.legend->setBorderPen(Qt::NoPen);
  plot.legend->setTextColor(text);
  plot.legend->setFont(plot.font());
}

}  // namespace orrery::gui
