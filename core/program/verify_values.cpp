#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/program/verify_holders.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// (One file over 600 lines: its rules share one walk and one record of every written region.)
//
// What the elements mean, in one walk over a step: which are sums still to be
// made, which are left from the step before, which op ran twice.  Hazards are
// excluded by now, so values follow list order.
//
// A value is *partial* over a mesh axis when the true one is the sum over the
// ranks of that axis: a product whose inner dimension the axis cuts, an
// embedding of one part of the vocabulary, a gradient from one part of the
// tokens.  Only a reduction may take it.
//
// Every value also has a *content*: a hash of how it was made, the same where
// it is recomputed, gathered again or fetched from host memory.  A weight's
// gradient must be made from the very input that met the weight going forward,
// and no norm may take a gradient that another norm has taken: a buffer that
// was not filled anew gives itself away.

using AxisBits = std::uint16_t;

AxisBits bit(Axis a) { return static_cast<AxisBits>(1U << index(a)); }

AxisBits bits(const Mesh& mesh, const AxisList& axes) {
  AxisBits out = 0;
  for (const Axis a : axes) {
    if (mesh.size(a) > 1) out = static_cast<AxisBits>(out | bit(a));
  }
  return out;
}

std::string names(AxisBits set) {
  std::string out;
  for (std::size_t a = 0; a < axis_count; ++a) {
    if ((set & bit(static_cast<Axis>(a))) == 0) continue;
    if (!out.empty()) out += " and ";
    out += name_of(static_cast<Axis>(a));
  }
  return out;
}

constexpr std::uint32_t no_block = ~std::uint32_t{0};

/// Where a matrix lies in blocks on a group and its product is made step by
/// step: which member's block this is, and which of them it is made of so far.
/// A sum over blocks has the sum of their marks; each must come once.
struct Blocks {
  std::uint32_t block = no_block;  ///< a panel, or a product with one
  std::uint32_t members = 0;       ///< of the group that has the blocks
  std::uint64_t marks = 0;
  bool complete = true;

  static std::uint64_t mark(std::uint32_t block) {
    const std::uint64_t x = (block + 1ULL) * 0x9e3779b97f4a7c15ULL;
    return (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
  }
  void add(std::uint32_t block_of_sum, std::uint32_t count) {
    marks += mark(block_of_sum);
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; i < count; ++i) all += mark(i);
    complete = marks == all;
    if (complete) marks = 0;  // the next microbatch begins anew
  }
};

/// How far a cut attention has come.  Keys and their gradients know how many
/// places along a ring they stand from their own rank; a context, a log-sum-exp
/// and a gradient know how many keys (or queries) of the whole sequence they
/// have met, so that a lost pass, part or merge shows.
struct Attended {
  std::uint64_t hops = 0;
  std::uint64_t met = 0, whole = 0;  ///< whole 0: not a result of attention
};

/// The last write of some elements.
struct Region {
  std::uint64_t low = 0, high = 0;
  std::uint64_t stamp = 0;  ///< number of the op that wrote it
  bool used = false;        ///< somebody has read it since
  AxisBits partial = 0;
  std::uint64_t content = 0;
  Blocks blocks;
  Attended attended;
};

struct Hash {
  std::uint64_t value = 0x9e3779b97f4a7c15ULL;
  void add(std::uint64_t x) {
    value = (value ^ x) * 0xff51afd7ed558ccdULL;
    value ^= value >> 32;
  }
};

class Values {
 public:
  Values(Findings& f, const Holders& holders, std::uint32_t rank_class)
      : f_(f), p_(f.program()), holders_(holders), class_(rank_class), rank_(representative(p_, rank_class)) {
    for (const Block& b : p_.blocks) {
      for (const Op& op : b.ops) {
        const auto* c = std::get_if<Compute>(&op.action);
        if (c == nullptr) continue;
        // Scalars that carry over steps: the step count, the loss scale.
        const Kernel& k = b.kernels[c->kernel];
        if (k.kind == KernelKind::advance_step) lasting_.insert(index(b.views[op.views.first].buffer));
        if (k.kind == KernelKind::clip_factor && k.options.scaled) {
          lasting_.insert(index(b.views[op.views.first + 1].buffer));
        }
      }
    }
  }

  void walk(bool setup) {
    setup_ = setup;
    for_each_op(p_, setup ? p_.classes[class_].setup : p_.classes[class_].step, [&](const OpRun& run) {
      if (f_.full()) return;
      if (const auto* a = std::get_if<Alloc>(&run.op->action)) {
        regions_[instance_of(p_, a->what, a->layer_shift, run.layer, run.microbatch)].clear();
        return;
      }
      if (const auto* gone = std::get_if<Free>(&run.op->action)) return given_up(run, *gone);
      ++stamp_;
      once(run);
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) inspect(run, view(run, i));
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) use(run, view(run, i));
      std::visit([&](const auto& a) { perform(run, a); }, run.op->action);
      ran_[key_] = stamps(run);
    });
  }

 private:
  struct InstanceHash {
    std::size_t operator()(const Instance& i) const {
      Hash h;
      h.add(index(i.buffer));
      h.add((std::uint64_t{i.layer} << 32) | i.microbatch);
      return h.value;
    }
  };

  [[nodiscard]] const View& view(const OpRun& run, std::uint32_t i) const {
    return run.block->views[run.op->views.first + i];
  }
  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }
  std::vector<Region>& regions(const OpRun& run, const View& v) { return regions_[instance(run, v)]; }
  [[nodiscard]] std::uint64_t low(const View& v) const { return offset_on(p_.mesh, v, rank_); }

  void wrong(const char* code, const std::string& what, const OpRun& run) {
    f_.add_run(code, what, rank_, setup_, run);
  }

  /// A part of a sum goes into the sum before its memory does.
  void given_up(const OpRun& run, const Free& gone) {
    for (const Region& r : regions_[instance_of(p_, gone.what, gone.layer_shift, run.layer, run.microbatch)]) {
      if (r.used || r.partial == 0) continue;
      wrong("program.partial",
            fmt::format("{} is freed while it is a part of a sum over {} that nobody has made", p_[gone.what].name,
                        names(r.partial)),
            run);
      return;
    }
  }

  /// A whole copy of weights of which this rank keeps a part in another buffer.
  [[nodiscard]] bool is_weight(const View& v) const {
    const Buffer& b = p_[v.buffer];
    return b.role == Role::weight && b.parameters && b.flat_split.empty() && v.member_of.empty();
  }

  // --- an op that runs twice -----------------------------------------------

  /// What the op does and to which elements.
  [[nodiscard]] std::uint64_t key(const OpRun& run) const {
    Hash h;
    h.add(run.op->action.index());
    if (const auto* c = std::get_if<Compute>(&run.op->action)) {
      const Kernel& k = run.block->kernels[c->kernel];
      h.add(index(k.kind));
      h.add(k.site);
    } else if (const auto* x = std::get_if<Collective>(&run.op->action)) {
      h.add(index(x->kind) * 2U + index(x->reduction));
      h.add(index(x->group));
      h.add(index(x->root));
    } else if (const auto* e = std::get_if<Exchange>(&run.op->action)) {
      for (std::uint32_t i = 0; i < e->transfers.count; ++i) {
        const Transfer& t = run.block->transfers[e->transfers.first + i];
        h.add((std::uint64_t{index(t.peer)} << 32) | (index(t.group) << 8) | t.channel);
      }
    }
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      h.add(InstanceHash()(instance(run, v)));
      h.add(low(v));
      h.add(v.count);
      h.add(index(v.use));
    }
    return h.value;
  }

  /// When its operands were last written.
  [[nodiscard]] std::uint64_t stamps(const OpRun& run) {
    Hash h;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      std::uint64_t last = 0;
      for (const Region& r : regions(run, v)) {
        if (r.low < low(v) + v.count && low(v) < r.high) last = std::max(last, r.stamp);
      }
      h.add(last);
    }
    return h.value;
  }

  /// Whether doing it again gives something else: sums, updates, messages.
  [[nodiscard]] static bool adds(const OpRun& run, const View& v) {
    return v.use == View::Use::accumulate || std::holds_alternative<Exchange>(run.op->action);
  }

  void once(const OpRun& run) {
    key_ = key(run);
    if (run.op->views.count == 0) return;
    const auto before = ran_.find(key_);
    if (before == ran_.end() || before->second != stamps(run)) return;
    // Copying the same again is a waste, and allowed where the first copy was of use.
    const auto* c = std::get_if<Collective>(&run.op->action);
    bool again = c != nullptr && c->kind == Collective::Kind::reduce_scatter;
    bool unused = true;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      again = again || adds(run, v);
      if (v.use == View::Use::read) continue;
      for (const Region& r : regions(run, v)) {
        if (r.low < low(v) + v.count && low(v) < r.high) unused = unused && !r.used;
      }
    }
    if (again || unused) {
      wrong("program.repeated", "the op runs twice on the same elements, and nothing changed them in between", run);
    }
  }

  void use(const OpRun& run, const View& v) {
    if (v.use == View::Use::write) return;
    for (Region& r : regions(run, v)) {
      if (r.low < low(v) + v.count && low(v) < r.high) r.used = true;
    }
  }

  // --- what is read ----------------------------------------------------------

  [[nodiscard]] bool renewed_each_step(const Buffer& b, BufferId id) const {
    return b.role == Role::gradient || (b.role == Role::scalar && !lasting_.contains(index(id)));
  }

  void inspect(const OpRun& run, const View& v) {
    if (v.use == View::Use::write) return;
    const Buffer& b = p_[v.buffer];
    if (!setup_ && renewed_each_step(b, v.buffer) && !covered(run, v)) {
      wrong("program.stale", fmt::format("{} still holds the step before", b.name), run);
      return;
    }
    if (const auto copy = copies_.find(instance(run, v)); copy != copies_.end() && is_weight(v)) {
      // A gathered copy of weights is that of the values at the time.
      OpRun then = run;
      then.layer = copy->second.layer;
      for (const Region& r : regions(then, copy->second.from)) {
        if (r.stamp <= copy->second.stamp) continue;
        wrong("program.stale", fmt::format("{} was gathered before its parts were updated", b.name), run);
        break;
      }
    }
    // Reductions take partial sums, copies and gathers carry them along.
    const auto* c = std::get_if<Compute>(&run.op->action);
    blocks_are_there(run, v);
    if (c == nullptr && !std::holds_alternative<Exchange>(run.op->action)) return;
    if (c != nullptr) {
      const KernelKind kind = run.block->kernels[c->kernel].kind;
      const bool added = (kind == KernelKind::attention_merge && v.use == View::Use::read) ||
                         (kind == KernelKind::add_to && v.use == View::Use::read);
      for (const Region& r : regions(run, v)) {
        if (!added || !r.used || r.high <= low(v) || low(v) + v.count <= r.low) continue;
        wrong("program.repeated", fmt::format("{} was added already", b.name), run);
        return;
      }
    }
    // A sum of rows, each times a number, is partial as they are.
    if (c != nullptr && takes_partial(run.block->kernels[c->kernel], index_of(run, v))) return;
    // Adding one more part keeps a sum partial.
    const bool adds = c != nullptr && v.use == View::Use::accumulate && gathers_parts(run.block->kernels[c->kernel]);
    AxisBits partial = 0;
    for (const Region& r : regions(run, v)) {
      if (r.low < low(v) + v.count && low(v) < r.high) partial = static_cast<AxisBits>(partial | r.partial);
    }
    if (partial != 0 && !adds) {
      wrong("program.partial",
            fmt::format("{} is used while it is a sum over {} that nobody has made", b.name, names(partial)), run);
    }
  }

  /// Whoever does not go on adding to a sum over blocks needs all of them.
  void blocks_are_there(const OpRun& run, const View& v) {
    if (v.use == View::Use::accumulate) {
      if (const auto* x = std::get_if<Collective>(&run.op->action);
          x != nullptr && is_paired(*run.block, *run.op, *x)) {
        return;
      }
      if (const auto* c = std::get_if<Compute>(&run.op->action);
          c != nullptr && run.block->kernels[c->kernel].kind == KernelKind::gemm) {
        return;
      }
    }
    for (const Region& r : regions(run, v)) {
      if (r.low >= low(v) + v.count || low(v) >= r.high || r.blocks.complete) continue;
      wrong("program.partial",
            fmt::format("{} is used before every block of the sum is there, once", p_[v.buffer].name), run);
      return;
    }
  }

  /// Of the latest region that the view touches.
  Blocks blocks_of(const OpRun& run, const View& v) {
    const Region* last = nullptr;
    for (const Region& r : regions(run, v)) {
      if (r.low < low(v) + v.count && low(v) < r.high && (last == nullptr || last->stamp < r.stamp)) last = &r;
    }
    return last == nullptr ? Blocks{} : last->blocks;
  }

  /// What a product over blocks is: one with two panels sums over their common
  /// dimension, so they must be the same block's; one with a single panel is a
  /// term that a reduce takes to that block's place.
  Blocks product_of_blocks(const OpRun& run, const Kernel& k) {
    if (k.kind != KernelKind::gemm) return {};
    const Blocks a = blocks_of(run, view(run, 0)), b = blocks_of(run, view(run, 1));
    if (a.block == no_block && b.block == no_block) return {};
    if (a.block == no_block) return {b.block, b.members, 0, true};
    if (b.block == no_block) return {a.block, a.members, 0, true};
    if (a.block != b.block) {
      wrong("program.partial",
            fmt::format("block {} of one factor is multiplied with block {} of the other", a.block, b.block), run);
    }
    Blocks sum;
    if (view(run, 2).use == View::Use::accumulate) sum = blocks_of(run, view(run, 2));
    sum.block = no_block;
    sum.add(a.block, a.members);
    return sum;
  }

  [[nodiscard]] static std::uint32_t index_of(const OpRun& run, const View& v) {
    return static_cast<std::uint32_t>(&v - &run.block->views[run.op->views.first]);
  }

  /// Operands in which the kernel is linear, and its other operands are no part of the sum: rows of experts.
  [[nodiscard]] static bool takes_partial(const Kernel& k, std::uint32_t i) {
    switch (k.kind) {
      case KernelKind::dispatch_backward: return i == 0 || (k.options.residual && i == 2);
      case KernelKind::combine_forward: return i == 0 || (k.options.residual && i == 3);
      case KernelKind::combine_backward: return i == 1;
      default: return false;
    }
  }

  /// Kinds that add to what microbatches or parameters before have added.
  [[nodiscard]] static bool gathers_parts(const Kernel& k) {
    return k.pass == Pass::weight_gradient || k.kind == KernelKind::sum_squares || k.kind == KernelKind::lamb_moments ||
           k.kind == KernelKind::lars_norms || k.kind == KernelKind::cross_entropy_loss;
  }

  /// Whether this step has written all elements of the view.
  bool covered(const OpRun& run, const View& v) {
    std::vector<Region> sorted = regions(run, v);
    std::sort(sorted.begin(), sorted.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
    std::uint64_t at = low(v);
    for (const Region& r : sorted) {
      if (r.low <= at) at = std::max(at, r.high);
    }
    return at >= low(v) + v.count;
  }

  /// How the elements of a view were made.  What the step has not written is itself.
  std::uint64_t content(const OpRun& run, const View& v) {
    auto& list = regions(run, v);
    const std::uint64_t from = low(v), to = from + v.count;
    if (list.size() == 1 && list[0].low <= from && to <= list[0].high) return list[0].content;
    Hash h;
    h.add(InstanceHash()(instance(run, v)));
    std::sort(list.begin(), list.end(), [](const Region& a, const Region& b) { return a.low < b.low; });
    for (const Region& r : list) {
      if (r.high <= from || to <= r.low) continue;
      if (r.low <= from && to <= r.high) return r.content;
      h.add(r.low);
      h.add(r.content);
    }
    return h.value;
  }

  /// Uses of contents that tell when a buffer was not filled anew.
  void same_input(const OpRun& run, const Kernel& k) {
    const auto norm_input =
        k.kind == KernelKind::layer_norm_backward_input || k.kind == KernelKind::rms_norm_backward_input;
    if (norm_input && !norm_gradients_.insert(content(run, view(run, 0))).second) {
      wrong("program.stale",
            fmt::format("another norm has taken this gradient, {}, already", p_[view(run, 0).buffer].name), run);
    }
    if (k.kind != KernelKind::gemm && k.kind != KernelKind::expert_gemm) return;
    const std::uint32_t sum = k.kind == KernelKind::gemm ? 2 : 3;
    const View& weight = view(run, k.pass == Pass::weight_gradient ? sum : 1);
    const Buffer& b = p_[weight.buffer];
    if (slice_of(weight) == nullptr) return;
    Hash key;
    key.add((std::uint64_t{run.layer} << 32) | run.microbatch);
    key.add(*b.parameters);
    key.add(weight.offset);
    // The head's product is transposed: there the input is the second operand of the gradient's.
    if (k.pass == Pass::forward && b.role == Role::weight) {
      inputs_[key.value] = content(run, view(run, 0));
    } else if (k.pass == Pass::weight_gradient && b.role == Role::gradient) {
      const auto forward = inputs_.find(key.value);
      if (forward == inputs_.end()) return;
      const std::uint64_t first = content(run, view(run, 0)), second = content(run, view(run, 1));
      const std::string& name = slice_of(weight)->name;
      if (first != forward->second && second != forward->second) {
        wrong("program.stale",
              fmt::format("the gradient of {} is made from another input than the forward product's", name), run);
      } else if (!output_gradients_.insert(first == forward->second ? second : first).second) {
        // Layers are sequences of products: no two of them have one output.
        wrong("program.stale",
              fmt::format("the gradient of {} is made from an output gradient that belongs to another product", name),
              run);
      }
    }
  }

  // --- what is written -------------------------------------------------------

  void put(const OpRun& run, const View& v, AxisBits partial, std::uint64_t content, const Blocks& blocks = {},
           const Attended& attended = {}) {
    auto& list = regions(run, v);
    const std::uint64_t from = low(v), to = from + v.count;
    std::vector<Region> next;
    next.reserve(list.size() + 2);
    for (const Region& r : list) {
      if (r.high <= from || to <= r.low) {
        next.push_back(r);
        continue;
      }
      if (r.low < from) {
        next.push_back(r);
        next.back().high = from;
      }
      if (to < r.high) {
        next.push_back(r);
        next.back().low = to;
      }
    }
    next.push_back({from, to, stamp_, false, partial, content, blocks, attended});
    list = std::move(next);
  }

  AxisBits partial_of(const OpRun& run, const View& v) {
    AxisBits partial = 0;
    for (const Region& r : regions(run, v)) {
      if (r.low < low(v) + v.count && low(v) < r.high) partial = static_cast<AxisBits>(partial | r.partial);
    }
    return partial;
  }

  // --- attention cut over positions ------------------------------------------

  Attended attended_of(const OpRun& run, const View& v) {
    for (const Region& r : regions(run, v)) {
      if (r.low < low(v) + v.count && low(v) < r.high) return r.attended;
    }
    return {};
  }

  /// What view `i` of the kernel has met when it has run.  Sequences of n
  /// positions on each of s / n ranks: `hops` count modulo that.
  Attended attend(const OpRun& run, const Kernel& k, std::uint32_t i) {
    const auto of = [&](std::uint32_t j) { return attended_of(run, view(run, j)); };
    const auto whole = [&](std::uint32_t kv) {
      const auto& shard = p_[view(run, kv).buffer].shard;
      return shard ? shard->dims[0].extent : k.depth / k.batch;
    };
    switch (k.kind) {
      case KernelKind::attention_part_forward: return {0, k.depth / k.batch, whole(1)};
      case KernelKind::attention_merge: {
        const Attended sum = of(i);
        return {0, sum.met + of(i + 2).met, sum.whole};
      }
      case KernelKind::attention_part_backward:
        if (i == 6) return {k.site, k.rows / k.batch, whole(2)};
        return {0, (view(run, 5).use == View::Use::accumulate ? of(5).met : 0) + k.depth / k.batch, whole(2)};
      case KernelKind::add_to: {
        const Attended sum = of(1);
        return {sum.hops, sum.met + of(0).met, sum.whole};
      }
      case KernelKind::convert: return of(0);
      default: return {};
    }
  }

  void check_attended(const OpRun& run, const Kernel& k) {
    const auto incomplete = [&](std::uint32_t i, const Attended& a) {
      wrong("program.partial",
            fmt::format("{} is used after it has met {} of {} positions", p_[view(run, i).buffer].name, a.met, a.whole),
            run);
    };
    const auto travelled = [&](std::uint32_t i, std::uint64_t hops, std::uint64_t expected, std::uint64_t ranks) {
      if (hops % ranks == expected % ranks) return;
      wrong("program.stale",
            fmt::format("{} has gone {} places along the ring, not {}", p_[view(run, i).buffer].name, hops % ranks,
                        expected % ranks),
            run);
    };
    const bool part = k.kind == KernelKind::attention_part_forward || k.kind == KernelKind::attention_part_backward;
    if (part) {
      const std::uint32_t kv = k.kind == KernelKind::attention_part_forward ? 1 : 2;
      const auto& shard = p_[view(run, kv).buffer].shard;
      const std::uint64_t keys = k.depth / k.batch;
      travelled(kv, attended_of(run, view(run, kv)).hops, k.site, shard ? shard->dims[0].extent / keys : 1);
    }
    if (k.kind == KernelKind::add_to) {
      const Attended x = attended_of(run, view(run, 0)), sum = attended_of(run, view(run, 1));
      if (x.whole > 0) travelled(1, sum.hops, x.hops, x.whole / x.met);
      return;
    }
    if (k.kind == KernelKind::attention_merge || k.kind == KernelKind::convert) return;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      if (view(run, i).use != View::Use::read) continue;
      const Attended a = attended_of(run, view(run, i));
      if (a.whole == 0) continue;
      if (a.met != a.whole) incomplete(i, a);
      if (k.kind == KernelKind::unpack_gradients) travelled(i, a.hops, 0, a.whole / (k.rows / k.batch));
    }
  }

  /// The parameter that a view of a flat buffer is, if it is one.
  [[nodiscard]] const ParameterSlice* slice_of(const View& v) const {
    const Buffer& b = p_[v.buffer];
    if (!b.parameters || !b.flat_split.empty()) return nullptr;
    for (const ParameterSlice& s : p_.parameter_tables[*b.parameters].slices) {
      if (s.offset == v.offset && v.count == local_count(s.shard, p_.mesh)) return &s;
    }
    return nullptr;
  }

  /// Axes that cut dimensions [from, to) of a shard.
  [[nodiscard]] AxisBits cuts(const Shard& s, std::size_t from, std::size_t to) const {
    AxisBits out = 0;
    for (std::size_t i = from; i < std::min<std::size_t>(to, s.rank); ++i) {
      out = static_cast<AxisBits>(out | bits(p_.mesh, s.dims[i].split));
    }
    return out;
  }
  /// The same without the class axes: ranks along those run other lists, so a
  /// cut says nothing about sums (experts, SUMMA).
  [[nodiscard]] AxisBits sums(const Shard& s, std::size_t from, std::size_t to) const {
    return static_cast<AxisBits>(cuts(s, from, to) & ~bits(p_.mesh, p_.class_axes));
  }

  /// Axes along which ranks hold other parts of the parameters that a view of a gradient is for.
  [[nodiscard]] AxisBits parts_of_segment(const View& g) const {
    auto out = static_cast<AxisBits>(bits(p_.mesh, g.member_of) | bits(p_.mesh, p_[g.buffer].flat_split));
    if (!p_[g.buffer].parameters) return out;
    const std::uint64_t parts = size(p_.mesh, p_[g.buffer].flat_split);
    for (const ParameterSlice& s : p_.parameter_tables[*p_[g.buffer].parameters].slices) {
      if (g.offset * parts <= s.offset && s.offset < (g.offset + g.count) * parts) {
        out = static_cast<AxisBits>(out | cuts(s.shard, 0, Shard::max_dims));
      }
    }
    return out;
  }

  /// Axes over which what the kernel writes to view `i` is a partial sum.
  [[nodiscard]] AxisBits new_partial(const OpRun& run, const Kernel& k, std::uint32_t i) {
    const View& target = view(run, i);
    switch (k.kind) {
      case KernelKind::gemm:
        if (const ParameterSlice* s = slice_of(view(run, 1));
            s != nullptr && p_[view(run, 1).buffer].role == Role::weight) {
          return k.options.transpose_b ? sums(s->shard, 1, Shard::max_dims) : sums(s->shard, 0, 1);
        }
        break;
      case KernelKind::expert_gemm:  // the first dimension counts experts
        if (const ParameterSlice* s = slice_of(view(run, 1));
            s != nullptr && p_[view(run, 1).buffer].role == Role::weight) {
          return k.options.transpose_b ? sums(s->shard, 2, Shard::max_dims) : sums(s->shard, 1, 2);
        }
        break;
      case KernelKind::dispatch_backward:
      case KernelKind::combine_forward:
      case KernelKind::combine_backward: {
        // Of the results of the last, only the gates' gradients are made from what may be partial.
        AxisBits out = 0;
        for (std::uint32_t j = 0; j < run.op->views.count; ++j) {
          if (takes_partial(k, j) && (k.kind != KernelKind::combine_backward || i == 5)) {
            out = static_cast<AxisBits>(out | partial_of(run, view(run, j)));
          }
        }
        return out;
      }
      case KernelKind::embed_forward:
        if (const ParameterSlice* s = slice_of(view(run, 1))) return sums(s->shard, 0, 1);
        break;
      case KernelKind::cross_entropy_max:
      case KernelKind::cross_entropy_sum:
        if (const auto& s = p_[view(run, 0).buffer].shard) return sums(*s, s->rank - 1U, s->rank);
        break;
      case KernelKind::norm_sums:
      case KernelKind::norm_squares:
        if (const auto& s = p_[view(run, 0).buffer].shard) return sums(*s, s->rank - 1U, s->rank);
        break;
      case KernelKind::norm_gradient_sums:
        if (const auto& s = p_[view(run, 1).buffer].shard) return sums(*s, s->rank - 1U, s->rank);
        break;
      case KernelKind::latent_heads_backward:
        // All heads share one key: its gradient is a sum over ranks that have others.
        if (const auto& s = p_[view(run, 0).buffer].shard; s && i == 3) return sums(*s, 2, 3);
        break;
      case KernelKind::count_targets: return bits(p_.mesh, batch_axes);
      case KernelKind::cross_entropy_loss:  // over whatever cuts the targets
        if (const auto& s = p_[view(run, 3).buffer].shard) return cuts(*s, 0, Shard::max_dims);
        break;
      case KernelKind::attention_part_backward:
        // Keys of the whole sequence get a part of their gradient from each rank's queries.
        if (const auto& own = p_[view(run, 1).buffer].shard, &brought = p_[view(run, 2).buffer].shard;
            i == 6 && own && brought) {
          return static_cast<AxisBits>(cuts(*own, 0, 1) & ~cuts(*brought, 0, 1));
        }
        break;
      case KernelKind::sum_squares:
        // Other ranks hold other parameters, other parts of them, or their share of the weight.
        return static_cast<AxisBits>(bits(p_.mesh, p_.class_axes) | parts_of_segment(view(run, 0)));
      case KernelKind::lamb_moments:
      case KernelKind::lars_norms:
        if (i + 1 == run.op->views.count) {
          // Ranks that hold the same add a share each.
          const AxisBits alike =
              k.parameter < 1.0 ? bits(p_.mesh, {Axis::tensor, Axis::depth, Axis::row, Axis::column}) : AxisBits{0};
          return static_cast<AxisBits>(parts_of_segment(view(run, 0)) | alike);
        }
        break;
      default: break;
    }
    // A weight's gradient made in a workspace: on which tokens, its operands' shards say.
    if ((k.kind == KernelKind::gemm || k.kind == KernelKind::embed_backward) && k.pass == Pass::weight_gradient &&
        p_[target.buffer].role != Role::gradient) {
      AxisBits tokens = 0;
      for (std::uint32_t j = 0; j < 2; ++j) {
        if (const auto& shard = p_[view(run, j).buffer].shard) {
          tokens = static_cast<AxisBits>(tokens | cuts(*shard, 0, Shard::max_dims));
        }
      }
      return tokens;
    }
    // A parameter's gradient from operands that an axis cuts while it does not cut the parameter.
    if (p_[target.buffer].role == Role::gradient && k.kind != KernelKind::fill) {
      const ParameterSlice* s = slice_of(target);
      const AxisBits own = s != nullptr ? cuts(s->shard, 0, Shard::max_dims) : AxisBits{0};
      AxisBits tokens = 0;
      for (std::uint32_t j = 0; j < run.op->views.count; ++j) {
        const auto& shard = p_[view(run, j).buffer].shard;
        if (view(run, j).use == View::Use::read && shard) {
          tokens = static_cast<AxisBits>(tokens | cuts(*shard, 0, Shard::max_dims));
        }
      }
      if (s != nullptr) return static_cast<AxisBits>(tokens & ~own);
    }
    return 0;
  }

  /// The class axes, where other classes make their part of the same sum.
  [[nodiscard]] AxisBits other_holders(const OpRun& run, const Kernel& k, const View& v) const {
    const bool gradient = p_[v.buffer].role == Role::gradient && k.kind != KernelKind::fill;
    const bool several = (gradient && holders_.of(instance(run, v)).size() > 1) ||
                         (k.kind == KernelKind::cross_entropy_loss && holders_.of_loss().size() > 1);
    return several ? bits(p_.mesh, p_.class_axes) : AxisBits{0};
  }
  /// A sum over some classes is whole only if all that hold the module take part.
  void all_holders(const OpRun& run, const Collective& c, const View& v) {
    if (v.use == View::Use::read || (bits(p_.mesh, p_[c.group].axes) & bits(p_.mesh, p_.class_axes)) == 0) return;
    const auto& classes = holders_.of(instance(run, v));
    if (classes.size() < 2 || holders_.joins(p_[c.group], classes)) return;
    wrong("program.partial",
          fmt::format("{} is summed over other classes than those that have a part of it", p_[v.buffer].name), run);
  }

  void perform(const OpRun& run, const Compute& c) {
    const Kernel& k = run.block->kernels[c.kernel];
    same_input(run, k);
    check_attended(run, k);
    Hash made;
    made.add(index(k.kind));
    made.add(k.site);
    std::vector<AxisBits> partial(run.op->views.count, 0);
    std::vector<Attended> attended(run.op->views.count);
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      if (v.use != View::Use::write) made.add(content(run, v));
      if (v.use == View::Use::read) continue;
      partial[i] = static_cast<AxisBits>(new_partial(run, k, i) | other_holders(run, k, v));
      attended[i] = attend(run, k, i);
      if (v.use == View::Use::accumulate) partial[i] = static_cast<AxisBits>(partial[i] | partial_of(run, v));
    }
    // Data is told apart by what it is, not by what it is made from.
    if (k.kind == KernelKind::load_tokens || k.kind == KernelKind::load_targets ||
        k.kind == KernelKind::load_segments || k.kind == KernelKind::load_patches) {
      made.add(run.microbatch);
    }
    if (k.kind == KernelKind::route_tokens) made.add((std::uint64_t{run.layer} << 32) | run.microbatch);
    const Blocks blocks = product_of_blocks(run, k);
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      made.add(i);
      if (view(run, i).use != View::Use::read) put(run, view(run, i), partial[i], made.value, blocks, attended[i]);
    }
  }

  void perform(const OpRun& run, const Collective& c) {
    const AxisBits group = bits(p_.mesh, p_[c.group].axes);
    const auto made = [&](const View& v) {
      Hash h;
      h.add(0x100U + index(c.kind));
      h.add(index(c.group));
      // What a permute brings was made on its rank as the own is made here: the same again when made again.
      if (c.kind == Collective::Kind::permute) h.add((std::uint64_t{index(c.root)} << 32) | c.width);
      h.add(content(run, v));
      return h.value;
    };
    switch (c.kind) {
      case Collective::Kind::all_reduce:
      case Collective::Kind::reduce:
        if (is_paired(*run.block, *run.op, c)) {
          for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
            put(run, view(run, i + 1), reduced(run, view(run, i), view(run, i + 1), group), made(view(run, i)),
                blocks_by_root(run, c, view(run, i), view(run, i + 1)));
          }
          break;
        }
        for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
          const View& v = view(run, i);
          if (p_[v.buffer].role == Role::gradient) all_holders(run, c, v);
          if (v.use != View::Use::read) put(run, v, static_cast<AxisBits>(partial_of(run, v) & ~group), made(v));
        }
        break;
      case Collective::Kind::permute:
        for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
          Attended moved = attended_of(run, view(run, i));
          moved.hops += index(c.root);
          put(run, view(run, i + 1), partial_of(run, view(run, i)), made(view(run, i)), {}, moved);
        }
        break;
      case Collective::Kind::broadcast:
        if (is_paired(*run.block, *run.op, c)) {
          const Blocks panel{index(c.root), group_size(p_[c.group], p_.mesh), 0, true};
          for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
            Hash h;
            h.add(made(view(run, i)));
            h.add(index(c.root));
            put(run, view(run, i + 1), partial_of(run, view(run, i)), h.value, panel);
          }
          break;
        }
        for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
          if (view(run, i).use != View::Use::read) put(run, view(run, i), 0, arrived());
        }
        break;
      case Collective::Kind::all_gather:
      case Collective::Kind::reduce_scatter:
      case Collective::Kind::all_to_all:
        for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
          const bool reduces = c.kind == Collective::Kind::reduce_scatter;
          Attended attended = attended_of(run, view(run, i));
          if (reduces) attended.met *= group_size(p_[c.group], p_.mesh);
          const View& to = view(run, i + 1);
          const AxisBits left = reduces ? reduced(run, view(run, i), to, group) : partial_of(run, view(run, i));
          if (c.kind == Collective::Kind::all_gather && is_weight(to))
            copies_[instance(run, to)] = {view(run, i), stamp_, run.layer};
          if (to.use == View::Use::accumulate) {
            Hash sum;
            sum.add(content(run, to));
            sum.add(made(view(run, i)));
            put(run, to, left, sum.value);
          } else {
            put(run, to, left, made(view(run, i)), {}, attended);
          }
        }
        break;
      case Collective::Kind::barrier: break;
    }
  }

  /// What is left to be summed of the sum of `from` over the group, in `to`.
  AxisBits reduced(const OpRun& run, const View& from, const View& to, AxisBits group) {
    auto left = static_cast<AxisBits>(partial_of(run, from) & ~group);
    // A weight's gradient made in a workspace: the axes that cut the weight gave each rank its own part.
    if (p_[to.buffer].role == Role::gradient && p_[from.buffer].role != Role::gradient) {
      if (const ParameterSlice* s = slice_of(to))
        left = static_cast<AxisBits>(left & ~cuts(s->shard, 0, Shard::max_dims));
    }
    if (to.use == View::Use::accumulate) left = static_cast<AxisBits>(left | partial_of(run, to));
    return left;
  }

  /// The sum goes to the root: the place of that member's block.
  Blocks blocks_by_root(const OpRun& run, const Collective& c, const View& from, const View& to) {
    const Blocks term = blocks_of(run, from);
    if (term.block != no_block && term.block != index(c.root)) {
      wrong("program.partial",
            fmt::format("the product with block {} is summed on member {}", term.block, index(c.root)), run);
    }
    Blocks sum = blocks_of(run, to);
    if (sum.complete) sum.marks = 0;
    sum.block = no_block;
    sum.add(index(c.root), group_size(p_[c.group], p_.mesh));
    return sum;
  }

  void perform(const OpRun& run, const Exchange&) {
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      if (view(run, i).use != View::Use::read) put(run, view(run, i), 0, arrived() + i);
    }
  }
  void perform(const OpRun& run, const Copy&) {
    for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
      put(run, view(run, i + 1), partial_of(run, view(run, i)), content(run, view(run, i)));
    }
  }
  void perform(const OpRun&, const Alloc&) {}
  void perform(const OpRun&, const Free&) {}

  /// Content that came from another rank: like no other.
  [[nodiscard]] std::uint64_t arrived() const {
    Hash h;
    h.add(stamp_);
    return h.value;
  }

  Findings& f_;
  const Program& p_;
  const Holders& holders_;
  std::uint32_t class_;
  Rank rank_;
  bool setup_ = false;
  std::set<std::uint32_t> lasting_;
  std::unordered_map<Instance, std::vector<Region>, InstanceHash> regions_;
  std::unordered_map<std::uint64_t, std::uint64_t> ran_;  ///< key of an op -> its operands' stamps when it had run
  std::unordered_map<std::uint64_t, std::uint64_t>
      inputs_;                                          ///< (layer, microbatch, parameter) -> forward input's content
  std::unordered_set<std::uint64_t> output_gradients_;  ///< contents that weight gradients have taken
  std::unordered_set<std::uint64_t> norm_gradients_;    ///< contents that norms have taken backward
  struct Copied {
    View from;  ///< the parts
    std::uint64_t stamp = 0;
    std::uint32_t layer = 0;  ///< of the run that gathered
  };
  std::unordered_map<Instance, Copied, InstanceHash> copies_;  ///< gathered weights
  std::uint64_t key_ = 0;
  std::uint64_t stamp_ = 0;
};

}  // namespace

void check_values(Findings& f) {
  const Holders holders(f.program());
  for (std::uint32_t c = 0; c < f.program().classes.size() && !f.full(); ++c) {
    f.reached(c, f.program().classes.size());
    Values(f, holders, c).walk(true);
    Values(f, holders, c).walk(false);
  }
}

}  // namespace orrery::verifying
