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
/// One process at a time, the leader of a group of its own: cancel() and the destructor end all of the group.  It is
/// told how far a run is from the log that the run writes.  Every start ends with exactly one of ran(), calibrated()
/// and failed().
class OrreryProcess : public QObject {
  Q_OBJECT
 public:
  explicit OrreryProcess(QObject* parent = nullptr);
  ~OrreryProcess() override;

  /// What is started; an empty name looks beside this program, in the build tree and along PATH.
  void set_program(const QString& program) { program_ = program; }
  [[nodiscard]] QString program() const;
  /// Whether what runs, or ran last, trains; else it measures.
  [[nodiscard]] bool trains() const { return trains_; }
  [[nodiscard]] bool is_running() const { return process_ != nullptr; }
  /// The process's group; 0 where none runs.
  [[nodiscard]] qint64 group() const { return group_; }

  /// Trains the plan, which is resolved.  Nothing happens while something runs.
  void train(const PlannedRun&, int steps, int warmup);
  /// Measures this machine; what it wrote is where all of the project look for it, or in `file`.
  void calibrate(const QString& file = {});
  /// Asks the group to end, and after two seconds makes it.
  void cancel();

 Q_SIGNALS:
  /// Training: steps that ended, of how many, and the loss where there is one.  Measuring: hundredths of it.  Of 0:
  /// not known.
  void progressed(int done, int total, const QString& note);
  /// Where the trace and the report are, until the next start.
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
