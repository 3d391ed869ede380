#include "gui/model/legal_service.hpp"

namespace orrery::gui {

Reachable reachable(const PlannedRun& run, const Dimension& d) {
  Reachable out{legal_values(run, d), {}};
  for (const std::uint64_t v : out.legal.refused) {
    if (std::string reason; !moved(run, d, v, reason)) out.reasons.emplace(v, std::move(reason));
  }
  return out;
}

LegalService::LegalService(QObject* parent)
    : QObject(parent), worker_([this](const std::shared_ptr<const PricedRun>& run, const std::atomic<bool>& outdated) {
        auto out = std::make_shared<ReachableRuns>();
        out->from = run;
        for (const Dimension& d : dimensions()) {
          if (outdated) return;
          if (is_turned(d)) out->of.emplace(&d, reachable(run->run, d));
        }
        QMetaObject::invokeMethod(
            this, [this, done = ReachablePointer(std::move(out))] { Q_EMIT found(done); }, Qt::QueuedConnection);
      }) {}

void LegalService::request(std::shared_ptr<const PricedRun> run) { worker_.submit(std::move(run)); }

}  // namespace orrery::gui
