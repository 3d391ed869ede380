#include <catch2/catch.hpp>

#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QElapsedTimer>
#include <QFile>
#include <QPushButton>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QTranslator>
#include <QXmlStreamReader>
#include <cstdio>
#include <mutex>
#include <set>

#include "gui/app/main_window.hpp"
#include "gui/app/plan_views.hpp"
#include "gui/app/window_tools.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/learn_panel.hpp"
#include "tests/gui/opened_window.hpp"

// Compares the template for translators (tools/translations) with the texts for which the running window asks.

using namespace orrery;
using namespace orrery::gui;

namespace {

using Text = std::pair<QString, QString>;  ///< context, source

std::set<Text> texts_of(const QString& file) {
  QFile in(file);
  std::set<Text> out;
  if (!in.open(QIODevice::ReadOnly)) return out;
  QXmlStreamReader xml(&in);
  QString context;
  while (!xml.atEnd()) {
    if (xml.readNext() != QXmlStreamReader::StartElement) continue;
    if (xml.name() == u"name") context = xml.readElementText();
    if (xml.name() == u"source") out.insert({context, xml.readElementText()});
  }
  return out;
}

/// Marks every text of the template, and keeps texts that are asked for but not in it.
class Marker : public QTranslator {
 public:
  explicit Marker(std::set<Text> known) : known_(std::move(known)) {}
  bool isEmpty() const override { return false; }
  QString translate(const char* context, const char* source, const char*, int) const override {
    const QString in = QString::fromUtf8(context), text = QString::fromUtf8(source);
    // Qt translates its own texts.
    if (in.startsWith(u'Q') && in != QStringLiteral("QObject")) return {};
    const std::scoped_lock lock(mutex_);  // threads of services ask too
    if (known_.count({in, text}) > 0) {
      found_.insert({in, text});
      return QStringLiteral("\u00AB") + text + QStringLiteral("\u00BB");
    }
    missing_.insert({in, text});
    return {};
  }
  std::set<Text> found() const {
    const std::scoped_lock lock(mutex_);
    return found_;
  }
  std::set<Text> missing() const {
    const std::scoped_lock lock(mutex_);
    return missing_;
  }

 private:
  std::set<Text> known_;
  mutable std::mutex mutex_;
  mutable std::set<Text> found_, missing_;
};

}  // namespace

TEST_CASE("every text that the window shows through tr() is in the template for translators", "[gui]") {
  const QTemporaryDir folder;
  const QString file = folder.filePath(QStringLiteral("orrery.ts"));
  const std::string command = std::string(ORRERY_SOURCE_DIR) + "/tools/translations " + file.toStdString();
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
    WARN("skipped: there is no lupdate (tools/setup installs it)");
    return;
  }
  REQUIRE(status == 0);
  const std::set<Text> known = texts_of(file);
  REQUIRE(known.size() > 400);

  test::program();
  Marker marker(known);
  REQUIRE(QCoreApplication::installTranslator(&marker));
  {
    Dialogs answers = usual_dialogs();
    answers.may_discard = [](QWidget*) { return true; };
    MainWindow window(Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models"), {}, 2, answers);
    window.resize(1280, 800);
    REQUIRE(window.open(QStringLiteral("demo-2x2x2")));
    window.show();
    window.wait_until_settled();
    window.pin_baseline();
    window.document().wish(dimension("mesh.tensor"), 3);  // cannot be
    window.document().wish(dimension("plan.microbatch_size"), 1);
    window.wait_until_settled();
    for (const Layout layout : {Layout::compare, Layout::validate, Layout::learn, Layout::explore}) {
      window.use_layout(layout);
      QElapsedTimer timer;
      timer.start();
      while (!window.compare_panel().is_settled() && timer.elapsed() < 60'000) QCoreApplication::processEvents();
    }
    for (std::size_t m = 0; m < metric_count; ++m) window.explain(static_cast<Metric>(m));
    auto* tabs = window.findChild<QTabWidget*>(QStringLiteral("views"));
    for (int i = 0; i < tabs->count(); ++i) {
      tabs->setCurrentIndex(i);
      window.wait_until_settled();
    }
    window.findChild<QPushButton*>(QStringLiteral("search-start"))->click();
    while (window.search().is_running()) QCoreApplication::processEvents();
    CHECK_FALSE(window.open(QStringLiteral("no-such-plan")));
    // The window shows the translation, not the source text.
    CHECK(window.findChild<QPushButton*>(QStringLiteral("search-start"))->text().startsWith(u'\u00AB'));
    CHECK(tabs->tabText(0).startsWith(u'\u00AB'));
  }
  QCoreApplication::removeTranslator(&marker);
  for (const auto& [context, source] : marker.missing()) {
    INFO(context.toStdString() << ": " << source.toStdString());
    CHECK(false);
  }
  CHECK(marker.found().size() > 250);
}
