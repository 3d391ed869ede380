#pragma once

#include <QString>

class QWidget;

namespace orrery::gui {

/// Writes a view as it is on the screen: .png (twice as fine), .svg, .pdf (both in lines and letters), or, as .csv, the
/// tables in it.  False with the reason where it cannot be written, or where the view has no table.
[[nodiscard]] bool export_view(QWidget&, const QString& file, QString& why);
/// The endings that it knows, without dots.
[[nodiscard]] QStringList export_endings();

}  // namespace orrery::gui
