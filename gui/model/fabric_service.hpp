#pragma once

#include <QObject>
#include <QString>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "gui/model/fabric_picture.hpp"
#include "gui/model/latest_worker.hpp"
#include "gui/model/services.hpp"
#include "sim/net/fabric.hpp"

namespace orrery::gui {

/// Links above which a fabric is not drawn.
inline constexpr std::uint32_t most_drawn_links = 600'000;

/// What a view of the fabric wants to see.
struct FabricRequest {
  PredictionPointer prediction;
  SimulatedPointer step;            ///< with a range: whose communications
  std::optional<TimeRange> within;  ///< unset: the whole step, as long as it is estimated
  std::string fabric;               ///< a name of the library; empty: the fabric that the cluster's levels imply
};
/// The picture, and the request that it answers.
struct FabricShown {
  PredictionPointer prediction;
  FabricPicture picture;
  std::string fabric;
  std::optional<TimeRange> within;
};
using FabricShownPointer = std::shared_ptr<const FabricShown>;

/// Fabrics of the library that have a place for the cluster's devices: at least as many, in the same boxes.
[[nodiscard]] std::vector<std::string> fabrics_for(const Library&, const ClusterSpec&);
/// Throws Error where there is no such fabric, or it is too large to be drawn.
[[nodiscard]] FabricShown show_fabric(const FabricRequest&, const Library&);

/// The same on a thread of its own; the newest request wins.
class FabricService : public QObject {
  Q_OBJECT
 public:
  explicit FabricService(Library, QObject* parent = nullptr);
  void request(FabricRequest);

 Q_SIGNALS:
  void shown(const orrery::gui::FabricShownPointer&);
  void failed(const QString& why);

 private:
  LatestWorker<FabricRequest> worker_;
};

}  // namespace orrery::gui
