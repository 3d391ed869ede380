#pragma once

#include <QTimer>
#include <QWidget>

#include "gui/model/cell_table.hpp"
#include "gui/model/moves.hpp"
#include "gui/model/services.hpp"

class QComboBox;
class QLabel;
class QSlider;
class QTableView;
class QToolButton;

namespace orrery::gui {

/// Ranks as a grid, with the blocks that one operation moves between them.
class MovesView : public QWidget {
  Q_OBJECT
 public:
  explicit MovesView(QWidget* parent = nullptr);
  void set_moves(RankMoves);
  /// Sets what is shown: an operation, and how far its blocks have come, from 0 to 1.
  void set_place(std::size_t move, double share);
  [[nodiscard]] const RankMoves& moves() const { return moves_; }
  [[nodiscard]] QRectF cell_rect(std::size_t cell) const;
  [[nodiscard]] QSize minimumSizeHint() const override { return {200, 160}; }

 protected:
  void paintEvent(QPaintEvent*) override;

 private:
  RankMoves moves_;
  std::size_t at_ = 0;
  double share_ = 0.5;
};

/// The operations of the ranks of a tensor grid, a ring or a group, one by one: products, and blocks on their way.
class MovesPanel : public QWidget {
  Q_OBJECT
 public:
  explicit MovesPanel(QWidget* parent = nullptr);
  void set_prediction(PredictionPointer);
  /// Shows a block by its name; an empty one shows the first layer's forward pass.
  void show_block(const QString& name);
  [[nodiscard]] MovesView& view() { return *view_; }
  [[nodiscard]] const CellTable& table() const { return table_; }

 public Q_SLOTS:
  void go(int move);

 protected:
  void hideEvent(QHideEvent*) override;

 private:
  void fill();
  void play(bool);

  PredictionPointer prediction_;
  QString block_wish_;
  CellTable table_;
  QTimer clock_;
  int at_ = 0;
  double share_ = 0.5;
  MovesView* view_;
  QComboBox* block_;
  QToolButton* play_;
  QSlider* slider_;
  QLabel* text_;
  QTableView* list_;
};

}  // namespace orrery::gui
