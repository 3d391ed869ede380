#include "core/program/lower/copies.hpp"

#include <algorithm>
#include <span>

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {
namespace {

class Editor {
 public:
  Editor(State& s, const Draft& from) : s_(s), from_(from) {
    out_.place = from.place;
    out_.block.name = from.block.name;
    out_.block.pass = from.block.pass;
    out_.block.kernels = from.block.kernels;
    out_.block.transfers = from.block.transfers;
  }

  Draft with(const CopyChange& change) {
    gather(change.gather);
    clear(change.clear);
    std::vector<Lane> awaited;  ///< lanes that have waited for the gather; later ops on such a lane come after it
                                ///< anyway
    for (std::uint32_t i = 0; i < from_.block.ops.size(); ++i) {
      const Op& op = from_.block.ops[i];
      if (change.reuse != nullptr) take_over(*change.reuse, i);
      for (const auto& [at, lane] : from_.tails) {
        if (at == i) tail(lane);
      }
      if (!is_memory(op)) enter();
      if (change.after_gather && reads_weights(op)) {
        const Lane lane = own_lane(op);
        if (std::find(awaited.begin(), awaited.end(), lane) == awaited.end()) {
          tail({LaneKind::collective, gather_lane});
          awaited.push_back(lane);
        }
      }
      append(op, {from_.block.views.data() + op.views.first, op.views.count});
      for (const Copy& c : change.free) {
        if (i == last_use(c)) out_.block.ops.push_back({Free{c.module->whole_weights, c.shift}, {}, {}, {}});
      }
    }
    if (change.reuse != nullptr) clear_rest(*change.reuse);
    return std::move(out_);
  }

 private:
  /// The next op is the first one that takes time.
  void enter() {
    if (entered_) return;
    for (const Lane lane : from_.entry_tails) tail(lane);
    entered_ = true;
  }
  void tail(Lane lane) { out_.tails.emplace_back(static_cast<std::uint32_t>(out_.block.ops.size()), lane); }

  void append(Op op, std::span<const View> views) {
    op.views = {static_cast<std::uint32_t>(out_.block.views.size()), static_cast<std::uint32_t>(views.size())};
    out_.block.views.insert(out_.block.views.end(), views.begin(), views.end());
    out_.block.ops.push_back(op);
  }

  void gather(const std::vector<Copy>& copies) {
    std::vector<std::pair<AxisList, std::vector<View>>> parts;
    const auto views_over = [&](const AxisList& axes) -> std::vector<View>& {
      for (auto& [of, views] : parts) {
        if (of == axes) return views;
      }
      return parts.emplace_back(axes, std::vector<View>{}).second;
    };
    const auto send = [&] {
      for (const auto& [axes, views] : parts) {
        const Collective all{Collective::Kind::all_gather, Collective::Reduction::sum, share_group(s_, axes), Peer{0}};
        append({all, {}, {}, {}}, views);
      }
      parts.clear();
    };
    for (const Copy& c : copies) {
      out_.block.ops.push_back({Alloc{c.module->whole_weights, c.shift}, {}, {}, {}});
      const ParameterTable& table = s_.program.parameter_tables[c.module->table];
      for (const ParameterSegment& s : table.segments) {
        if (begins_chunk(s_, table, s)) send();
        const Operand part = own_part(s_, c.module->weights, s, View::Use::read, c.shift);
        std::vector<View>& views = views_over(own_axes(s_, table, s));
        views.push_back({part.buffer, part.offset, part.count, part.use, part.layer_shift, part.member_of});
        views.push_back({c.module->whole_weights, s.offset, s.count, View::Use::write, c.shift, {}});
      }
    }
    send();
  }

  void clear(const std::vector<ClearedCopy>& copies) {
    for (const ClearedCopy& c : copies) {
      const BufferId b = c.buffer;
      out_.block.ops.push_back({Alloc{b, c.shift}, {}, {}, {}});
      for (const auto& [low, high] : c.ranges) {
        out_.block.kernels.push_back(s_.kernel(KernelKind::fill, Pass::weight_gradient, 1, high - low));
        const View cleared{b, low, high - low, View::Use::write, c.shift, {}};
        append({Compute{static_cast<std::uint32_t>(out_.block.kernels.size() - 1)}, {}, {}, {}}, {&cleared, 1});
      }
    }
  }

  void fill(BufferId b, std::uint64_t low, std::uint64_t high) {
    enter();
    out_.block.kernels.push_back(s_.kernel(KernelKind::fill, Pass::weight_gradient, 1, high - low));
    const View view{b, low, high - low, View::Use::write, 0, {}};
    append({Compute{static_cast<std::uint32_t>(out_.block.kernels.size() - 1)}, {}, {}, {}}, {&view, 1});
    cleared_.emplace_back(low, high);
    std::sort(cleared_.begin(), cleared_.end());
  }
  /// The parts of [low, high) that are not cleared yet.
  void clear_between(BufferId b, std::uint64_t low, std::uint64_t high) {
    const auto done = cleared_;
    for (const auto& [from, to] : done) {
      if (to <= low || high <= from) continue;
      if (low < from) fill(b, low, from);
      low = to;
    }
    if (low < high) fill(b, low, high);
  }
  /// The elements that op i of the block adds to are cleared before it.
  void take_over(const Module& m, std::uint32_t i) {
    for_each_view(from_.block, from_.block.ops[i], [&](const View& v) {
      if (v.buffer == m.whole_weights) {
        for (const auto& [low, high] : cleared_) {
          // Backward passes are written so that they read a weight before they add to its gradient.
          ORRERY_ASSERT(high <= v.offset || v.offset + v.count <= low, from_.block.name, i, v.offset, v.count);
        }
      }
      if (v.buffer != m.whole_gradients) return;
      if (cleared_.empty()) out_.block.ops.push_back({Alloc{v.buffer, 0}, {}, {}, {}});
      clear_between(v.buffer, v.offset, v.offset + v.count);
    });
  }
  /// Clears the padding, which messages take along.
  void clear_rest(const Module& m) { clear_between(m.whole_gradients, 0, s_.program[m.whole_gradients].count); }

  /// Grids of ranks send blocks of weights around beside compute, on lanes of their own.
  [[nodiscard]] Lane own_lane(const Op& op) const {
    const auto* collective = std::get_if<Collective>(&op.action);
    return collective != nullptr ? collective_lane(s_.program, collective->group) : Lane{};
  }
  /// Whether the op reads weights, or gradients that took over the memory of weights.
  [[nodiscard]] bool reads_weights(const Op& op) const {
    bool reads = false;
    for_each_view(from_.block, op, [&](const View& v) {
      const Buffer& b = s_.program[v.buffer];
      reads = reads || (b.role == Role::weight && is_copy(s_, v.buffer)) || b.reuses;
    });
    return reads;
  }

  [[nodiscard]] std::uint32_t last_use(const Copy& c) const {
    for (auto i = static_cast<std::uint32_t>(from_.block.ops.size()); i-- > 0;) {
      bool found = false;
      for_each_view(from_.block, from_.block.ops[i], [&](const View& v) {
        found = found || (v.buffer == c.module->whole_weights && v.layer_shift == c.shift);
      });
      if (found) return i;
    }
    return ~std::uint32_t{0};
  }

  State& s_;
  const Draft& from_;
  Draft out_;
  bool entered_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> cleared_;  ///< of gradients that take over memory
};

}  // namespace

Draft with_copies(State& s, const Draft& from, const CopyChange& change) { return Editor(s, from).with(change); }

void add_copies(State& s, BlockId block, const CopyChange& change) { s[block] = with_copies(s, s[block], change); }

BlockId variant_with_copies(State& s, BlockId of, const char* suffix, const CopyChange& change) {
  Draft draft = with_copies(s, s[of], change);
  draft.block.name += suffix;
  s.drafts.push_back(std::move(draft));
  return BlockId{static_cast<std::uint32_t>(s.drafts.size() - 1)};
}

}  // namespace orrery::lowering
