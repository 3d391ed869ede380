#include <QCommandLineParser>
#include <QLocale>
#include <QSettings>
#include <QStandardPaths>
#include <QTranslator>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "gui/app/application.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/screenshots.hpp"
#include "gui/app/window_tools.hpp"

namespace {

/// The folder of --data, or the one beside the installed program, or the one in the source tree.
std::filesystem::path data_folder(const QString& given) {
  if (!given.isEmpty()) return given.toStdString();
  const std::filesystem::path program = QCoreApplication::applicationDirPath().toStdString();
  const std::filesystem::path installed = program.parent_path() / "share" / "orrery" / "models";
  std::error_code failure;
  if (std::filesystem::is_directory(installed, failure)) return installed;
  return std::filesystem::path(ORRERY_SOURCE_DIR) / "models";
}

/// The path where `orrery calibrate` writes without -o.
std::filesystem::path own_calibration() {
  const QString data = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation);
  return std::filesystem::path(data.toStdString()) / "orrery" / "calibration" / "cpu-core.toml";
}

/// The folder where open plans are kept.
std::filesystem::path session_folder() {
  const QString data = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation);
  return std::filesystem::path(data.toStdString()) / "orrery" / "session";
}

/// The size in a text such as "2560x1440"; empty where it is none.
QSize size_of(const QString& text) {
  const QStringList sides = text.split(u'x');
  if (sides.size() != 2) return {};
  const QSize out(sides[0].toInt(), sides[1].toInt());  // 0 where it is not a number
  return out.width() > 0 && out.height() > 0 && out.width() <= 16'384 && out.height() <= 16'384 ? out : QSize();
}

int export_views(orrery::gui::MainWindow& window, const QString& folder) {
  window.show();
  window.wait_until_settled();
  QString why;
  if (window.tools().export_all(folder, why)) return 0;
  std::fprintf(stderr, "error: %s\n", qPrintable(why));
  return 3;
}

}  // namespace

int main(int count, char** values) {
  const auto app = orrery::gui::make_application(count, values);
  QCoreApplication::setApplicationName(QStringLiteral("orrery-gui"));
  QCoreApplication::setOrganizationName(QStringLiteral("orrery"));
  QCoreApplication::setApplicationVersion(QStringLiteral(ORRERY_VERSION));
  QApplication::setStyle(QStringLiteral("Fusion"));

  QCommandLineParser parser;
  parser.setApplicationDescription(
      QStringLiteral("Plans and predicts parallel training of large models, on the desktop."));
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument(QStringLiteral("PLAN"), QStringLiteral("a plan file, or the name of an example plan"),
                               QStringLiteral("[PLAN]"));
  const QCommandLineOption dark(QStringLiteral("dark"), QStringLiteral("begin in dark colours"));
  const QCommandLineOption data(QStringLiteral("data"), QStringLiteral("folder of models, clusters and calibrations"),
                                QStringLiteral("FOLDER"));
  const QCommandLineOption pictures(QStringLiteral("screenshots"),
                                    QStringLiteral("write pictures of every panel, and end"), QStringLiteral("FOLDER"));
  const QCommandLineOption exported(QStringLiteral("export"),
                                    QStringLiteral("write every view as .png, .svg, .pdf and .csv, and end"),
                                    QStringLiteral("FOLDER"));
  const QCommandLineOption size(QStringLiteral("size"), QStringLiteral("size of the window, in pixels"),
                                QStringLiteral("WIDTHxHEIGHT"), QStringLiteral("1280x800"));
  parser.addOptions({dark, data, pictures, exported, size});
  parser.process(*app);
  const QSize pixels = size_of(parser.value(size));
  if (pixels.isEmpty()) {
    std::fprintf(stderr, "error: --size is \"%s\"; it must be two numbers of pixels, as 2560x1440\n",
                 qPrintable(parser.value(size)));
    return 2;
  }

  const std::filesystem::path models = data_folder(parser.value(data));
  QTranslator texts;  // of the person's language, where somebody made them (tools/translations)
  if (texts.load(QLocale(), QStringLiteral("orrery"), QStringLiteral("_"),
                 QString::fromStdString((models / "translation").string()))) {
    QCoreApplication::installTranslator(&texts);
  }

  using namespace orrery::gui;
  QSettings settings;
  const bool drawn = parser.isSet(pictures) || parser.isSet(exported);
  use_theme(parser.isSet(dark) || (!drawn && settings.value(QStringLiteral("dark")).toBool()));
  MainWindow window(orrery::Library(models), own_calibration(), std::thread::hardware_concurrency(), usual_dialogs());
  const QStringList given = parser.positionalArguments();
  const QString plan = given.isEmpty() ? QStringLiteral("llama-3-70b-8-dgx-h100") : given.front();
  window.resize(pixels);
  window.widen_side(MainWindow::usual_side);
  if (drawn) {
    if (!window.open(plan)) {
      std::fprintf(stderr, "error: the plan cannot be opened\n");
      return 2;
    }
    if (parser.isSet(pictures)) return take_screenshots(window, parser.value(pictures));
    return export_views(window, parser.value(exported));
  }
  if (!parser.isSet(size)) window.restoreGeometry(settings.value(QStringLiteral("geometry")).toByteArray());
  window.restoreState(settings.value(QStringLiteral("panels")).toByteArray());
  window.tools().keep_session(session_folder(), given.isEmpty());
  if (!window.document().is_open()) window.open(plan);
  window.show();
  const int status = QApplication::exec();
  window.tools().end_session();
  settings.setValue(QStringLiteral("geometry"), window.saveGeometry());
  settings.setValue(QStringLiteral("panels"), window.saveState());
  settings.setValue(QStringLiteral("dark"), QApplication::palette().color(QPalette::Window).lightness() < 128);
  return status;
}
