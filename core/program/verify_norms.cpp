#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/program/flat_parts.hpp"
#include "core/program/verify_holders.hpp"
#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

namespace {

// A norm is a sum of squares over all elements of some parameters, each once. Each rank adds the elements that it
// holds, times a share, and collectives add up ranks. Where an axis of a sum does not cut the parameter, its ranks hold
// the same elements, and their shares must add up to one. A wrong share, or one sum too many, leaves a list that is
// sound in every other respect.

bool is_factored(KernelKind kind) {
  return kind == KernelKind::adafactor_squares || kind == KernelKind::adafactor_moments;
}

/// Whether the kernel adds squares to its last operand: squares of its first operand, or of a result made from it.
bool adds_squares(KernelKind kind) {
  return kind == KernelKind::sum_squares || kind == KernelKind::lamb_moments || kind == KernelKind::lars_norms ||
         is_factored(kind);
}

class Norms {
 public:
  Norms(Findings& f, const Holders& holders, std::uint32_t rank_class)
      : f_(f), p_(f.program()), holders_(holders), class_(rank_class) {}

  void check() {
    for_each_op(p_, p_.classes[class_].step, [&](const OpRun& run) {
      if (f_.full()) return;
      if (const auto* c = std::get_if<Compute>(&run.op->action)) compute(run, run.block->kernels[c->kernel]);
      if (const auto* c = std::get_if<Collective>(&run.op->action)) sum(run, *c);
      if (std::holds_alternative<Copy>(run.op->action)) copy(run);
    });
  }

 private:
  /// How often elements count, for elements that the same axes cut.
  struct Share {
    std::uint64_t low = 0, high = 0;  ///< of the sum's elements
    AxisBits parts = 0;               ///< axes whose other ranks add other elements, where no sum was made yet
    std::uint32_t classes = 1;        ///< that add the same elements
    double counted = 0.0;
    const ParameterSlice* example = nullptr;
  };
  struct Sum {
    std::vector<Share> shares;
    std::map<Instance, std::vector<std::pair<std::uint64_t, std::uint64_t>>> taken;  ///< elements of gradients
  };

  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }
  void wrong(const std::string& what, const OpRun& run) {
    f_.add_run("program.norm", what, representative(p_, class_), false, run);
  }
  [[nodiscard]] static bool overlap(const Share& s, const View& v) {
    return s.low < v.offset + v.count && v.offset < s.high;
  }

  void compute(const OpRun& run, const Kernel& k) {
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      if (v.use == View::Use::accumulate) continue;
      const auto at = sums_.find(instance(run, v));
      if (at == sums_.end()) continue;
      if (v.use == View::Use::write) {
        at->second = {};
      } else {
        used(run, v, at->second);
      }
    }
    if (adds_squares(k.kind)) add(run, k, view(run, 0), view(run, run.op->views.count - 1));
  }

  void add(const OpRun& run, const Kernel& k, const View& of, const View& into) {
    const Buffer& b = p_[of.buffer];
    if (!b.parameters) return;
    const ParameterTable& table = p_.parameter_tables[*b.parameters];
    Sum& sum = sums_[instance(run, into)];
    // Elements of the whole table that all ranks together take.
    std::uint64_t low = of.offset;
    std::uint64_t high = of.offset + of.count * size(p_.mesh, of.member_of);
    AxisList cut_by;
    if (!b.flat_split.empty()) {
      for (const FlatPart& part : flat_parts(table, p_.mesh, b.flat_split)) {
        if (of.offset < part.first || part.first + part.count < of.offset + of.count) continue;
        cut_by = part.axes;
        low = part.segment->offset + (of.offset - part.first) * part.parts;
        high = low + of.count * part.parts;
        break;
      }
    }
    auto& taken = sum.taken[instance(run, of)];
    for (const auto& [from, to] : taken) {
      if (from < high && low < to) return wrong(fmt::format("{} is taken into the norm twice", b.name), run);
    }
    taken.emplace_back(low, high);
    const auto flat = static_cast<AxisBits>(bits(p_.mesh, of.member_of) | bits(p_.mesh, cut_by));
    const auto holders = static_cast<std::uint32_t>(std::max<std::size_t>(holders_.of(instance(run, of)).size(), 1));
    for (const ParameterSlice& s : table.slices) {
      const std::uint64_t end = s.offset + local_count(s.shard, p_.mesh);
      if (end <= low || high <= s.offset) continue;
      if (k.kind == KernelKind::sum_squares && !counts(table, s)) {
        return wrong(fmt::format("{} is a second copy, and is taken into the norm", s.name), run);
      }
      auto cut = static_cast<AxisBits>(flat | cuts(p_, s.shard));
      if (is_factored(k.kind)) cut = static_cast<AxisBits>(cut & ~cuts_of_experts(p_, s));  // which have their own
      const Share share{into.offset, into.offset + into.count, cut, holders, k.parameter, &s};
      const bool known = std::any_of(sum.shares.begin(), sum.shares.end(), [&](const Share& other) {
        return other.low == share.low && other.high == share.high && other.parts == cut && other.classes == holders &&
               other.counted == share.counted;
      });
      if (!known) sum.shares.push_back(share);
    }
  }

  [[nodiscard]] static bool counts(const ParameterTable& table, const ParameterSlice& slice) {
    return std::any_of(table.segments.begin(), table.segments.end(), [&](const ParameterSegment& s) {
      return s.offset <= slice.offset && slice.offset < s.offset + s.count && s.counted;
    });
  }

  void sum(const OpRun& run, const Collective& c) {
    if (c.kind != Collective::Kind::all_reduce || c.reduction != Collective::Reduction::sum) return;
    const Group& group = p_[c.group];
    const AxisBits lists = bits(p_.mesh, p_.class_axes);
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const auto at = sums_.find(instance(run, view(run, i)));
      if (at == sums_.end()) continue;
      for (Share& s : at->second.shares) {
        if (!overlap(s, view(run, i))) continue;
        bool several = false;
        for (const Axis axis : group.axes) {
          if ((bit(axis) & lists) != 0) {
            several = true;
          } else if ((bit(axis) & s.parts) != 0) {
            s.parts = static_cast<AxisBits>(s.parts & ~bit(axis));
          } else {
            s.counted *= p_.mesh.size(axis);
          }
        }
        // Different classes hold different parameters, except for those that several classes hold.
        if (several) s.counted *= s.classes;
        if (several) s.classes = group_size(Group{p_.class_axes, group.members}, p_.mesh);
      }
    }
  }

  /// The host's sums come up for messages and go back.
  void copy(const OpRun& run) {
    for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
      const auto from = sums_.find(instance(run, view(run, i)));
      const Instance to = instance(run, view(run, i + 1));
      if (from != sums_.end()) {
        sums_[to] = Sum(from->second);
      } else {
        sums_.erase(to);
      }
    }
  }

  void used(const OpRun& run, const View& v, const Sum& sum) {
    for (const Share& s : sum.shares) {
      if (!overlap(s, v) || std::abs(s.counted - 1.0) < 1e-9) continue;
      return wrong(fmt::format("elements of {} count {} times in {}", s.example->name, s.counted, p_[v.buffer].name),
                   run);
    }
  }

  Findings& f_;
  const Program& p_;
  const Holders& holders_;
  std::uint32_t class_;
  std::map<Instance, Sum> sums_;
};

/// A parameter that two tables have a copy of counts in only one of them.
void check_copies(Findings& f) {
  std::set<std::string> counted;
  std::uint32_t kind = 0;  // tables of layers are of different ones
  for (const ParameterTable& table : f.program().parameter_tables) {
    const std::uint32_t layer = of_layers(table) ? kind++ : 0;
    for (const ParameterSegment& segment : table.segments) {
      for (const ParameterSlice& s : table.slices) {
        const bool inside = segment.offset <= s.offset && s.offset < segment.offset + segment.count;
        if (!inside || !segment.counted) continue;
        const std::string name = parameter_name(table, s, layer);
        if (!counted.insert(name).second) f.add("program.norm", fmt::format("two tables count {} in the norm", name));
      }
    }
  }
}

}  // namespace

void check_norms(Findings& f) {
  const Holders holders(f.program());
  check_copies(f);
  for (std::uint32_t c = 0; c < f.program().classes.size() && !f.full(); ++c) Norms(f, holders, c).check();
}

}  // namespace orrery::verifying
