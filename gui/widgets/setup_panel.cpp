#include "gui/widgets/setup_panel.hpp"

#include <QComboBox>
#include <QDragEnterEvent>
#include <QFormLayout>
#include <QGroupBox>
#include <QLabel>
#include <QMimeData>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include "core/base/units_text.hpp"
#include "gui/widgets/dimension_editor.hpp"
#include "gui/widgets/message_label.hpp"
#include "gui/widgets/settings_form.hpp"

namespace orrery::gui {
namespace {

struct Group {
  DimensionGroup of;
  const char* title;
};
constexpr Group groups[] = {
    {DimensionGroup::workload, QT_TRANSLATE_NOOP("orrery::gui::SetupPanel", "Workload")},
    {DimensionGroup::mesh, QT_TRANSLATE_NOOP("orrery::gui::SetupPanel", "Mesh")},
    {DimensionGroup::plan, QT_TRANSLATE_NOOP("orrery::gui::SetupPanel", "Plan")},
    {DimensionGroup::memory, QT_TRANSLATE_NOOP("orrery::gui::SetupPanel", "Memory")},
    {DimensionGroup::communication, QT_TRANSLATE_NOOP("orrery::gui::SetupPanel", "Communication")}};

/// Fills in the names of the library, and the current reference where it is none of them.
void fill(QComboBox& list, const std::vector<std::string>& names, const std::string& current) {
  const QSignalBlocker quiet(&list);
  list.clear();
  for (const std::string& name : names) list.addItem(QString::fromStdString(name), QString::fromStdString(name));
  int at = list.findData(QString::fromStdString(current));
  if (at < 0) {
    const std::filesystem::path file(current);
    const std::string shown =
        file.filename() == "config.json" ? file.parent_path().filename().string() : file.stem().string();
    list.addItem(QString::fromStdString(shown), QString::fromStdString(current));
    list.setItemData(list.count() - 1, QString::fromStdString(current), Qt::ToolTipRole);
    at = list.count() - 1;
  }
  list.setCurrentIndex(at);
}

}  // namespace

SetupPanel::SetupPanel(PlanDocument& document, QWidget* parent) : QWidget(parent), document_(document) {
  setObjectName(QStringLiteral("setup"));
  setAcceptDrops(true);
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(6, 6, 6, 6);
  auto* top = new QFormLayout;
  model_ = new QComboBox(this);
  cluster_ = new QComboBox(this);
  for (auto* list : {model_, cluster_}) {
    list->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    list->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    list->setMaxVisibleItems(24);
  }
  model_->setObjectName(QStringLiteral("model"));
  cluster_->setObjectName(QStringLiteral("cluster"));
  top->addRow(tr("&Model"), model_);
  top->addRow(tr("&Cluster"), cluster_);
  settings_ = new SettingsForm(document_, *top, this);
  outer->addLayout(top);
  about_ = new QLabel(this);
  about_->setWordWrap(true);
  about_->setTextFormat(Qt::PlainText);
  outer->addWidget(about_);
  outer->addWidget(&settings_->note());

  auto* scroll = new QScrollArea(this);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setAccessibleName(tr("Dimensions of the plan"));
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* inside = new QWidget(scroll);
  auto* column = new QVBoxLayout(inside);
  column->setContentsMargins(0, 0, 4, 0);
  for (const Group& group : groups) {
    auto* box = new QGroupBox(tr(group.title), inside);
    auto* rows = new QVBoxLayout(box);
    rows->setContentsMargins(6, 4, 6, 6);
    rows->setSpacing(3);
    for (const Dimension& d : dimensions()) {
      if (!is_turned(d) || d.group != group.of) continue;
      auto* editor = new DimensionEditor(d, box);
      editors_.push_back(editor);
      rows->addWidget(editor);
      connect(editor, &DimensionEditor::wished, this,
              [this, &d](std::uint64_t value, bool continues) { document_.wish(d, value, continues); });
    }
    column->addWidget(box);
  }
  column->addStretch();
  scroll->setWidget(inside);
  scroll->setMinimumWidth(inside->minimumSizeHint().width() + scroll->verticalScrollBar()->sizeHint().width());
  outer->addWidget(scroll, 1);

  answer_ = new MessageLabel(this);
  answer_->setObjectName(QStringLiteral("answer"));
  answer_->setWordWrap(true);
  answer_->setTextFormat(Qt::PlainText);
  answer_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  const QString hint = tr("Drop a Hugging Face config.json, a model, a cluster or a plan here.");
  answer_->setText(hint);
  answer_->setMinimumHeight(fontMetrics().lineSpacing() * 4);
  outer->addWidget(answer_);

  connect(model_, &QComboBox::activated, this, [this] { Q_EMIT model_wished(model_->currentData().toString()); });
  connect(cluster_, &QComboBox::activated, this, [this] { Q_EMIT cluster_wished(cluster_->currentData().toString()); });
  connect(settings_, &SettingsForm::refused, this,
          [this](const QString& why) { answer_->tell(why, MessageLabel::Tone::bad); });
  connect(&document_, &PlanDocument::changed, this, [this, hint] {
    show_document();
    answer_->tell(hint, MessageLabel::Tone::plain);  // what was said was said of the plan before
  });
  connect(&legal_, &LegalService::found, this, [this](const ReachablePointer& found) {
    if (found->from != document_.priced()) return;
    reachable_from_ = found->from;
    for (DimensionEditor* e : editors_) e->show_reachable(found->of.at(&e->dimension()));
    Q_EMIT settled();
  });
  connect(&document_, &PlanDocument::answered, this, [this, hint](bool met, const QString& text) {
    answer_->tell(text.isEmpty() ? hint : text, met ? MessageLabel::Tone::plain : MessageLabel::Tone::bad);
  });
  if (document_.is_open()) show_document();
}

void SetupPanel::show_document() {
  const PlannedRun& run = document_.run();
  fill(*model_, document_.library().models(), run.model_reference);
  fill(*cluster_, document_.library().clusters(), run.cluster_reference);
  const ClusterSpec& c = *run.cluster;
  const auto q = [](const std::string& text) { return QString::fromStdString(text); };
  about_->setText(tr("%1 parameters, %2 layers, hidden %3\n%4 of %5 %6, %7 each")
                      .arg(q(short_count(static_cast<double>(parameter_count(run.model)))))
                      .arg(run.model.layers)
                      .arg(run.model.hidden)
                      .arg(c.nodes == 1 ? tr("1 node") : tr("%n nodes", nullptr, static_cast<int>(c.nodes)))
                      .arg(c.devices_per_node)
                      .arg(q(c.device.name), q(short_text(c.device.memory))));
  settings_->show_document();
  for (DimensionEditor* editor : editors_) editor->show_run(run);
  legal_.request(document_.priced());
}

void SetupPanel::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void SetupPanel::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) Q_EMIT dropped(url.toLocalFile());
  }
  event->acceptProposedAction();
}

}  // namespace orrery::gui
