#include "forecast/checkpoint_size.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/program/flat_parts.hpp"

namespace orrery {
namespace {

bool is_state(const Buffer& b) { return b.role == Role::weight || b.role == Role::master || b.role == Role::moment; }

struct ClassBytes {
  double held = 0.0, written = 0.0;
};

/// Share of a segment's elements that are of no copy of a tied table.
double own_share(const ParameterTable& table, const ParameterSegment& segment) {
  if (table.module == "embedding") return 1.0;
  std::uint64_t copied = 0;
  for (std::size_t i = 0; i < table.slices.size(); ++i) {
    const ParameterSlice& slice = table.slices[i];
    if (slice.offset < segment.offset || slice.offset >= segment.offset + segment.count) continue;
    if (!slice.name.starts_with("embedding.")) continue;
    const bool last = i + 1 == table.slices.size() || table.slices[i + 1].offset >= segment.offset + segment.count;
    copied += (last ? segment.offset + segment.count : table.slices[i + 1].offset) - slice.offset;
  }
  return 1.0 - static_cast<double>(copied) / static_cast<double>(segment.count);
}

/// Ranks that hold the same part: those along axes that cut neither it nor the list of ops.
double holders(const Program& p, const ParameterTable& table, const FlatPart& part) {
  AxisList axes = uncut(plan_axes, table, *part.segment);
  for (const Axis axis : p.class_axes) axes = without(axes, axis);
  for (const Axis axis : part.axes) axes = without(axes, axis);
  return static_cast<double>(size(p.mesh, axes));
}

void add(ClassBytes& to, const Program& p, const Buffer& b) {
  // Codes and scales of frozen matrices are not saved: setup makes them again.
  if (!b.parameters && b.role == Role::weight) return;
  const double each = static_cast<double>(size_of(b.dtype));
  if (!b.parameters || b.name.find(".scales") != std::string::npos || b.name.find(".moments") != std::string::npos) {
    // Scales and statistics are small; they count as written by every rank that has them.
    to.held += static_cast<double>(size_of(b));
    to.written += static_cast<double>(size_of(b));
    return;
  }
  const ParameterTable& table = p.parameter_tables[*b.parameters];
  for (const FlatPart& part : flat_parts(table, p.mesh, b.flat_split)) {
    const double bytes = each * static_cast<double>(part.count);
    to.held += bytes;
    to.written += bytes * own_share(table, *part.segment) / holders(p, table, part);
  }
}

/// Weights below a device's own are copies: a save takes the device's.
bool is_copy(const Program& p, const Buffer& b, const std::set<std::tuple<std::uint32_t, std::uint32_t>>& live,
             std::uint32_t layer) {
  if (b.tier == Tier::device || b.role != Role::weight) return false;
  for (const auto& [other, at] : live) {
    const Buffer& o = p.buffers[other];
    if (at == layer && o.role == Role::weight && o.tier == Tier::device && o.parameters == b.parameters) return true;
  }
  return false;
}

ClassBytes bytes_of(const Program& p, const RankClass& c) {
  std::set<std::tuple<std::uint32_t, std::uint32_t>> live;  // buffer, layer
  for_each_op(p, c.setup, [&](const OpRun& run) {
    const auto place = [&](BufferId id, std::int32_t shift) {
      const bool layered = per_layer(p[id].scope);
      return std::tuple{static_cast<std::uint32_t>(index(id)),
                        layered ? static_cast<std::uint32_t>(static_cast<std::int64_t>(run.layer) + shift) : 0U};
    };
    if (const auto* a = std::get_if<Alloc>(&run.op->action)) {
      if (is_state(p[a->what])) live.insert(place(a->what, a->layer_shift));
    } else if (const auto* f = std::get_if<Free>(&run.op->action)) {
      live.erase(place(f->what, f->layer_shift));
    }
  });
  ClassBytes out;
  for (const auto& [buffer, layer] : live) {
    if (!is_copy(p, p.buffers[buffer], live, layer)) add(out, p, p.buffers[buffer]);
  }
  return out;
}

}  // namespace

CheckpointSize checkpoint_size(const Program& p, const std::vector<std::uint32_t>& placement, std::uint32_t per_node) {
  std::vector<ClassBytes> classes;
  for (const RankClass& c : p.classes) classes.push_back(bytes_of(p, c));
  std::map<std::uint32_t, ClassBytes> nodes;
  CheckpointSize out;
  for (std::uint32_t r = 0; r < p.mesh.size(); ++r) {
    const ClassBytes& bytes = classes[class_of(p, Rank{r})];
    ClassBytes& node = nodes[(placement.empty() ? r : placement[r]) / per_node];
    node.held += bytes.held;
    node.written += bytes.written;
    out.written += bytes.written;
    out.written_by_rank = std::max(out.written_by_rank, bytes.written);
    out.held_by_rank = std::max(out.held_by_rank, bytes.held);
  }
  for (const auto& [number, node] : nodes) {
    out.written_by_node = std::max(out.written_by_node, node.written);
    out.held_by_node = std::max(out.held_by_node, node.held);
  }
  return out;
}

}  // namespace orrery
