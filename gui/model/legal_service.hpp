#pragma once

#include <QObject>
#include <map>
#include <memory>
#include <string>

#include "gui/model/latest_worker.hpp"
#include "gui/model/prediction.hpp"
#include "planner/move.hpp"

namespace orrery::gui {

/// The runs that can be reached from a run by changing one dimension.
struct Reachable {
  LegalValues legal;
  std::map<std::uint64_t, std::string> reasons;  ///< of refused choices: the rule
};
[[nodiscard]] Reachable reachable(const PlannedRun&, const Dimension&);

/// By dimension.
struct ReachableRuns {
  std::shared_ptr<const PricedRun> from;
  std::map<const Dimension*, Reachable> of;  ///< those that a person turns
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
