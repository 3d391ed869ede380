#include "cli/space_json.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "core/plan/plan_names.hpp"

namespace orrery {

nlohmann::ordered_json space_json(const Space& space) {
  nlohmann::ordered_json json;
  json["space"] = space.count;
  json["orders_left_out"] = space.orders_left_out;
  json["stage_layers"] = nlohmann::ordered_json::object();
  for (const auto& [stages, splits] : space.stage_layers) json["stage_layers"][std::to_string(stages)] = splits;
  json["shapes"] = nlohmann::ordered_json::array();
  for (const ShapeSpace& s : space.shapes) {
    nlohmann::ordered_json shape;
    shape["tensor"] = name_of(s.tensor);
    shape["sizes"] = nlohmann::ordered_json::object();
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (s.sizes[a] > 1) shape["sizes"][std::string(name_of(static_cast<Axis>(a)))] = s.sizes[a];
    }
    shape["first"] = s.first;
    shape["count"] = s.count;
    shape["orders"] = s.orders;
    shape["microbatches"] = nlohmann::ordered_json::array();
    for (const MicrobatchSpace& m : s.microbatches) {
      nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
      for (const ScheduleChoice& c : m.schedules) {
        schedules.push_back({{"schedule", name_of(c.schedule)}, {"chunks", c.chunks}});
      }
      shape["microbatches"].push_back({{"size", m.size}, {"schedules", std::move(schedules)}});
    }
    shape["blocks"] = nlohmann::ordered_json::array();
    for (const BlockChoice& b : s.blocks) {
      shape["blocks"].push_back({{"attention", name_of(b.attention)},
                                 {"recompute", name_of(b.recompute)},
                                 {"fewest_recomputed", b.fewest},
                                 {"fewest_activations_offloaded", b.offload},
                                 {"sequence_parallel", b.sequence_parallel},
                                 {"context", name_of(b.context)},
                                 {"zigzag", b.zigzag},
                                 {"inner_ring", b.inner_ring},
                                 {"save_gathered", b.save_gathered}});
    }
    shape["states"] = nlohmann::ordered_json::array();
    for (const StateChoice& c : s.states) {
      shape["states"].push_back({{"zero_stage", c.zero_stage},
                                 {"reshard_after_forward", c.reshard_after_forward},
                                 {"prefetch", c.prefetch},
                                 {"overlap_gradients", c.overlap_gradients},
                                 {"offload_states", c.offload_states},
                                 {"offload_parameters", c.offload_parameters}});
    }
    json["shapes"].push_back(std::move(shape));
  }
  return json;
}

}  // namespace orrery
