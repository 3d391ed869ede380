#pragma once

#include <QObject>
#include <QProcess>
#include <QString>
#include <QTimer>
#include <string>

#include "gui/model/plan_graph.hpp"

namespace orrery::gui {

/// Lays graphs out by Graphviz's dot, as a process. The newest request ends the one before, and one that takes longer
/// than ten seconds is ended too.
class GraphService : public QObject {
  Q_OBJECT
 public:
  explicit GraphService(QString program = QStringLiteral("dot"), QObject* parent = nullptr);
  ~GraphService() override;
  void request(const std::string& dot);

 Q_SIGNALS:
  void laid_out(const orrery::gui::GraphLayout&);
  void failed(const QString& why);

 private:
  void stop();
  void finish();

  QString program_;
  QProcess process_;
  QTimer limit_;
};

}  // namespace orrery::gui
