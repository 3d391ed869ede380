#include "gui/model/cell_table.hpp"

#include <algorithm>

#include "core/base/csv.hpp"
#include "core/base/diagnostics.hpp"

namespace orrery::gui {

void CellTable::set(std::vector<QString> headers, std::vector<CellRow> rows) {
  for (const CellRow& r : rows) ORRERY_ASSERT(r.cells.size() == headers.size(), r.cells.size(), headers.size());
  const bool alike = headers == headers_ && rows.size() == rows_.size();
  // Where only the contents of cells differ, views keep their place and selection.
  if (alike) {
    rows_ = std::move(rows);
    if (!rows_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
    return;
  }
  beginResetModel();
  headers_ = std::move(headers);
  rows_ = std::move(rows);
  endResetModel();
}

std::optional<int> CellTable::row_of(std::uint64_t id) const {
  const auto at = std::find_if(rows_.begin(), rows_.end(), [&](const CellRow& r) { return r.id == id; });
  return at == rows_.end() ? std::nullopt : std::optional(static_cast<int>(at - rows_.begin()));
}

int CellTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}
int CellTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(headers_.size());
}

QVariant CellTable::data(const QModelIndex& at, int role) const {
  if (!at.isValid() || at.row() >= rowCount() || at.column() >= columnCount()) return {};
  const Cell& cell = rows_[static_cast<std::size_t>(at.row())].cells[static_cast<std::size_t>(at.column())];
  switch (role) {
    case Qt::DisplayRole: return cell.text;
    case Qt::ToolTipRole: return cell.tip.isEmpty() ? QVariant() : QVariant(cell.tip);
    case Qt::TextAlignmentRole:
      return static_cast<int>((cell.order ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
    case order_role: return cell.order ? QVariant(*cell.order) : QVariant(cell.text);
    default: return {};
  }
}

QVariant CellTable::headerData(int section, Qt::Orientation orientation, int role) const {
  if (role != Qt::DisplayRole || orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
  return headers_[static_cast<std::size_t>(section)];
}

QString csv_of(const QAbstractItemModel& model) {
  const auto field = [](const QString& text) { return QString::fromStdString(csv_cell(text.toStdString())); };
  QString out;
  for (int row = -1; row < model.rowCount(); ++row) {
    for (int column = 0; column < model.columnCount(); ++column) {
      const QVariant value = row < 0 ? model.headerData(column, Qt::Horizontal, Qt::DisplayRole)
                                     : model.index(row, column).data(Qt::DisplayRole);
      out += (column > 0 ? QStringLiteral(",") : QString()) + field(value.toString());
    }
    out += QStringLiteral("\r\n");
  }
  return out;
}

}  // namespace orrery::gui
