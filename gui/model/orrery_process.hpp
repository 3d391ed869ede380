#pragma once

#include <QByteArray>
#include <QElapsedTimer>
#include <QObject>
#include <QProcess>
#include <QString>
#include <QTemporaryDir>
#include <QTimer>
#include <memory>

#include "core/plan/plan.hpp"

namespace orrery::gui {

/// The command line's `orrery`, run as a process: it trains a plan on this machine, or measures the machine.
///
/// It runs one process at a time, the leader of a group of its own; cancel() and the destructor end the whole group.
/// The log that a run writes tells its progress. Every start ends with exactly one of ran(), calibrated() and failed().
class OrreryProcess : public QObject {
  Q_OBJECT
 public:
  explicit OrreryProcess(QObject* parent = nullptr);
  ~OrreryProcess() override;

  /// Sets the program to start. With an empty name it looks beside this program, in the build tree and along PATH.
  void set_program(const QString& program) { program_ = program; }
  [[nodiscard]] QString program() const;
  /// Whether the running process, or the last one, trains; otherwise it measures.
  [[nodiscard]] bool trains() const { return trains_; }
  [[nodiscard]] bool is_running() const { return process_ != nullptr; }
  /// The process's group; 0 where none runs.
  [[nodiscard]] qint64 group() const { return group_; }

  /// Trains the plan, which must be resolved. Nothing happens while something runs.
  void train(const PlannedRun&, int steps, int warmup);
  /// Measures this machine. The result goes to the place where all of the project looks for it, or to `file`.
  void calibrate(const QString& file = {});
  /// Asks the group to end, and forces it after two seconds.
  void cancel();

 Q_SIGNALS:
  /// For training: number of ended steps, number of all, and the loss where there is one. For measuring: hundredths of
  /// the work. A total of 0 means that it is not known.
  void progressed(int done, int total, const QString& note);
  /// Paths of the trace and the report, valid until the next start.
  void ran(const QString& trace, const QString& report);
  void calibrated();
  /// One or several lines that say what happened.
  void failed(const QString& why);

 private:
  void start(const QStringList& arguments);
  void ended(int status, QProcess::ExitStatus);
  void could_not_start();
  void finish();
  void look_at_log();
  void end_group(int signal) const;

  QString program_;
  std::unique_ptr<QTemporaryDir> folder_;
  QProcess* process_ = nullptr;
  QTimer log_timer_, kill_timer_;
  QByteArray errors_, line_;
  qint64 log_read_ = 0, group_ = 0;
  int total_ = 0;
  bool cancelled_ = false, trains_ = false;
};

}  // namespace orrery::gui
