#include "gui/app/application.hpp"

#include <QByteArray>
#include <QStringList>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::gui {
namespace {

struct HeldMessage {
  QtMsgType type;
  QByteArray category;
  QString text;
};
/// Messages of Qt while it looks for a display. The handler of messages is a plain function, so this cannot be a
/// member.
std::vector<HeldMessage>& held_messages() {
  static std::vector<HeldMessage> messages;
  return messages;
}

QString reason(const QString& last) {
  QStringList set;
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"}) {
    if (!qEnvironmentVariableIsEmpty(name))
      set += QStringLiteral("%1 is %2").arg(QLatin1String(name), qEnvironmentVariable(name));
  }
  if (set.isEmpty()) return QStringLiteral("neither DISPLAY nor WAYLAND_DISPLAY is set");
  // The first complaint tells most; those after it are Qt's guesses.
  const QString said = held_messages().empty() ? last : held_messages().front().text;
  return QStringLiteral("%1; %2").arg(set.join(QStringLiteral(", ")), said.simplified());
}

void hold_message(QtMsgType type, const QMessageLogContext& context, const QString& text) {
  if (type != QtFatalMsg) {
    held_messages().push_back({type, context.category, text});
    return;
  }
  std::fprintf(stderr,
               "error: no display for a window (%s); --export FOLDER writes every view as files, and needs none\n",
               qPrintable(reason(text)));
  std::_Exit(3);
}

/// Whether the command line asks for something that needs no window.
bool asks_for_no_window(int count, char** values) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = values[i];
    if (word == "--") return false;
    if (word == "-h" || word == "-v" || word == "--version" || word.starts_with("--help")) return true;
    for (const std::string_view option : {"--export", "--screenshots"}) {
      if (word == option || word.starts_with(std::string(option) + "=")) return true;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<QApplication> make_application(int& count, char** values) {
  if (asks_for_no_window(count, values)) qputenv("QT_QPA_PLATFORM", "offscreen");
  const QtMessageHandler usual = qInstallMessageHandler(hold_message);
  auto app = std::make_unique<QApplication>(count, values);
  qInstallMessageHandler(usual);
  for (const HeldMessage& m : held_messages()) {
    usual(m.type, QMessageLogContext(nullptr, 0, nullptr, m.category.constData()), m.text);
  }
  held_messages().clear();
  return app;
}

}  // namespace orrery::gui
