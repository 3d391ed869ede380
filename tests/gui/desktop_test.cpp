#include <catch2/catch.hpp>

#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QThread>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "core/plan/plan_file.hpp"
#include "gui/app/main_window.hpp"
#include "tests/gui/virtual_display.hpp"
#include "tests/support/program_run.hpp"

// The program itself on a display: what `tools/demo --gui` does at its end, and what is visible then.

using namespace orrery;
using namespace orrery::gui;

namespace {

constexpr QSize screen(1600, 1000), window_size(1280, 800);

/// Where anything but the black root is drawn.
QRect drawn_in(const QImage& picture) {
  QRect out;
  for (int y = 0; y < picture.height(); ++y) {
    const auto* line = reinterpret_cast<const QRgb*>(picture.constScanLine(y));
    int first = 0, last = picture.width() - 1;
    while (first <= last && (line[first] & RGB_MASK) == 0) ++first;
    while (last >= first && (line[last] & RGB_MASK) == 0) --last;
    if (first <= last) out |= QRect(first, y, last - first + 1, 1);
  }
  return out;
}

/// Share of the pixels whose channels are further apart than antialiasing makes them.
double different(const QImage& a, const QImage& b) {
  qint64 out = 0;
  for (int y = 0; y < a.height(); ++y) {
    for (int x = 0; x < a.width(); ++x) {
      const QRgb p = a.pixel(x, y), q = b.pixel(x, y);
      out += std::abs(qRed(p) - qRed(q)) > 24 || std::abs(qGreen(p) - qGreen(q)) > 24 ||
             std::abs(qBlue(p) - qBlue(q)) > 24;
    }
  }
  return static_cast<double>(out) / (static_cast<double>(a.width()) * a.height());
}

/// Waits for a picture that stays as it is for two seconds and that `holds`.
template <class Holds>
QImage settled_picture(const gui::test::VirtualDisplay& display, Holds&& holds) {
  QElapsedTimer whole, still;
  whole.start();
  still.start();
  QImage last;
  while (whole.elapsed() < 180'000) {
    const QImage now = display.picture();
    if (now != last) {
      last = now;
      still.restart();
    } else if (still.elapsed() > 2'000 && holds(now)) {
      return now;
    }
    QThread::msleep(50);
  }
  return last;
}

}  // namespace

TEST_CASE("orrery-gui opens on a display with the demo's plan, and shows what its window paints", "[gui]") {
  if (gui::test::VirtualDisplay::server().isEmpty()) {
    std::puts("skipped: there is no Xvfb (tools/setup installs it)");
    std::exit(77);
  }
  const QTemporaryDir folder;
  const QString plan = folder.filePath(QStringLiteral("llama-3-70b.toml"));
  const std::string data = std::string(ORRERY_SOURCE_DIR) + "/models";
  const orrery::test::Ran found =  // as in tools/demo
      orrery::test::run(ORRERY_PROGRAM, "plan --model " + data +
                                            "/hf/llama-3-70b/config.json --cluster dgx-h100 --gpus 64 "
                                            "--batch 128 --seq 8192 --precision bf16 --top 1 -o " +
                                            plan.toStdString());
  INFO(found.err);
  REQUIRE(found.status == 0);

  const gui::test::VirtualDisplay display(screen);
  REQUIRE_FALSE(display.name().isEmpty());
  // What the same window paints on request, at rest.
  qputenv("QT_QPA_PLATFORM", "xcb");
  qputenv("DISPLAY", display.name().toLatin1());
  QImage painted;
  {
    int count = 1;
    char name[] = "gui_desktop";
    char* values[] = {name, nullptr};
    const QApplication app(count, values);
    QApplication::setStyle(QStringLiteral("Fusion"));
    use_theme(false);
    Dialogs answers;
    answers.may_discard = [](QWidget*) { return true; };
    MainWindow window(Library(std::filesystem::path(data)), {}, std::thread::hardware_concurrency(), answers);
    window.resize(window_size);
    window.widen_side(MainWindow::usual_side);  // as the program does
    REQUIRE(window.open(plan));
    window.show();
    window.wait_until_settled();
    painted = window.grab().toImage().convertToFormat(QImage::Format_RGB32);
    painted.save(QStringLiteral("desktop-painted.png"));  // to look at
    CHECK(window.prediction()->run.model.name == "llama-3-70b");
  }

  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QStringLiteral("xcb"));
  environment.insert(QStringLiteral("DISPLAY"), display.name());
  for (const char* home : {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}) {
    environment.insert(QLatin1String(home), folder.path());
  }
  QProcess program;
  program.setProcessEnvironment(environment);
  program.setProcessChannelMode(QProcess::MergedChannels);
  program.start(QStringLiteral(ORRERY_GUI_PROGRAM), {plan});
  REQUIRE(program.waitForStarted());
  // The program's window comes to rest at its default size and shows the same. How long that takes depends on what else
  // the machine does, so stillness alone proves nothing. All is equal except the time of the estimate, in the line at
  // the bottom: 200 x 20 pixels are 0.4 %.
  const QImage seen = settled_picture(display, [&](const QImage& now) {
    const QRect at = drawn_in(now);
    return at.size() == window_size && different(now.copy(at), painted) < 0.004;
  });
  seen.save(QStringLiteral("desktop.png"));  // to look at
  INFO(program.readAll().toStdString());
  REQUIRE(program.state() == QProcess::Running);
  const QRect at = drawn_in(seen);
  CHECK(at.size() == window_size);
  CHECK(different(seen.copy(at), painted) < 0.004);
  program.terminate();
  CHECK(program.waitForFinished(30'000));
}
