#include "gui/widgets/export_view.hpp"

#include <QBuffer>
#include <QCoreApplication>
#include <QFileInfo>
#include <QImage>
#include <QPageSize>
#include <QPdfWriter>
#include <QSaveFile>
#include <QSvgGenerator>
#include <QTableView>

#include "gui/model/cell_table.hpp"
#include "gui/widgets/chart.hpp"

namespace orrery::gui {
namespace {

constexpr int fineness = 2;        ///< of pictures in pixels
constexpr int dots_per_inch = 96;  ///< of the screen, and of pages
constexpr double points_per_inch = 72.0;

QString tr(const char* text) { return QCoreApplication::translate("orrery::gui", text); }

/// Charts keep pictures of themselves, so they are drawn anew: as lines, where the paper supports lines.
void paint(QWidget& view, QPaintDevice& paper) {
  QCPPainter painter;
  painter.begin(&paper);
  painter.setMode(QCPPainter::pmVectorized);
  view.render(&painter, {}, {}, QWidget::DrawWindowBackground | QWidget::DrawChildren);
  for (QCustomPlot* chart : view.findChildren<QCustomPlot*>()) {
    if (!chart->isVisibleTo(&view)) continue;
    painter.save();
    painter.translate(chart->mapTo(&view, QPoint(0, 0)));
    painter.fillRect(chart->rect(), chart->palette().color(QPalette::Base));
    chart->toPainter(&painter, chart->width(), chart->height());
    painter.restore();
  }
  painter.end();
}

QByteArray png_of(QWidget& view) {
  QImage image(view.size() * fineness, QImage::Format_RGB32);
  image.setDevicePixelRatio(fineness);
  image.fill(view.palette().color(QPalette::Window));
  view.render(&image, {}, {}, QWidget::DrawWindowBackground | QWidget::DrawChildren);
  QByteArray out;
  QBuffer buffer(&out);
  buffer.open(QIODevice::WriteOnly);
  image.save(&buffer, "PNG");
  return out;
}

QByteArray svg_of(QWidget& view) {
  QByteArray out;
  QBuffer buffer(&out);
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  generator.setSize(view.size());
  generator.setViewBox(view.rect());
  generator.setResolution(dots_per_inch);
  generator.setTitle(view.accessibleName().isEmpty() ? view.objectName() : view.accessibleName());
  paint(view, generator);
  return out;
}

QByteArray pdf_of(QWidget& view) {
  QByteArray out;
  QBuffer buffer(&out);
  buffer.open(QIODevice::WriteOnly);
  QPdfWriter writer(&buffer);
  writer.setResolution(dots_per_inch);
  writer.setPageSize(QPageSize(QSizeF(view.size()) * points_per_inch / dots_per_inch, QPageSize::Point));
  writer.setPageMargins(QMarginsF());
  paint(view, writer);
  return out;
}

/// The tables of a view, separated by empty lines.
QByteArray csv_of_view(const QWidget& view) {
  QString out;
  for (const QTableView* table : view.findChildren<QTableView*>()) {
    if (table->model() == nullptr || table->model()->columnCount() == 0) continue;
    out += (out.isEmpty() ? QString() : QStringLiteral("\r\n")) + csv_of(*table->model());
  }
  return out.toUtf8();
}

}  // namespace

QStringList export_endings() {
  return {QStringLiteral("png"), QStringLiteral("svg"), QStringLiteral("pdf"), QStringLiteral("csv")};
}

bool export_view(QWidget& view, const QString& file, QString& why) {
  const QString ending = QFileInfo(file).suffix().toLower();
  QByteArray bytes;
  if (view.size().isEmpty()) {
    why = tr("The view has no size: it was never shown.");
    return false;
  }
  if (ending == QStringLiteral("png")) {
    bytes = png_of(view);
  } else if (ending == QStringLiteral("svg")) {
    bytes = svg_of(view);
  } else if (ending == QStringLiteral("pdf")) {
    bytes = pdf_of(view);
  } else if (ending == QStringLiteral("csv")) {
    bytes = csv_of_view(view);
    if (bytes.isEmpty()) {
      why = tr("This view has no table.");
      return false;
    }
  } else {
    why = tr("A view is written as .png, .svg, .pdf or .csv, not as \"%1\".").arg(ending);
    return false;
  }
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly) || out.write(bytes) != bytes.size() || !out.commit()) {
    why = out.errorString();
    return false;
  }
  return true;
}

}  // namespace orrery::gui
