#include "gui/widgets/settings_form.hpp"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QStandardItemModel>

#include "core/base/units_text.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery::gui {
namespace {

QString q(const std::string& text) { return QString::fromStdString(text); }

}  // namespace

SettingsForm::SettingsForm(PlanDocument& document, QFormLayout& form, QWidget* parent)
    : QObject(parent), document_(document) {
  software_ = new QComboBox(parent);
  software_->setObjectName(QStringLiteral("software"));
  software_->setToolTip(
      tr("Training program whose costs are in the times; auto: the usual one on the device.\n"
         "As --software of the command line"));
  margin_ = new QComboBox(parent);
  margin_->setObjectName(QStringLiteral("memory-margin"));
  margin_->setEditable(true);
  margin_->setInsertPolicy(QComboBox::NoInsert);
  margin_->setCompleter(nullptr);
  margin_->setToolTip(
      tr("Memory that a search keeps free on every device, beside what the process holds.\n\"auto\" is the measured "
         "error of "
         "memory; or a size as \"4 GiB\". As --memory-margin of the command line"));
  for (const char* size : {"auto", "0 B", "2 GiB", "4 GiB", "8 GiB", "16 GiB"}) margin_->addItem(QLatin1String(size));
  for (QComboBox* list : {software_, margin_}) {
    list->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    list->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  }
  form.addRow(tr("Soft&ware"), software_);
  form.addRow(tr("Mar&gin"), margin_);
  note_ = new QLabel(parent);
  note_->setObjectName(QStringLiteral("settings-note"));
  note_->setWordWrap(true);
  note_->setTextFormat(Qt::PlainText);

  connect(software_, &QComboBox::activated, this, [this] {
    Diagnostics d;
    if (!document_.choose_software(software_->currentData().toString().toStdString(), d)) tell(d);
  });
  const auto wish = [this] {
    Diagnostics d;
    if (!document_.choose_memory_margin(margin_->currentText().trimmed().toStdString(), d)) tell(d);
  };
  connect(margin_, &QComboBox::activated, this, wish);
  connect(margin_->lineEdit(), &QLineEdit::editingFinished, this, wish);
}

void SettingsForm::tell(const Diagnostics& d) {
  show_document();  // what is in use
  Q_EMIT refused(q(render(d)).trimmed());
}

void SettingsForm::show_document() {
  const PricedRun& now = *document_.priced();
  const ClusterSpec& cluster = *now.run.cluster;
  const QSignalBlocker quiet_software(software_), quiet_margin(margin_);
  if (shown_ != now.prices) {
    shown_ = now.prices;
    software_->clear();
    auto* items = qobject_cast<QStandardItemModel*>(software_->model());
    for (const SoftwareOption& o :
         software_options(document_.library(), cluster, now.prices->calibration, now.run.workload.precision)) {
      software_->addItem(q(o.name), q(o.name));
      QStandardItem* item = items->item(software_->count() - 1);
      item->setEnabled(o.reason.empty());
      item->setToolTip(q(o.reason));
    }
  }
  software_->setCurrentIndex(software_->findData(q(now.settings.software)));
  margin_->setEditText(q(margin_text(now.settings.memory_margin)));
  const Bytes margin = margin_of(now.settings, cluster, now.prices->calibration), device = least_memory(cluster);
  note_->setText(tr("%1 A search keeps %2 of %3 free.")
                     .arg(q(software_note(now.prices->software)), q(short_text(margin)), q(short_text(device))));
}

}  // namespace orrery::gui
