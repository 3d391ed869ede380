#include "gui/model/graph_service.hpp"

namespace orrery::gui {
namespace {

constexpr int most_milliseconds = 10'000;

}  // namespace

GraphService::GraphService(QString program, QObject* parent) : QObject(parent), program_(std::move(program)) {
  limit_.setSingleShot(true);
  limit_.setInterval(most_milliseconds);
  connect(&limit_, &QTimer::timeout, this, [this] {
    stop();
    Q_EMIT failed(tr("Graphviz did not lay the graph out within ten seconds; the table has what it would show."));
  });
  connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error != QProcess::FailedToStart) return;  // others end in finished()
    limit_.stop();
    Q_EMIT failed(tr("The graph is drawn by Graphviz, and its program \"%1\" cannot be started. The package is named "
                     "graphviz; the table has what the graph would show.")
                      .arg(program_));
  });
  connect(&process_, &QProcess::finished, this, [this] { finish(); });
}

GraphService::~GraphService() { stop(); }

void GraphService::stop() {
  limit_.stop();
  if (process_.state() == QProcess::NotRunning) return;
  const QSignalBlocker quiet(process_);
  process_.kill();
  process_.waitForFinished(1000);
}

void GraphService::request(const std::string& dot) {
  stop();
  limit_.start();
  process_.start(program_, {QStringLiteral("-Tplain"), QStringLiteral("-y")});
  process_.write(dot.data(), static_cast<qint64>(dot.size()));
  process_.closeWriteChannel();
}

void GraphService::finish() {
  limit_.stop();
  const std::string text = process_.readAllStandardOutput().toStdString();
  const auto layout =
      process_.exitStatus() == QProcess::NormalExit && process_.exitCode() == 0 ? read_plain(text) : std::nullopt;
  if (layout) {
    Q_EMIT laid_out(*layout);
  } else {
    Q_EMIT failed(tr("Graphviz could not lay the graph out: %1")
                      .arg(QString::fromUtf8(process_.readAllStandardError()).trimmed()));
  }
}

}  // namespace orrery::gui
