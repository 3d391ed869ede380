#pragma once

#include <QApplication>
#include <memory>

namespace orrery::gui {

/// The program's QApplication. Help, the version and pictures of views need no window, and so no display. Where another
/// start finds no display, one line on standard error says so, and the program ends with status 3 (Qt alone would
/// abort). `count` and `values` must live as long as the application.
[[nodiscard]] std::unique_ptr<QApplication> make_application(int& count, char** values);

}  // namespace orrery::gui
