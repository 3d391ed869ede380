#include "gui/widgets/dimension_editor.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <QSpinBox>
#include <QStandardItemModel>
#include <algorithm>
#include <functional>
#include <limits>

namespace orrery::gui {
namespace {

/// A number whose arrows go from one legal value to the next.
class LegalSpinBox : public QSpinBox {
 public:
  using QSpinBox::QSpinBox;
  std::function<void(int)> step;
  void stepBy(int steps) override { step(steps); }

 protected:
  StepEnabled stepEnabled() const override { return StepUpEnabled | StepDownEnabled; }
};

}  // namespace

DimensionEditor::DimensionEditor(const Dimension& dimension, QWidget* parent) : QWidget(parent), dimension_(dimension) {
  setObjectName(QLatin1String(dimension.key.data(), static_cast<qsizetype>(dimension.key.size())));
  const QString tip = tr(dimension.help) + QStringLiteral("\n") +
                      QLatin1String(dimension.key.data(), static_cast<qsizetype>(dimension.key.size()));
  setToolTip(tip);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  label_ = new QLabel(tr(dimension.label), this);
  label_->setFixedWidth(fontMetrics().horizontalAdvance(QStringLiteral("Offload activations ")));
  row->addWidget(label_);
  is_named(dimension) ? make_choice() : make_number();
}

void DimensionEditor::make_number() {
  slider_ = new QSlider(Qt::Horizontal, this);
  slider_->setPageStep(1);
  slider_->setMinimumWidth(60);
  slider_->setAccessibleName(label_->text());
  auto* number = new LegalSpinBox(this);
  number_ = number;
  number_->setRange(0, std::numeric_limits<int>::max());
  number_->setKeyboardTracking(false);
  number_->setFixedWidth(fontMetrics().horizontalAdvance(QStringLiteral("000000")) + 28);
  number_->setAccessibleName(label_->text());
  label_->setBuddy(number_);
  layout()->addWidget(slider_);
  layout()->addWidget(number_);
  connect(slider_, &QSlider::sliderPressed, this, [this] { dragged_ = false; });
  connect(slider_, &QSlider::valueChanged, this, [this](int at) {
    const auto place = static_cast<std::size_t>(at);
    const bool continues = slider_->isSliderDown() && dragged_;
    dragged_ = slider_->isSliderDown();
    if (place < legal_.size()) Q_EMIT wished(legal_[place], continues);
  });
  number->step = [this](int steps) {
    const auto at = std::lower_bound(legal_.begin(), legal_.end(), value_) - legal_.begin();
    const auto next = std::clamp<std::ptrdiff_t>(at + steps, 0, static_cast<std::ptrdiff_t>(legal_.size()) - 1);
    Q_EMIT wished(legal_[static_cast<std::size_t>(next)], false);
  };
  connect(number_, &QSpinBox::valueChanged, this,
          [this](int typed) { Q_EMIT wished(static_cast<std::uint64_t>(typed), false); });
}

void DimensionEditor::make_choice() {
  list_ = new QComboBox(this);
  list_->setAccessibleName(label_->text());
  list_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  list_->setMinimumContentsLength(8);
  list_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  for (std::uint64_t v = 0; v < dimension_.names.size(); ++v) {
    list_->addItem(QString::fromStdString(text_of(dimension_, v)));
  }
  label_->setBuddy(list_);
  layout()->addWidget(list_);
  connect(list_, &QComboBox::activated, this, [this](int at) { Q_EMIT wished(static_cast<std::uint64_t>(at), false); });
}

void DimensionEditor::show_run(const PlannedRun& run) {
  value_ = dimension_.get(run);
  if (list_ != nullptr) {
    const QSignalBlocker quiet(list_);
    list_->setCurrentIndex(static_cast<int>(value_));
    return;
  }
  // The slider stands on its value, which is known to be legal, whatever else is.
  const auto at = std::lower_bound(legal_.begin(), legal_.end(), value_);
  if (at == legal_.end() || *at != value_) legal_.insert(at, value_);
  place_slider();
}

void DimensionEditor::show_reachable(const Reachable& to) {
  if (list_ != nullptr) {
    auto* items = qobject_cast<QStandardItemModel*>(list_->model());
    for (int row = 0; row < list_->count(); ++row) {
      const auto reason = to.reasons.find(static_cast<std::uint64_t>(row));
      items->item(row)->setEnabled(reason == to.reasons.end());
      items->item(row)->setToolTip(reason == to.reasons.end() ? QString() : QString::fromStdString(reason->second));
    }
    setEnabled(to.reasons.size() + 1 < static_cast<std::size_t>(list_->count()));
    return;
  }
  // The slider's scale stays while it is dragged; the values that are legal from the new one are shown afterwards.
  if (slider_->isSliderDown()) return;
  legal_ = to.legal.values;
  place_slider();
}

void DimensionEditor::place_slider() {
  const QSignalBlocker quiet_slider(slider_), quiet_number(number_);
  slider_->setRange(0, static_cast<int>(legal_.size()) - 1);
  slider_->setValue(static_cast<int>(std::lower_bound(legal_.begin(), legal_.end(), value_) - legal_.begin()));
  slider_->setEnabled(legal_.size() > 1);
  number_->setValue(static_cast<int>(std::min<std::uint64_t>(value_, std::numeric_limits<int>::max())));
}

}  // namespace orrery::gui
