#pragma once

#include <QMainWindow>
#include <QTimer>
#include <functional>
#include <optional>

#include "gui/model/focus.hpp"
#include "gui/model/metric.hpp"
#include "gui/model/plan_document.hpp"
#include "gui/model/search_service.hpp"
#include "gui/model/services.hpp"

class QLabel;
class QTabWidget;
class QTextBrowser;

namespace orrery::gui {

class ComparePanel;
class MemoryPanel;
class MessageLabel;
class PlanViews;
class ResultsStrip;
class SearchPanel;
class SetupPanel;
class TimelinePanel;
class UndoKeys;
class ValidatePanel;
class VerdictStrip;
class WindowTools;

/// Which panels are shown.
enum class Layout : std::uint8_t { explore, compare, validate, learn };

/// The questions that the window asks by a dialog; tests answer in their place. An empty name means that nothing was
/// chosen.
struct Dialogs {
  std::function<QString(QWidget*)> file_to_open;
  /// Asks for a recorded step; a profile may have a file for each rank.
  std::function<QStringList(QWidget*)> traces_to_open;
  std::function<QString(QWidget*, const QString& proposed)> file_to_save;
  /// Asks for the file of a picture or a table of a view: .png, .svg, .pdf, .csv.
  std::function<QString(QWidget*, const QString& proposed)> file_to_export;
  /// Whether changes that are not saved may be lost.
  std::function<bool(QWidget*)> may_discard;
};
[[nodiscard]] Dialogs usual_dialogs();

/// The window: wires document, services, focus and panels.
class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  MainWindow(Library, std::filesystem::path own_calibration, unsigned cores, Dialogs);
  ~MainWindow() override;

  /// Opens a plan, model or cluster file, or an example plan by its name. Mistakes of the file are shown in the window.
  /// It asks whether changes may be lost only when the plan can be opened.
  bool open(const QString& reference);
  [[nodiscard]] PlanDocument& document() { return document_; }
  [[nodiscard]] Focus& focus() { return focus_; }
  [[nodiscard]] SearchService& search() { return search_; }
  [[nodiscard]] SearchPanel& search_panel() { return *search_panel_; }
  [[nodiscard]] TimelinePanel& timeline() { return *timeline_; }
  [[nodiscard]] PlanViews& views() { return *views_; }
  [[nodiscard]] WindowTools& tools() { return *tools_; }
  [[nodiscard]] const Dialogs& dialogs() const { return dialogs_; }
  [[nodiscard]] const PredictionPointer& baseline() const { return baseline_; }
  void set_baseline(PredictionPointer);
  /// Shows a problem above the views, until something succeeds.
  void show_problem(const QString&);
  void show_problem(const Diagnostics&);
  /// Shows a message for a while, at the bottom.
  void show_message(const QString&);
  /// Handles events until the views belong to the document; at most a minute.
  void wait_until_settled();
  [[nodiscard]] ComparePanel& compare_panel() { return *compare_; }
  [[nodiscard]] VerdictStrip& verdict_strip() { return *verdict_; }
  [[nodiscard]] MemoryPanel& memory_panel() { return *memory_; }
  [[nodiscard]] ValidatePanel& validate_panel() { return *validate_; }
  /// The newest prediction; null before the first.
  [[nodiscard]] const PredictionPointer& prediction() const { return prediction_; }
  /// Whether the views belong to the document as it is: predicted, and simulated or refused.
  [[nodiscard]] bool is_settled() const;
  void show_tab(int);
  void use_layout(Layout);
  void explain(Metric);
  /// Gives the panels on the right this share of the window's width.
  void widen_side(double share);
  static constexpr double usual_side = 0.22;
  void pin_baseline();
  void save();
  void save_as();

 Q_SIGNALS:
  void settled();

 protected:
  void closeEvent(QCloseEvent*) override;

 private:
  void make_actions();
  void make_panels();
  void document_changed();
  void prediction_failed(const QString& why);
  void mark_outdated();
  void take_prediction(const PredictionPointer&);
  void show_results();
  void save_to(const QString& file);

  Dialogs dialogs_;
  PlanDocument document_;
  Focus focus_;
  PredictionService predictions_;
  SimulationService simulations_;
  SearchService search_;
  QTimer simulate_soon_;
  QTimer mark_soon_;  ///< marks views as belonging to the plan before; most figures come before that
  PredictionPointer prediction_, baseline_;
  std::shared_ptr<const PricedRun> asked_;  ///< whose prediction is awaited
  bool simulating_ = false;
  Metric explained_ = Metric::step_time;

  SetupPanel* setup_ = nullptr;
  ResultsStrip* results_ = nullptr;
  VerdictStrip* verdict_ = nullptr;
  UndoKeys* undo_keys_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  TimelinePanel* timeline_ = nullptr;
  SearchPanel* search_panel_ = nullptr;
  ComparePanel* compare_ = nullptr;
  ValidatePanel* validate_ = nullptr;
  MemoryPanel* memory_ = nullptr;
  PlanViews* views_ = nullptr;
  WindowTools* tools_ = nullptr;
  QTextBrowser* explanation_ = nullptr;
  MessageLabel* problem_ = nullptr;
  QLabel* status_ = nullptr;
};

/// Light or dark, for every window of the program.
void use_theme(bool dark);

}  // namespace orrery::gui
