#pragma once

#include <QObject>
#include <array>
#include <map>
#include <memory>
#include <string>

#include "edit/dimension_move.hpp"
#include "gui/model/latest_worker.hpp"
#include "gui/model/prediction.hpp"

namespace orrery::gui {

/// What can be reached from a run by turning one dimension.
struct Reachable {
  LegalValues legal;
  std::map<std::uint64_t, std::string> reasons;  ///< of refused choices: the rule
};
[[nodiscard]] Reachable reachable(const PlannedRun&, Dimension);

/// Of every dimension.
struct ReachableRuns {
  std::shared_ptr<const PricedRun> from;
  std::array<Reachable, dimension_count> of;
};
using ReachablePointer = std::shared_ptr<const ReachableRuns>;

/// Looks for them on a thread of its own; the newest request wins.
class LegalService : public QObject {
  Q_OBJECT
 public:
  explicit LegalService(QObject* parent = nullptr);
  void request(std::shared_ptr<const PricedRun>);

 Q_SIGNALS:
  void found(const orrery::gui::ReachablePointer&);

 private:
  LatestWorker<std::shared_ptr<const PricedRun>> worker_;
};

}  // namespace orrery::gui
