#include "core/program/op.hpp"

#include "core/program/program.hpp"

namespace orrery {

std::string_view name_of(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::all_reduce: return "all_reduce";
    case Collective::Kind::reduce: return "reduce";
    case Collective::Kind::broadcast: return "broadcast";
    case Collective::Kind::all_gather: return "all_gather";
    case Collective::Kind::reduce_scatter: return "reduce_scatter";
    case Collective::Kind::all_to_all: return "all_to_all";
    case Collective::Kind::permute: return "permute";
    case Collective::Kind::barrier: return "barrier";
  }
  return "";
}

bool is_paired(const Block& block, const Op& op, const Collective& c) {
  switch (c.kind) {
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::all_to_all:
    case Collective::Kind::permute: return true;
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce:
      return op.views.count >= 2 && block.views[op.views.first].use == View::Use::read &&
             block.views[op.views.first + 1].use != View::Use::read;
    case Collective::Kind::all_reduce:
    case Collective::Kind::barrier: return false;
  }
  return false;
}

std::string_view name_of(Tier tier) {
  switch (tier) {
    case Tier::device: return "device";
    case Tier::host: return "host";
    case Tier::disk: return "disk";
  }
  return "";
}

std::string_view name_of(Lane lane) {
  static constexpr std::string_view transfers[] = {"forward-receive", "forward-send", "backward-receive",
                                                   "backward-send"};
  static constexpr std::string_view copies[] = {"copy-0", "copy-1", "copy-2", "copy-3"};
  switch (lane.kind) {
    case LaneKind::compute: return "compute";
    case LaneKind::collective:
      if (lane.index == gather_lane) return "gather";
      return lane.index < axis_count ? name_of(static_cast<Axis>(lane.index)) : std::string_view("all");
    case LaneKind::transfer: return transfers[lane.index % 4];
    case LaneKind::copy: return copies[lane.index % 4];
    case LaneKind::host: return "host";
  }
  return "";
}

}  // namespace orrery
