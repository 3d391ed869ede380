#pragma once

#include <QString>

class QWidget;

namespace orrery::gui {

/// Writes a view as it is on the screen: as .png (with twice the resolution), .svg, .pdf (both with lines and letters),
/// or, as .csv, the tables in it. Returns false with the reason where it cannot be written, or where the view has no
/// table.
[[nodiscard]] bool export_view(QWidget&, const QString& file, QString& why);
/// The supported file endings, without dots.
[[nodiscard]] QStringList export_endings();

}  // namespace orrery::gui
