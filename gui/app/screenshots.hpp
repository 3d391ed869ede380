#pragma once

#include <QString>

namespace orrery::gui {

class MainWindow;

/// Shows each panel of the window in turn, light and dark, at 1280 x 800, and writes pictures of it into the folder.
/// Returns an exit status.
[[nodiscard]] int take_screenshots(MainWindow&, const QString& folder);

}  // namespace orrery::gui
