#include "gui/widgets/command_palette.hpp"

#include <QAction>
#include <QCoreApplication>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QRegularExpression>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/model/cell_table.hpp"

namespace orrery::gui {
namespace {

QString plain(QString text) {
  text.remove(QRegularExpression(QStringLiteral("&(?=.)")));
  return text;
}

/// Keys that views take themselves.
struct OwnKey {
  const char* view;
  const char* what;
  const char* keys;
};
constexpr OwnKey own_keys[] = {
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Zoom in, out"), "W, S"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Pan left, right"), "A, D"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Show the selection"), "F"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Show the whole step"), "0"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Select nothing"), "Esc"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Play, stop"), "Space"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "To the next event, the one before"), ". ,"},
    {QT_TRANSLATE_NOOP("keys", "Timeline"), QT_TRANSLATE_NOOP("keys", "Critical path"), "C"},
    {QT_TRANSLATE_NOOP("keys", "Topology"), QT_TRANSLATE_NOOP("keys", "The next device, the one before"),
     "Right, Left"},
    {QT_TRANSLATE_NOOP("keys", "Topology"),
     QT_TRANSLATE_NOOP("keys", "Take up a rank, on another device change their places; let go"), "Space; Esc"},
    {QT_TRANSLATE_NOOP("keys", "Plan graph"), QT_TRANSLATE_NOOP("keys", "The next stage, the one before"),
     "Right, Left"},
    {QT_TRANSLATE_NOOP("keys", "Plan graph"), QT_TRANSLATE_NOOP("keys", "Zoom in, out; the whole graph"), "+, -; 0"},
    {QT_TRANSLATE_NOOP("keys", "Plan graph"), QT_TRANSLATE_NOOP("keys", "Move the graph"), "Shift and arrows"},
    {QT_TRANSLATE_NOOP("keys", "Order of axes"), QT_TRANSLATE_NOOP("keys", "Move an axis outwards, inwards"),
     "Alt+Left, Alt+Right"},
    {QT_TRANSLATE_NOOP("keys", "Sliders"), QT_TRANSLATE_NOOP("keys", "The next legal value"), "Left, Right"},
};

}  // namespace

QString full_name(const QAction& action) {
  QString out = plain(action.text());
  // Collects the menus that contain the action, from the innermost.
  for (const QObject* at : action.associatedObjects()) {
    const auto* menu = qobject_cast<const QMenu*>(at);
    if (menu == nullptr) continue;
    while (menu != nullptr && !menu->title().isEmpty()) {
      out = plain(menu->title()) + QStringLiteral(" \u25b8 ") + out;
      menu = qobject_cast<const QMenu*>(menu->parentWidget());
    }
    break;
  }
  return out;
}

QList<QAction*> listed_actions(const QWidget& window) {
  QList<QAction*> out;
  for (QAction* a : window.findChildren<QAction*>()) {
    // The actions of a menu bar open menus, and those of text fields belong to their fields.
    const QList<QObject*> places = a->associatedObjects();
    const bool in_menu = std::any_of(places.begin(), places.end(),
                                     [](const QObject* o) { return qobject_cast<const QMenu*>(o) != nullptr; });
    if (in_menu && !a->isSeparator() && a->menu() == nullptr && !a->text().isEmpty()) out.push_back(a);
  }
  std::stable_sort(out.begin(), out.end(), [](const QAction* a, const QAction* b) {
    return QString::localeAwareCompare(full_name(*a), full_name(*b)) < 0;
  });
  return out;
}

CommandPalette::CommandPalette(QWidget& window) : QDialog(&window), window_(window) {
  setObjectName(QStringLiteral("command-palette"));
  setWindowTitle(tr("Commands"));
  auto* column = new QVBoxLayout(this);
  words_ = new QLineEdit(this);
  words_->setObjectName(QStringLiteral("command-words"));
  words_->setAccessibleName(tr("Part of a command's name"));
  words_->setPlaceholderText(tr("Type a part of a command's name"));
  words_->installEventFilter(this);
  list_ = new QListView(this);
  list_->setAccessibleName(tr("Commands"));
  list_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  found_.setSourceModel(&commands_);
  found_.setFilterCaseSensitivity(Qt::CaseInsensitive);
  list_->setModel(&found_);
  column->addWidget(words_);
  column->addWidget(list_);
  resize(560, 380);
  connect(words_, &QLineEdit::textChanged, this, [this](const QString& text) {
    // Matches the words in their order, with anything between.
    QStringList parts = text.split(u' ', Qt::SkipEmptyParts);
    for (QString& part : parts) part = QRegularExpression::escape(part);
    found_.setFilterRegularExpression(
        QRegularExpression(parts.join(QStringLiteral(".*")), QRegularExpression::CaseInsensitiveOption));
    list_->setCurrentIndex(found_.index(0, 0));
  });
  connect(words_, &QLineEdit::returnPressed, this, [this] { run(); });
  connect(list_, &QListView::activated, this, [this] { run(); });
}

void CommandPalette::fill() {
  commands_.clear();
  for (QAction* a : listed_actions(window_)) {
    if (!a->isEnabled()) continue;
    QString text = full_name(*a);
    if (!a->shortcut().isEmpty()) {
      text += QStringLiteral("   (%1)").arg(a->shortcut().toString(QKeySequence::NativeText));
    }
    auto* item = new QStandardItem(text);
    item->setData(QVariant::fromValue<QObject*>(a));
    commands_.appendRow(item);
  }
}

void CommandPalette::showEvent(QShowEvent* event) {
  fill();
  words_->clear();
  words_->setFocus();
  list_->setCurrentIndex(found_.index(0, 0));
  QDialog::showEvent(event);
}

void CommandPalette::run() {
  const QModelIndex at = list_->currentIndex().isValid() ? list_->currentIndex() : found_.index(0, 0);
  if (!at.isValid()) return;
  auto* action = qobject_cast<QAction*>(at.data(Qt::UserRole + 1).value<QObject*>());
  accept();
  if (action != nullptr) action->trigger();
}

bool CommandPalette::eventFilter(QObject* of, QEvent* event) {
  if (of == words_ && event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (key == Qt::Key_Down || key == Qt::Key_Up) {
      const int row = list_->currentIndex().row() + (key == Qt::Key_Down ? 1 : -1);
      list_->setCurrentIndex(found_.index(std::clamp(row, 0, std::max(0, found_.rowCount() - 1)), 0));
      return true;
    }
  }
  return QDialog::eventFilter(of, event);
}

ShortcutSheet::ShortcutSheet(QWidget& window) : QDialog(&window) {
  setObjectName(QStringLiteral("shortcut-sheet"));
  setWindowTitle(tr("Keys"));
  auto* column = new QVBoxLayout(this);
  auto* table = new QTableView(this);
  auto* keys = new CellTable(this);
  std::vector<CellRow> rows;
  for (const QAction* a : listed_actions(window)) {
    if (a->shortcut().isEmpty()) continue;
    rows.push_back({rows.size(), {{full_name(*a)}, {a->shortcut().toString(QKeySequence::NativeText)}}});
  }
  for (const OwnKey& k : own_keys) {
    const QString what = QCoreApplication::translate("keys", k.view) + QStringLiteral(" \u25b8 ") +
                         QCoreApplication::translate("keys", k.what);
    rows.push_back({rows.size(), {{what}, {QLatin1String(k.keys)}}});
  }
  keys->set({tr("Command"), tr("Keys")}, std::move(rows));
  table->setModel(keys);
  table->setAccessibleName(tr("Commands and their keys"));
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  table->horizontalHeader()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
  table->setAlternatingRowColors(true);
  table->setShowGrid(false);
  column->addWidget(table);
  resize(560, 520);
}

}  // namespace orrery::gui
