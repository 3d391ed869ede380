#include "gui/widgets/waterfall_chart.hpp"

#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/widgets/chart.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

/// Terms above which the smallest are drawn as one.
constexpr std::size_t most_terms = 8;

}  // namespace

WaterfallChart::WaterfallChart(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  plot_ = new QCustomPlot(this);
  plot_->setAccessibleName(tr("Waterfall of the two step times; the table beside it has the figures"));
  plot_->setMinimumSize(90, 90);
  column->addWidget(plot_);
  // The bars lie, because names are long. Each stands on an invisible one.
  const auto bars = [this] {
    auto* b = new QCPBars(plot_->yAxis, plot_->xAxis);
    b->setPen(Qt::NoPen);
    b->setWidth(0.7);
    return b;
  };
  below_ = bars();
  below_->setBrush(Qt::NoBrush);
  whole_ = bars();
  longer_ = bars();
  shorter_ = bars();
  longer_->moveAbove(below_);
  shorter_->moveAbove(longer_);
  plot_->yAxis->setRangeReversed(true);
  plot_->yAxis->grid()->setVisible(false);
  plot_->yAxis->setSubTicks(false);
  plot_->xAxis->setSubTicks(false);
  draw();
}

void WaterfallChart::show_comparison(ComparisonPointer comparison) {
  comparison_ = std::move(comparison);
  draw();
}

void WaterfallChart::draw() {
  dress(*plot_, palette());
  const bool dark = is_dark(palette());
  whole_->setBrush(faint(palette()));
  longer_->setBrush(bad_colour(dark));
  shorter_->setBrush(good_colour(dark));
  if (!comparison_) return plot_->replot(QCustomPlot::rpQueuedReplot);

  // The longest changes in their order, and the others as one.
  struct Bar {
    QString name;
    double change;
  };
  std::vector<Bar> changes;
  for (const WaterfallTerm& t : comparison_->terms) {
    if (t.change() != 0.0) changes.push_back({QString::fromStdString(t.name), t.change()});
  }
  if (changes.size() > most_terms) {
    std::vector<double> sizes;
    for (const Bar& b : changes) sizes.push_back(std::abs(b.change));
    std::nth_element(sizes.begin(), sizes.begin() + most_terms - 1, sizes.end(), std::greater<>());
    const double least = sizes[most_terms - 1];
    Bar others{tr("others"), 0.0};
    std::erase_if(changes, [&](const Bar& b) {
      if (std::abs(b.change) >= least) return false;
      others.change += b.change;
      return true;
    });
    changes.push_back(others);
  }
  const double a = static_cast<double>(comparison_->a.timeline.duration) * 1e-12;
  const double b = static_cast<double>(comparison_->b.timeline.duration) * 1e-12;
  const double most = std::max(a, b);
  const double unit = most < 1e-3 ? 1e6 : most < 1.0 ? 1e3 : 1.0;
  plot_->xAxis->setLabel(unit == 1e6 ? tr("step, \u00B5s") : unit == 1e3 ? tr("step, ms") : tr("step, s"));

  const auto ticker = QSharedPointer<QCPAxisTickerText>::create();
  QVector<double> at{0.0}, below{0.0}, whole{a * unit}, longer{0.0}, shorter{0.0};
  ticker->addTick(0.0, comparison_->a.name);
  double level = a, lowest = std::min(a, b), highest = most;
  for (const Bar& bar : changes) {
    const double next = level + bar.change, key = static_cast<double>(at.size());
    ticker->addTick(key, bar.name);
    at.push_back(key);
    below.push_back(std::min(level, next) * unit);
    whole.push_back(0.0);
    longer.push_back(std::max(0.0, bar.change) * unit);
    shorter.push_back(std::max(0.0, -bar.change) * unit);
    level = next;
    lowest = std::min(lowest, level);
    highest = std::max(highest, level);
  }
  const double last = static_cast<double>(at.size());
  ticker->addTick(last, comparison_->b.name);
  at.push_back(last);
  below.push_back(0.0);
  whole.push_back(b * unit);
  longer.push_back(0.0);
  shorter.push_back(0.0);
  below_->setData(at, below, true);
  whole_->setData(at, whole, true);
  longer_->setData(at, longer, true);
  shorter_->setData(at, shorter, true);
  plot_->yAxis->setTicker(ticker);
  plot_->yAxis->setRange(-0.6, last + 0.6);
  // Changes are visible however small they are beside the step. Where the axis does not begin at zero it says so.
  const double spread = std::max(highest - lowest, 1e-3 * highest);
  const double from = std::max(0.0, lowest - 1.5 * spread);
  plot_->xAxis->setRange(from < 0.3 * highest ? 0.0 : from * unit, (highest + 0.15 * spread) * unit);
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

void WaterfallChart::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) draw();
}

}  // namespace orrery::gui
