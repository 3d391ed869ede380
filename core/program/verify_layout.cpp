#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "core/program/flat_parts.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

constexpr auto layout = "program.layout";
// Bytes are exact in a double up to 2^53.
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 53;
/// Groups are listed rank by rank, which bounds the number of ranks.
constexpr std::uint64_t max_ranks = std::uint64_t{1} << 24;
/// More expanded ops than this per rank take minutes to walk.
constexpr std::uint64_t max_ops = std::uint64_t{1} << 26;

bool all_different(const AxisList& axes) {
  for (std::uint8_t i = 0; i < axes.count; ++i) {
    for (std::uint8_t j = 0; j < i; ++j) {
      if (axes.axis[i] == axes.axis[j]) return false;
    }
  }
  return true;
}

bool valid(Lane lane) {
  switch (lane.kind) {
    case LaneKind::compute:
    case LaneKind::host: return lane.index == 0;
    case LaneKind::collective: return lane.index <= gather_lane;
    case LaneKind::transfer:
    case LaneKind::copy: return lane.index < 4;
  }
  return false;
}

/// The local element count; empty when the cut is uneven or the number too large.
std::optional<std::uint64_t> elements(const Shard& shard, const Mesh& mesh, std::uint64_t microbatches) {
  if (shard.rank > Shard::max_dims) return std::nullopt;
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < shard.rank; ++i) {
    const ShardDim& d = shard.dims[i];
    const std::uint64_t parts = size(mesh, d.split) * (d.microbatched ? microbatches : 1);
    if (d.zigzag != 0 && d.extent % (2 * std::uint64_t{d.zigzag}) != 0) return std::nullopt;
    if (!all_different(d.split) || parts == 0 || d.extent % parts != 0 || d.valid > d.extent) return std::nullopt;
    const std::uint64_t part = d.extent / parts;
    if (part != 0 && count > max_bytes / part) return std::nullopt;
    count *= part;
  }
  return count;
}

void check_mesh(Findings& f) {
  const Program& p = f.program();
  std::uint64_t ranks = 1;
  std::set<Axis> seen;
  for (const MeshAxis& a : p.mesh.axes) {
    if (!seen.insert(a.axis).second) f.add(layout, fmt::format("mesh axis {} is listed twice", name_of(a.axis)));
    if (a.size == 0) f.add(layout, fmt::format("mesh axis {} has size 0", name_of(a.axis)));
    ranks = a.size == 0 || ranks > max_ranks ? ranks : ranks * a.size;
  }
  if (ranks > max_ranks) f.add("program.size", fmt::format("the mesh has more than {} ranks", max_ranks));
  if (p.microbatches == 0) f.add(layout, "the program has no microbatches");
  if (!f.empty()) return;
  if (!all_different(p.class_axes)) f.add(layout, "an axis stands twice among the class axes");
  const std::uint64_t classes = size(p.mesh, p.class_axes);
  if (classes != p.classes.size()) {
    f.add(layout, fmt::format("{} classes for class axes of size {}", p.classes.size(), classes));
  }
}

void check_groups(Findings& f) {
  const Program& p = f.program();
  for (std::size_t i = 0; i < p.groups.size(); ++i) {
    const Group& g = p.groups[i];
    if (!all_different(g.axes)) f.add(layout, fmt::format("an axis stands twice in group {}", i));
    const std::uint64_t extent = size(p.mesh, g.axes);
    std::set<std::uint32_t> seen;
    for (const std::uint32_t m : g.members) {
      if (m >= extent) f.add(layout, fmt::format("group {} has member {} of {}", i, m, extent));
      if (!seen.insert(m).second) f.add(layout, fmt::format("group {} has member {} twice", i, m));
    }
  }
}

void check_tables(Findings& f) {
  const Program& p = f.program();
  for (const ParameterTable& t : p.parameter_tables) {
    if (t.count > max_bytes / 8) f.add(layout, fmt::format("table {} has {} elements", t.module, t.count));
    for (const ParameterSlice& s : t.slices) {
      const auto count = elements(s.shard, p.mesh, 1);
      if (!count) {
        f.add(layout, fmt::format("parameter {} of table {} is not cut into equal parts", s.name, t.module));
      } else if (s.offset > t.count || *count > t.count - s.offset) {
        f.add(layout, fmt::format("parameter {} of table {} lies outside: {} elements at {} of {}", s.name, t.module,
                                  *count, s.offset, t.count));
      }
    }
    std::uint64_t at = 0;
    for (const ParameterSegment& s : t.segments) {
      if (s.offset != at || s.count > t.count - std::min(at, t.count)) {
        f.add(layout, fmt::format("segments of table {} do not follow each other: one begins at {}, not {}", t.module,
                                  s.offset, at));
        break;
      }
      at += s.count;
    }
    if (!t.segments.empty() && at != t.count) {
      f.add(layout, fmt::format("segments of table {} cover {} of {} elements", t.module, at, t.count));
    }
  }
}

/// The buffer's elements take the place of another's, one by one. That other buffer has memory of its own and takes
/// nobody's place.
void reuse(Findings& f, const Buffer& b) {
  const Program& p = f.program();
  const auto wrong = [&](const std::string& what) { f.add(layout, fmt::format("buffer {}: {}", b.name, what)); };
  if (index(*b.reuses) >= p.buffers.size()) return wrong(fmt::format("there is no buffer {}", index(*b.reuses)));
  const Buffer& other = p[*b.reuses];
  if (other.reuses) return wrong(fmt::format("reuses {}, which has no memory of its own", other.name));
  if (other.count != b.count || size_of(other.dtype) != size_of(b.dtype)) {
    wrong(fmt::format("{} elements of {} cannot take the place of {} elements of {} in {}", b.count, name_of(b.dtype),
                      other.count, name_of(other.dtype), other.name));
  }
  if (other.scope != b.scope || other.tier != b.tier) {
    wrong(fmt::format("{} has another scope or another tier", other.name));
  }
  const auto takers =
      std::count_if(p.buffers.begin(), p.buffers.end(), [&](const Buffer& x) { return x.reuses == b.reuses; });
  if (takers > 1) wrong(fmt::format("{} buffers reuse {}", takers, other.name));
}

void check_buffers(Findings& f) {
  const Program& p = f.program();
  for (const Buffer& b : p.buffers) {
    const auto wrong = [&](const std::string& what) { f.add(layout, fmt::format("buffer {}: {}", b.name, what)); };
    if (b.count > max_bytes / size_of(b.dtype)) {
      wrong(fmt::format("{} elements of {} are too many", b.count, name_of(b.dtype)));
      continue;
    }
    if (b.shard) {
      const auto count = elements(*b.shard, p.mesh, p.microbatches);
      if (!count) wrong("its tensor is not cut into equal parts");
      if (count && *count != b.count) wrong(fmt::format("holds {} elements, but its shard has {}", b.count, *count));
    }
    if (!all_different(b.flat_split)) wrong("an axis cuts it twice");
    if (b.reuses) reuse(f, b);
    if (!b.parameters) continue;
    if (*b.parameters >= p.parameter_tables.size()) {
      wrong(fmt::format("there is no parameter table {}", *b.parameters));
      continue;
    }
    const ParameterTable& t = p.parameter_tables[*b.parameters];
    const std::uint64_t count = flat_count(t, p.mesh, b.flat_split);
    // A copy of gradients may hold only the first segments.
    const bool begins = b.role == Role::gradient && b.flat_split.empty() &&
                        std::any_of(t.segments.begin(), t.segments.end(),
                                    [&](const ParameterSegment& s) { return s.offset + s.count == b.count; });
    if (b.count != count && !begins) {
      wrong(fmt::format("holds {} elements, but table {} cut {} ways has {}", b.count, t.module,
                        size(p.mesh, b.flat_split), count));
    }
    for (const FlatPart& part : flat_parts(t, p.mesh, b.flat_split)) {
      if (part.segment->count % part.parts != 0) {
        wrong(fmt::format("a segment of {} elements is cut {} ways", part.segment->count, part.parts));
      }
    }
  }
}

/// Ranges, ids and waits of one block.
class BlockLayout {
 public:
  BlockLayout(Findings& f, BlockId id) : f_(f), p_(f.program()), block_(p_[id]), id_(id) {}

  void check() {
    for (at_ = 0; at_ < block_.ops.size(); ++at_) {
      const Op& op = block_.ops[at_];
      const bool ranges = dense(op.views, views_, block_.views.size(), "views") &&
                          dense(op.waits, waits_, block_.waits.size(), "waits");
      if (!ranges) return;
      std::visit([&](const auto& a) { action(a, op); }, op.action);
      if (is_timed(op) && !valid(op.lane)) wrong("its lane does not exist");
      if (!is_timed(op) && op.views.count > 0) wrong("memory ops have no views");
      views(op);
    }
    if (views_ != block_.views.size() || waits_ != block_.waits.size() || transfers_ != block_.transfers.size()) {
      f_.add(layout, fmt::format("block {} has views, waits or transfers that belong to no op", block_.name));
    }
  }

 private:
  void wrong(const std::string& what) { f_.add_at(layout, what, id_, at_); }

  bool dense(Range range, std::size_t& from, std::size_t size, std::string_view what) {
    if (range.count == 0) return true;
    if (range.first != from || range.count > size - from) {
      wrong(fmt::format("its {} begin at {} and number {} of {}; those of the op before end at {}", what, range.first,
                        range.count, size, from));
      return false;
    }
    from += range.count;
    return true;
  }

  void buffer(BufferId id) {
    if (index(id) >= p_.buffers.size()) wrong(fmt::format("there is no buffer {}", index(id)));
  }
  bool group(GroupId id) {
    if (index(id) < p_.groups.size()) return true;
    wrong(fmt::format("there is no group {}", index(id)));
    return false;
  }
  void peer(GroupId id, Peer peer) {
    const std::uint32_t members = group_size(p_[id], p_.mesh);
    if (index(peer) >= members) wrong(fmt::format("there is no peer {} in a group of {}", index(peer), members));
  }

  void action(const Compute& a, const Op&) {
    if (a.kernel >= block_.kernels.size()) wrong(fmt::format("there is no kernel {}", a.kernel));
  }
  void action(const Collective& a, const Op&) {
    if (!group(a.group)) return;
    if (a.kind != Collective::Kind::permute) {
      peer(a.group, a.root);
      if (a.width != 0) wrong("only a permute has a width");
      return;
    }
    const std::uint32_t members = group_size(p_[a.group], p_.mesh);
    if (index(a.root) % (a.width == 0 ? members : a.width) == 0) wrong("a permute over no distance moves nothing");
    if (a.width != 0 && members % a.width != 0)
      wrong(fmt::format("{} members do not divide into rings of {}", members, a.width));
  }
  void action(const Exchange& a, const Op& op) {
    if (!dense(a.transfers, transfers_, block_.transfers.size(), "transfers")) return;
    for (std::uint32_t i = 0; i < a.transfers.count; ++i) {
      const Transfer& t = block_.transfers[a.transfers.first + i];
      if (group(t.group)) peer(t.group, t.peer);
      if (t.view >= op.views.count) wrong(fmt::format("transfer {} takes view {} of {}", i, t.view, op.views.count));
    }
  }
  void action(const Copy&, const Op&) {}
  void action(const Alloc& a, const Op&) { buffer(a.what); }
  void action(const Free& a, const Op&) { buffer(a.what); }

  void views(const Op& op) {
    for (std::uint32_t i = 0; i < op.views.count; ++i) {
      const View& v = block_.views[op.views.first + i];
      buffer(v.buffer);
      if (!all_different(v.member_of)) wrong("an axis stands twice in the part of a view");
    }
  }

  Findings& f_;
  const Program& p_;
  const Block& block_;
  BlockId id_;
  std::uint32_t at_ = 0;
  std::size_t views_ = 0, waits_ = 0, transfers_ = 0;
};

void check_waits(Findings& f, BlockId id) {
  const Block& block = f.program()[id];
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    for (std::uint32_t j = 0; j < op.waits.count; ++j) {
      const Wait& w = block.waits[op.waits.first + j];
      const auto wrong = [&](const std::string& what) { f.add_at("program.wait", what, id, i); };
      if (!is_timed(op)) {
        wrong("memory ops wait for nothing");
      } else if (w.kind == Wait::Kind::tail) {
        if (!valid(w.lane)) wrong("it waits for a lane that does not exist");
      } else if (w.op >= i) {
        wrong(fmt::format("it waits for op {}, which is not before it", w.op));
      } else if (!is_timed(block.ops[w.op])) {
        wrong(fmt::format("it waits for op {}, which takes no time", w.op));
      }
    }
  }
}

/// A slot passes over receives that were issued before it. Its block waits for one lane of them and adds none.
void check_receives_ahead(Findings& f) {
  const Program& p = f.program();
  constexpr std::uint32_t receive_lanes = 2;
  const auto number = [](Lane lane) {
    return lane.index == static_cast<std::uint8_t>(TransferLane::forward_receive) ? 0U : 1U;
  };
  struct Receives {
    std::array<std::uint32_t, receive_lanes> issued{};
    std::array<bool, receive_lanes> awaited{};
  };
  std::vector<Receives> of(p.blocks.size());
  for (std::size_t b = 0; b < p.blocks.size(); ++b) {
    for (const Op& op : p.blocks[b].ops) {
      if (is_timed(op) && is_receive(op.lane)) ++of[b].issued[number(op.lane)];
    }
    for (const Wait& w : p.blocks[b].waits) {
      if (w.kind == Wait::Kind::tail && is_receive(w.lane)) of[b].awaited[number(w.lane)] = true;
    }
  }
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    for (const auto* slots : {&p.classes[c].setup, &p.classes[c].step}) {
      std::array<std::uint64_t, receive_lanes> issued{};
      for (std::size_t i = 0; i < slots->size(); ++i) {
        const Slot& s = (*slots)[i];
        const Receives& block = of[index(s.block)];
        const auto wrong = [&](const std::string& what) {
          f.add("program.wait", fmt::format("class {}, {} run {}: it passes over {} receive{}, {}", c,
                                            slots == &p.classes[c].setup ? "setup" : "step", i, s.receives_ahead,
                                            s.receives_ahead == 1 ? "" : "s", what));
        };
        for (std::uint32_t l = 0; l < receive_lanes; ++l) {
          if (s.receives_ahead > 0 && block.awaited[l] && issued[l] < s.receives_ahead) {
            wrong(fmt::format("and {} were issued", issued[l]));
          }
          issued[l] += std::uint64_t{block.issued[l]} * s.repeat;
        }
        if (s.receives_ahead == 0) continue;
        if (block.awaited[0] == block.awaited[1]) wrong("and its block does not wait for one receive lane");
        if (block.issued[0] + block.issued[1] > 0) wrong("and its block receives itself");
      }
    }
  }
}

/// Every instance that a slot can name exists: layers up to and including
/// `layers` (the input of the head), microbatches below `microbatches`.
void check_slots(Findings& f) {
  const Program& p = f.program();
  // Least and greatest shift of each block, over buffers that differ by layer.
  struct Shifts {
    std::int64_t low = 0, high = 0;
  };
  std::vector<Shifts> shifts(p.blocks.size());
  for (std::size_t b = 0; b < p.blocks.size(); ++b) {
    const auto see = [&](BufferId id, std::int8_t shift) {
      if (!per_layer(p[id].scope)) return;
      shifts[b].low = std::min<std::int64_t>(shifts[b].low, shift);
      shifts[b].high = std::max<std::int64_t>(shifts[b].high, shift);
    };
    for (const View& v : p.blocks[b].views) see(v.buffer, v.layer_shift);
    for (const Op& op : p.blocks[b].ops) {
      if (const auto* a = std::get_if<Alloc>(&op.action)) see(a->what, a->layer_shift);
      if (const auto* a = std::get_if<Free>(&op.action)) see(a->what, a->layer_shift);
    }
  }
  for (std::size_t c = 0; c < p.classes.size(); ++c) {
    for (const auto* slots : {&p.classes[c].setup, &p.classes[c].step}) {
      std::uint64_t ops = 0;
      for (std::size_t i = 0; i < slots->size(); ++i) {
        const Slot& s = (*slots)[i];
        const auto wrong = [&](const std::string& code, const std::string& what) {
          f.add(code,
                fmt::format("class {}, {} run {}: {}", c, slots == &p.classes[c].setup ? "setup" : "step", i, what));
        };
        if (index(s.block) >= p.blocks.size()) {
          wrong(layout, fmt::format("there is no block {}", index(s.block)));
          continue;
        }
        ops += std::uint64_t{s.repeat} * p[s.block].ops.size();
        if (ops > max_ops) {
          wrong("program.size", fmt::format("more than {} ops on one rank", max_ops));
          break;
        }
        if (s.repeat == 0) wrong(layout, "it runs zero times");
        if (s.microbatch >= p.microbatches) {
          wrong("program.view",
                fmt::format("it takes microbatch {}, which is not below {}", s.microbatch, p.microbatches));
        }
        const std::int64_t first = s.layer;
        const std::int64_t last = first + (static_cast<std::int64_t>(s.repeat) - 1) * s.layer_step;
        const std::int64_t low = std::min(first, last) + shifts[index(s.block)].low;
        const std::int64_t high = std::max(first, last) + shifts[index(s.block)].high;
        if (low < 0 || high > p.layers) {
          wrong("program.view", fmt::format("block {} reaches layers {} to {}; layers are 0 to {}", p[s.block].name,
                                            low, high, p.layers));
        }
      }
    }
  }
}

}  // namespace

void check_layout(Findings& f) {
  check_mesh(f);
  if (!f.empty()) return;
  check_groups(f);
  check_tables(f);
  check_buffers(f);
  if (!f.empty()) return;
  for (std::uint32_t b = 0; b < f.program().blocks.size() && !f.full(); ++b) BlockLayout(f, BlockId{b}).check();
  if (!f.empty()) return;
  for (std::uint32_t b = 0; b < f.program().blocks.size() && !f.full(); ++b) check_waits(f, BlockId{b});
  check_slots(f);
  if (f.empty()) check_receives_ahead(f);
}

}  // namespace orrery::verifying
