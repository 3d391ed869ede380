#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/program/verify_attention.hpp"
#include "core/program/verify_handovers.hpp"
#include "core/program/verify_holders.hpp"
#include "core/program/verify_panels.hpp"
#include "core/program/verify_sums.hpp"

namespace orrery::verifying {

namespace {

// Checks what the elements mean, in one walk over a step: which are sums still to be made, which are left from the step
// before, which op ran twice. Hazards are excluded by now, so values follow list order.
//
// verify_regions keeps the record of every written region. What kernels make of it stands in files by concept: sums
// over ranks (verify_sums), products of blocks (verify_panels), attention cut over positions (verify_attention),
// gradients that modules hand to each other (verify_handovers).
//
// Every value also has a *content*: a hash of how it was made, the same where it is recomputed, gathered again or
// fetched from host memory. A weight's gradient must be made from the very input that met the weight in the forward
// pass, and no norm may take a gradient that another norm has taken. So a buffer that was not filled anew gives itself
// away.

class Values {
 public:
  Values(Findings& f, const Holders& holders, std::uint32_t rank_class)
      : f_(f), p_(f.program()), regions_(f, rank_class), holders_(holders), handovers_(regions_), class_(rank_class) {
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
    regions_.begin(setup);
    for_each_op(p_, setup ? p_.classes[class_].setup : p_.classes[class_].step, [&](const OpRun& run) {
      if (f_.full()) return;
      if (const auto* a = std::get_if<Alloc>(&run.op->action)) {
        regions_.of(instance_of(p_, a->what, a->layer_shift, run.layer, run.microbatch)).clear();
        return;
      }
      if (const auto* gone = std::get_if<Free>(&run.op->action)) return given_up(run, *gone);
      regions_.next_op();
      once(run);
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) inspect(run, view(run, i));
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) use(run, view(run, i));
      std::visit([&](const auto& a) { perform(run, a); }, run.op->action);
      ran_[key_] = stamps(run);
    });
  }

 private:
  /// A part of a sum must go into the sum before its memory is freed.
  void given_up(const OpRun& run, const Free& gone) {
    for (const Region& r : regions_.of(instance_of(p_, gone.what, gone.layer_shift, run.layer, run.microbatch))) {
      if (r.used || r.partial == 0) continue;
      regions_.wrong("program.partial",
                     fmt::format("{} is freed while it is a partial sum over {} that was never added up",
                                 p_[gone.what].name, names(r.partial)),
                     run);
      return;
    }
  }

  /// Whether the view is a whole copy of weights, of which this rank keeps a part in another buffer.
  [[nodiscard]] bool is_weight(const View& v) const {
    const Buffer& b = p_[v.buffer];
    return b.role == Role::weight && b.parameters && b.flat_split.empty() && v.member_of.empty();
  }

  // --- an op that runs twice -----------------------------------------------

  /// A key for what the op does and to which elements.
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
      h.add(InstanceHash()(regions_.instance(run, v)));
      h.add(regions_.low(v));
      h.add(v.count);
      h.add(index(v.use));
    }
    return h.value;
  }

  /// The times when the op's operands were last written.
  [[nodiscard]] std::uint64_t stamps(const OpRun& run) {
    Hash h;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      std::uint64_t last = 0;
      for (const Region& r : regions_.of(run, v)) {
        if (regions_.touches(r, v)) last = std::max(last, r.stamp);
      }
      h.add(last);
    }
    return h.value;
  }

  /// Whether repeating the op gives another result: sums, updates, messages.
  [[nodiscard]] static bool adds(const OpRun& run, const View& v) {
    return v.use == View::Use::accumulate || std::holds_alternative<Exchange>(run.op->action);
  }

  void once(const OpRun& run) {
    key_ = key(run);
    if (run.op->views.count == 0) return;
    const auto before = ran_.find(key_);
    if (before == ran_.end() || before->second != stamps(run)) return;
    // Copying the same elements again is a waste, but allowed where the first copy was of use.
    const auto* c = std::get_if<Collective>(&run.op->action);
    bool again = c != nullptr && c->kind == Collective::Kind::reduce_scatter;
    bool unused = true;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      again = again || adds(run, v);
      if (v.use == View::Use::read) continue;
      for (const Region& r : regions_.of(run, v)) {
        if (regions_.touches(r, v)) unused = unused && !r.used;
      }
    }
    if (again || unused) {
      regions_.wrong("program.repeated", "the op runs twice on the same elements, and nothing changed them in between",
                     run);
    }
  }

  void use(const OpRun& run, const View& v) {
    if (v.use == View::Use::write) return;
    for (Region& r : regions_.of(run, v)) {
      if (regions_.touches(r, v)) r.used = true;
    }
  }

  // --- what is read ----------------------------------------------------------

  [[nodiscard]] bool renewed_each_step(const Buffer& b, BufferId id) const {
    return b.role == Role::gradient || (b.role == Role::scalar && !lasting_.contains(index(id)));
  }

  void inspect(const OpRun& run, const View& v) {
    if (v.use == View::Use::write) return;
    const Buffer& b = p_[v.buffer];
    if (!regions_.setup() && renewed_each_step(b, v.buffer) && !regions_.covered(run, v)) {
      regions_.wrong("program.stale", fmt::format("{} still holds its value of the step before", b.name), run);
      return;
    }
    if (const auto copy = copies_.find(regions_.instance(run, v)); copy != copies_.end() && is_weight(v)) {
      // A gathered copy of weights holds the values of the time of the gather.
      OpRun then = run;
      then.layer = copy->second.layer;
      for (const Region& r : regions_.of(then, copy->second.from)) {
        if (r.stamp <= copy->second.stamp) continue;
        regions_.wrong("program.stale", fmt::format("{} was gathered before its parts were updated", b.name), run);
        break;
      }
    }
    // Reductions take partial sums; copies and gathers carry them along.
    const auto* c = std::get_if<Compute>(&run.op->action);
    blocks_are_there(regions_, run, v);
    if (c == nullptr && !std::holds_alternative<Exchange>(run.op->action)) return;
    if (c != nullptr) {
      const KernelKind kind = run.block->kernels[c->kernel].kind;
      const bool added = (kind == KernelKind::attention_merge && v.use == View::Use::read) ||
                         (kind == KernelKind::add_to && v.use == View::Use::read);
      for (const Region& r : regions_.of(run, v)) {
        if (!added || !r.used || r.high <= regions_.low(v) || regions_.low(v) + v.count <= r.low) continue;
        regions_.wrong("program.repeated", fmt::format("{} was added already", b.name), run);
        return;
      }
    }
    // A sum of rows, each times a number, is as partial as the rows are.
    const auto place = static_cast<std::uint32_t>(&v - &view(run, 0));
    if (c != nullptr && (takes_partial(run.block->kernels[c->kernel], place) ||
                         is_narrow_part(p_, run, run.block->kernels[c->kernel], place) ||
                         adds_alike(run, run.block->kernels[c->kernel])))
      return;
    // Adding one more part keeps a sum partial.
    const AxisBits partial = regions_.partial_of(run, v);
    const bool adds =
        c != nullptr && v.use == View::Use::accumulate && adds_part(run, run.block->kernels[c->kernel], v);
    if (partial != 0 && !adds) {
      regions_.wrong(
          "program.partial",
          fmt::format("{} is used while it is a partial sum over {} that is not added up yet", b.name, names(partial)),
          run);
    }
  }

  /// Whether the op adds one more part to the sum: a gradient's, or a product that is as partial as what it is added
  /// to.
  [[nodiscard]] bool adds_part(const OpRun& run, const Kernel& k, const View& v) {
    if (gathers_parts(k)) return true;
    return (k.kind == KernelKind::gemm || k.kind == KernelKind::adapter_forward) &&
           new_partial(regions_, run, k, 2) == regions_.partial_of(run, v);
  }

  /// Whether the op adds two sums that are partial over the same axes, so that its own is, too.
  [[nodiscard]] bool adds_alike(const OpRun& run, const Kernel& k) {
    return k.kind == KernelKind::residual_forward && !k.options.bias && !k.options.dropout &&
           regions_.partial_of(run, view(run, 0)) == regions_.partial_of(run, view(run, 1));
  }

  /// The content of a product's operand, by which parts of one buffer are told from each other.
  [[nodiscard]] std::uint64_t factor(const OpRun& run, const View& v) {
    const std::uint64_t content = regions_.content(run, v);
    if (v.offset == 0 || slice_of(p_, v) != nullptr) return content;
    Hash h;
    h.add(content);
    h.add(v.offset);
    return h.value;
  }

  /// Whether some buffer holds the gradient of the table.
  [[nodiscard]] bool is_trained(std::uint32_t table) const {
    return std::any_of(p_.buffers.begin(), p_.buffers.end(),
                       [&](const Buffer& b) { return b.role == Role::gradient && b.parameters == table; });
  }

  /// Tests uses of contents that show when a buffer was not filled anew.
  void same_input(const OpRun& run, const Kernel& k) {
    const auto norm_input =
        k.kind == KernelKind::layer_norm_backward_input || k.kind == KernelKind::rms_norm_backward_input;
    if (norm_input && !norm_gradients_.insert(regions_.content(run, view(run, 0))).second) {
      regions_.wrong("program.stale",
                     fmt::format("another norm has already taken the gradient {}", p_[view(run, 0).buffer].name), run);
    }
    if (k.kind != KernelKind::gemm && k.kind != KernelKind::expert_gemm) return;
    const std::uint32_t sum = k.kind == KernelKind::gemm ? 2 : 3;
    const View& weight = view(run, k.pass == Pass::weight_gradient ? sum : 1);
    const Buffer& b = p_[weight.buffer];
    if (slice_of(p_, weight) == nullptr) return;
    Hash key;
    key.add((std::uint64_t{run.layer} << 32) | run.microbatch);
    key.add(*b.parameters);
    key.add(weight.offset);
    // The head's product is transposed: its input is the second operand of the gradient's product.
    if (k.pass == Pass::forward && holds_weights(b)) {
      inputs_[key.value] = factor(run, view(run, 0));
      if (view(run, sum).use == View::Use::accumulate) joint_.insert(key.value);
    } else if (k.pass == Pass::input_gradient && holds_weights(b) && !is_trained(*b.parameters)) {
      // The product has no weight gradient, which would show whose output gradient this is.
      if (!joint_.contains(key.value) && !frozen_gradients_.insert(factor(run, view(run, 0))).second) {
        regions_.wrong("program.stale",
                       fmt::format("the input gradient of {} is made from an output gradient of another product",
                                   slice_of(p_, weight)->name),
                       run);
      }
    } else if (k.pass == Pass::weight_gradient && b.role == Role::gradient) {
      const auto forward = inputs_.find(key.value);
      if (forward == inputs_.end()) return;
      const std::uint64_t first = factor(run, view(run, 0)), second = factor(run, view(run, 1));
      const std::string& name = slice_of(p_, weight)->name;
      if (first != forward->second && second != forward->second) {
        regions_.wrong("program.stale",
                       fmt::format("the gradient of {} is made from another input than the forward product's", name),
                       run);
      } else if (!joint_.contains(key.value) &&
                 !output_gradients_.insert(first == forward->second ? second : first).second) {
        // Layers are sequences of products: no two products have one output, except where one adds to another's.
        regions_.wrong(
            "program.stale",
            fmt::format("the gradient of {} is made from an output gradient that belongs to another product", name),
            run);
      }
    }
  }

  /// The class axes, where other classes make their part of the same sum.
  [[nodiscard]] AxisBits other_holders(const OpRun& run, const Kernel& k, const View& v) const {
    const bool gradient = p_[v.buffer].role == Role::gradient && k.kind != KernelKind::fill;
    const bool several = (gradient && holders_.of(regions_.instance(run, v)).size() > 1) ||
                         (k.kind == KernelKind::cross_entropy_loss && holders_.of_loss().size() > 1);
    return several ? bits(p_.mesh, p_.class_axes) : AxisBits{0};
  }
  /// A sum over some classes is whole only if all classes that hold the module take part.
  void all_holders(const OpRun& run, const Collective& c, const View& v) {
    if (v.use == View::Use::read || (bits(p_.mesh, p_[c.group].axes) & bits(p_.mesh, p_.class_axes)) == 0) return;
    const auto& classes = holders_.of(regions_.instance(run, v));
    if (classes.size() < 2 || holders_.joins(p_[c.group], classes)) return;
    regions_.wrong("program.partial",
                   fmt::format("{} is summed over other classes than those that have a part of it", p_[v.buffer].name),
                   run);
  }

  void perform(const OpRun& run, const Compute& c) {
    const Kernel& k = run.block->kernels[c.kernel];
    same_input(run, k);
    handovers_.take(run, k);
    check_attended(regions_, run, k);
    Hash made;
    made.add(index(k.kind));
    made.add(k.site);
    std::vector<AxisBits> partial(run.op->views.count, 0);
    std::vector<Attended> attended(run.op->views.count);
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = view(run, i);
      if (v.use != View::Use::write) made.add(k.kind == KernelKind::gemm ? factor(run, v) : regions_.content(run, v));
      if (p_[v.buffer].role == Role::weight) made.add(v.offset);  // which of the module's parameters
      if (v.use == View::Use::read) continue;
      partial[i] = static_cast<AxisBits>(new_partial(regions_, run, k, i) | other_holders(run, k, v));
      attended[i] = attend(regions_, run, k, i);
      if (v.use == View::Use::accumulate) partial[i] = static_cast<AxisBits>(partial[i] | regions_.partial_of(run, v));
    }
    // Data is identified by what it is, since it is not made from anything.
    if (k.kind == KernelKind::load_tokens || k.kind == KernelKind::load_targets ||
        k.kind == KernelKind::load_segments || k.kind == KernelKind::load_patches) {
      made.add(run.microbatch);
    }
    if (k.kind == KernelKind::route_tokens) made.add((std::uint64_t{run.layer} << 32) | run.microbatch);
    const Blocks blocks = product_of_blocks(regions_, run, k);
    const std::uint64_t origin = keeps_elements(k.kind) ? regions_.origin(run, view(run, 0)) : 0;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      made.add(i);
      if (view(run, i).use != View::Use::read)
        regions_.put(run, view(run, i), partial[i], made.value, blocks, attended[i], origin);
    }
    if (k.kind == KernelKind::fill) handovers_.clear(run);
  }

  void perform(const OpRun& run, const Collective& c) {
    const AxisBits group = bits(p_.mesh, p_[c.group].axes);
    const auto made = [&](const View& v) {
      Hash h;
      h.add(0x100U + index(c.kind));
      h.add(index(c.group));
      // A permuted content was made on its rank in the way that this rank makes its own, so it is the same when it is
      // made again.
      if (c.kind == Collective::Kind::permute) h.add((std::uint64_t{index(c.root)} << 32) | c.width);
      h.add(regions_.content(run, v));
      return h.value;
    };
    switch (c.kind) {
      case Collective::Kind::all_reduce:
      case Collective::Kind::reduce:
        if (is_paired(*run.block, *run.op, c)) {
          for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
            regions_.put(run, view(run, i + 1), reduced(regions_, run, view(run, i), view(run, i + 1), group),
                         made(view(run, i)), blocks_by_root(regions_, run, c, view(run, i), view(run, i + 1)));
          }
          break;
        }
        for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
          const View& v = view(run, i);
          if (p_[v.buffer].role == Role::gradient) all_holders(run, c, v);
          if (v.use != View::Use::read)
            regions_.put(run, v, static_cast<AxisBits>(regions_.partial_of(run, v) & ~group), made(v));
        }
        break;
      case Collective::Kind::permute:
        for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
          Attended moved = attended_of(regions_, run, view(run, i));
          (c.width == 0 ? moved.hops : moved.turns) += index(c.root);
          regions_.put(run, view(run, i + 1), regions_.partial_of(run, view(run, i)), made(view(run, i)), {}, moved,
                       regions_.origin(run, view(run, i)));
        }
        break;
      case Collective::Kind::broadcast:
        if (is_paired(*run.block, *run.op, c)) {
          const Blocks panel{index(c.root), group_size(p_[c.group], p_.mesh), 0, true};
          for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
            Hash h;
            h.add(made(view(run, i)));
            h.add(index(c.root));
            regions_.put(run, view(run, i + 1), regions_.partial_of(run, view(run, i)), h.value, panel,
                         attended_of(regions_, run, view(run, i)), regions_.origin(run, view(run, i)));
          }
          break;
        }
        for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
          if (view(run, i).use != View::Use::read) regions_.put(run, view(run, i), 0, arrived());
        }
        break;
      case Collective::Kind::all_gather:
      case Collective::Kind::reduce_scatter:
      case Collective::Kind::all_to_all:
        for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
          const bool reduces = c.kind == Collective::Kind::reduce_scatter;
          Attended attended = attended_of(regions_, run, view(run, i));
          if (reduces) attended.met *= group_size(p_[c.group], p_.mesh);
          const View& to = view(run, i + 1);
          const AxisBits left =
              reduces ? reduced(regions_, run, view(run, i), to, group) : regions_.partial_of(run, view(run, i));
          if (c.kind == Collective::Kind::all_gather && is_weight(to))
            copies_[regions_.instance(run, to)] = {view(run, i), regions_.stamp(), run.layer};
          if (to.use == View::Use::accumulate) {
            Hash sum;
            sum.add(regions_.content(run, to));
            sum.add(made(view(run, i)));
            regions_.put(run, to, left, sum.value);
          } else {
            regions_.put(run, to, left, made(view(run, i)), {}, attended,
                         reduces ? 0 : regions_.origin(run, view(run, i)));
          }
        }
        break;
      case Collective::Kind::barrier: break;
    }
  }

  void perform(const OpRun& run, const Exchange&) {
    handovers_.send(run);
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      if (view(run, i).use != View::Use::read) regions_.put(run, view(run, i), 0, arrived() + i);
    }
  }
  void perform(const OpRun& run, const Copy&) {
    for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
      const View& from = view(run, i);
      regions_.put(run, view(run, i + 1), regions_.partial_of(run, from), regions_.content(run, from),
                   blocks_of(regions_, run, from), attended_of(regions_, run, from), regions_.origin(run, from));
      regions_.copy_partials(run, from, view(run, i + 1));
    }
  }
  void perform(const OpRun&, const Alloc&) {}
  void perform(const OpRun&, const Free&) {}

  /// Content that came from another rank, unlike any other.
  [[nodiscard]] std::uint64_t arrived() const {
    Hash h;
    h.add(regions_.stamp());
    return h.value;
  }

  Findings& f_;
  const Program& p_;
  Regions regions_;
  const Holders& holders_;
  Handovers handovers_;
  std::uint32_t class_;
  std::set<std::uint32_t> lasting_;
  std::unordered_map<std::uint64_t, std::uint64_t> ran_;  ///< key of an op -> its operands' stamps when it had run
  std::unordered_map<std::uint64_t, std::uint64_t>
      inputs_;                                          ///< (layer, microbatch, parameter) -> forward input's content
  std::unordered_set<std::uint64_t> joint_;             ///< the same, where the product adds to another's output
  std::unordered_set<std::uint64_t> output_gradients_;  ///< contents that weight gradients have taken
  std::unordered_set<std::uint64_t> frozen_gradients_;  ///< the same of products whose weights stay as they are
  std::unordered_set<std::uint64_t> norm_gradients_;    ///< contents that norms have taken backward
  struct Copied {
    View from;  ///< the parts
    std::uint64_t stamp = 0;
    std::uint32_t layer = 0;  ///< of the run that gathered
  };
  std::unordered_map<Instance, Copied, InstanceHash> copies_;  ///< gathered weights
  std::uint64_t key_ = 0;
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
