#include "gui/model/orrery_process.hpp"

#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStandardPaths>
#include <filesystem>

#include "core/plan/plan_file.hpp"

namespace orrery::gui {
namespace {

constexpr int most_error_bytes = 8'000;

}  // namespace

OrreryProcess::OrreryProcess(QObject* parent) : QObject(parent) {
  log_timer_.setInterval(100);
  connect(&log_timer_, &QTimer::timeout, this, [this] { look_at_log(); });
  kill_timer_.setSingleShot(true);
  kill_timer_.setInterval(2000);
  connect(&kill_timer_, &QTimer::timeout, this, [this] { end_group(SIGKILL); });
}

OrreryProcess::~OrreryProcess() {
  if (process_ == nullptr) return;
  process_->disconnect(this);
  end_group(SIGKILL);
  process_->kill();
  process_->waitForFinished(5000);
}

QString OrreryProcess::program() const {
  if (!program_.isEmpty()) return program_;
  const QDir here(QCoreApplication::applicationDirPath());
  for (const char* beside : {"orrery", "../cli/orrery"}) {
    const QFileInfo file(here.filePath(QLatin1String(beside)));
    if (file.isExecutable() && file.isFile()) return file.absoluteFilePath();
  }
  const QString found = QStandardPaths::findExecutable(QStringLiteral("orrery"));
  return found.isEmpty() ? QStringLiteral("orrery") : found;
}

void OrreryProcess::train(const PlannedRun& run, int steps, int warmup) {
  if (is_running()) return;
  folder_ = std::make_unique<QTemporaryDir>();
  PlannedRun written = run;
  // The file is in another folder than the one that its relative paths count from.
  if (!written.workload.data.empty()) written.workload.data = std::filesystem::absolute(written.workload.data).string();
  QFile plan(folder_->filePath(QStringLiteral("plan.toml")));
  const std::string text = write_plan(written);
  if (!folder_->isValid() || !plan.open(QIODevice::WriteOnly) ||
      plan.write(text.data(), static_cast<qint64>(text.size())) < 0) {
    Q_EMIT failed(tr("Cannot write a plan for the run: %1").arg(plan.errorString()));
    return;
  }
  plan.close();
  trains_ = true;
  total_ = steps + warmup;
  start({QStringLiteral("run"), plan.fileName(), QStringLiteral("--steps"), QString::number(steps),
         QStringLiteral("--warmup"), QString::number(warmup), QStringLiteral("--trace"),
         folder_->filePath(QStringLiteral("trace.json")), QStringLiteral("--log"),
         folder_->filePath(QStringLiteral("log.jsonl")), QStringLiteral("--output"),
         folder_->filePath(QStringLiteral("report.json"))});
}

void OrreryProcess::calibrate(const QString& file) {
  if (is_running()) return;
  trains_ = false;
  total_ = 0;
  folder_ = std::make_unique<QTemporaryDir>();
  QStringList arguments{QStringLiteral("calibrate"), QStringLiteral("--log"),
                        folder_->filePath(QStringLiteral("log.jsonl"))};
  if (!file.isEmpty()) arguments << QStringLiteral("--output") << file;
  start(arguments);
}

void OrreryProcess::start(const QStringList& arguments) {
  cancelled_ = false;
  errors_.clear();
  line_.clear();
  log_read_ = 0;
  process_ = new QProcess(this);
  process_->setStandardOutputFile(QProcess::nullDevice());
  process_->setChildProcessModifier([] {
    ::setpgid(0, 0);
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing trains on when the window is gone
#endif
  });
  connect(process_, &QProcess::readyReadStandardError, this, [this] {
    errors_ += process_->readAllStandardError();
    if (errors_.size() > most_error_bytes) errors_ = errors_.right(most_error_bytes);
  });
  connect(process_, &QProcess::finished, this, [this](int status, QProcess::ExitStatus how) { ended(status, how); });
  connect(process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) could_not_start();
  });
  Q_EMIT progressed(0, total_, QString());
  process_->start(program(), arguments);
  if (process_ == nullptr) return;  // it could not be started, and that was reported
  group_ = process_->processId();
  log_timer_.start();
}

void OrreryProcess::could_not_start() {
  const QString why = process_->errorString();
  finish();
  Q_EMIT failed(tr("%1 cannot be started: %2\nIt is installed beside orrery-gui; PATH is looked at too.")
                    .arg(QDir::toNativeSeparators(program()), why));
}

void OrreryProcess::ended(int status, QProcess::ExitStatus how) {
  errors_ += process_->readAllStandardError();
  look_at_log();
  end_group(SIGKILL);  // children that outlived it
  finish();
  const QString said = QString::fromUtf8(errors_).trimmed();
  if (cancelled_) {
    Q_EMIT failed(tr("Cancelled."));
  } else if (how == QProcess::CrashExit) {
    Q_EMIT failed(tr("orrery was ended by a signal.") + (said.isEmpty() ? QString() : u'\n' + said));
  } else if (status > 1) {  // status 1: it did not fit, or not all steps were made; there are figures nevertheless
    Q_EMIT failed(said.isEmpty() ? tr("orrery ended with status %1.").arg(status) : said);
  } else if (!trains_) {
    status == 0 ? Q_EMIT calibrated() : Q_EMIT failed(said.isEmpty() ? tr("Nothing was written.") : said);
  } else {
    const QString trace = folder_->filePath(QStringLiteral("trace.json"));
    const QString report = folder_->filePath(QStringLiteral("report.json"));
    if (QFileInfo::exists(trace) && QFileInfo::exists(report)) {
      Q_EMIT ran(trace, report);
    } else {
      Q_EMIT failed(tr("The run left no trace behind.") + (said.isEmpty() ? QString() : u'\n' + said));
    }
  }
}

void OrreryProcess::finish() {
  log_timer_.stop();
  kill_timer_.stop();
  process_->disconnect(this);
  process_->deleteLater();
  process_ = nullptr;
  group_ = 0;
}

void OrreryProcess::cancel() {
  if (process_ == nullptr || cancelled_) return;
  cancelled_ = true;
  end_group(SIGINT);
  kill_timer_.start();
}

void OrreryProcess::end_group(int signal) const {
  if (group_ > 0) ::kill(static_cast<pid_t>(-group_), signal);
}

void OrreryProcess::look_at_log() {
  QFile log(folder_->filePath(QStringLiteral("log.jsonl")));
  if (!log.open(QIODevice::ReadOnly) || !log.seek(log_read_)) return;
  const QByteArray more = log.readAll();
  log_read_ += more.size();
  line_ += more;
  // Reads whole lines only; most of them are about operations.
  qsizetype begin = 0;
  for (qsizetype end = line_.indexOf('\n'); end >= 0; end = line_.indexOf('\n', begin)) {
    const QByteArray line = line_.mid(begin, end - begin);
    begin = end + 1;
    if (line.startsWith("{\"event\":\"progress\"")) {
      const double share = QJsonDocument::fromJson(line).object()[QLatin1String("share")].toDouble();
      Q_EMIT progressed(qRound(100.0 * share), 100, QString());
    }
    if (!line.startsWith("{\"event\":\"step\"")) continue;
    const QJsonObject step = QJsonDocument::fromJson(line).object();
    const QString note = step.contains(QLatin1String("loss"))
                             ? tr("loss %1").arg(step[QLatin1String("loss")].toDouble(), 0, 'f', 4)
                             : QString();
    Q_EMIT progressed(step[QLatin1String("step")].toInt(), total_, note);
  }
  line_.remove(0, begin);
}

}  // namespace orrery::gui
