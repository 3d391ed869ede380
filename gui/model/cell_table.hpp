#pragma once

#include <QAbstractTableModel>
#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

namespace orrery::gui {

/// A cell as it is shown and as it sorts.
struct Cell {
  QString text;
  std::optional<double> order = {};  ///< unset: by the text; it is then left-aligned
  QString tip = {};
};
struct CellRow {
  std::uint64_t id = 0;  ///< what the row is of
  std::vector<Cell> cells;
};

/// Role of the value that rows are sorted by.
inline constexpr int order_role = Qt::UserRole + 1;

/// Rows of cells under headers: the table twin of every chart.
class CellTable : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  /// Every row has as many cells as there are headers.
  void set(std::vector<QString> headers, std::vector<CellRow> rows);
  [[nodiscard]] const std::vector<CellRow>& rows() const { return rows_; }
  [[nodiscard]] std::optional<int> row_of(std::uint64_t id) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex&, int role) const override;
  QVariant headerData(int section, Qt::Orientation, int role) const override;

 private:
  std::vector<QString> headers_;
  std::vector<CellRow> rows_;
};

/// The table as comma-separated values, for spreadsheets (RFC 4180).
[[nodiscard]] QString csv_of(const QAbstractItemModel&);

}  // namespace orrery::gui
