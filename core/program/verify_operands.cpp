#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/counted.hpp"
#include "core/program/base_weights.hpp"
#include "core/program/head_copies.hpp"
#include "core/program/kernel_table.hpp"
#include "core/program/moment_scales.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

using Use = View::Use;

std::string_view name_of(Use use) {
  switch (use) {
    case Use::read: return "read";
    case Use::write: return "write";
    case Use::accumulate: return "accumulate";
  }
  return "";
}

/// The operands of one op of one block.
class Operands {
 public:
  Operands(Findings& f, BlockId id, std::uint32_t at)
      : f_(f), p_(f.program()), block_(p_[id]), op_(block_.ops[at]), id_(id), at_(at) {}

  void check() {
    for (std::uint32_t i = 0; i < op_.views.count; ++i) bounds(i);
    std::visit([&](const auto& a) { action(a); }, op_.action);
  }

 private:
  [[nodiscard]] const View& view(std::uint32_t i) const { return block_.views[op_.views.first + i]; }
  [[nodiscard]] const Buffer& buffer(std::uint32_t i) const { return p_[view(i).buffer]; }
  void wrong(const std::string& what) { f_.add_at("program.operands", what, id_, at_); }

  void bounds(std::uint32_t i) {
    const View& v = view(i);
    // A part moves with the rank: the last member's must fit too.
    const std::uint64_t parts = size(p_.mesh, v.member_of);
    const std::uint64_t room = buffer(i).count;
    if (v.count == 0 || v.offset > room || v.count > (room - v.offset) / parts) {
      f_.add_at("program.view",
                fmt::format("view {} takes {} elements at {}{} of the {} of {}", i, v.count, v.offset,
                            parts > 1 ? fmt::format(", {} parts,", parts) : "", room, buffer(i).name),
                id_, at_);
    }
    // The host's kernels work on its memory, all other ops but copies on the device's.
    const bool host = op_.lane.kind == LaneKind::host && std::holds_alternative<Compute>(op_.action);
    if (buffer(i).tier != (host ? Tier::host : Tier::device) && !std::holds_alternative<Copy>(op_.action)) {
      f_.add_at("program.tier",
                fmt::format("{} lives in {} memory, but the op works on {} memory", buffer(i).name,
                            name_of(buffer(i).tier), name_of(host ? Tier::host : Tier::device)),
                id_, at_);
    }
  }

  bool use(std::uint32_t i, std::string_view operand, std::initializer_list<Use> allowed) {
    for (const Use u : allowed) {
      if (view(i).use == u) return true;
    }
    wrong(fmt::format("operand {} ({}) is {}, not {}", i, operand, name_of(view(i).use), name_of(*allowed.begin())));
    return false;
  }

  void action(const Compute& compute) {
    const Kernel& k = block_.kernels[compute.kernel];
    if (op_.lane.kind != LaneKind::compute && op_.lane.kind != LaneKind::host) {
      wrong("a Compute queues on the compute lane");
    }
    const OperandList expected = operands_of(k);
    const std::size_t extra = op_.views.count > expected.size() ? op_.views.count - expected.size() : 0;
    const auto* const repeated =
        std::find_if(expected.begin(), expected.end(), [](const OperandRow& o) { return o.repeats; });
    if (op_.views.count < expected.size() || (extra > 0 && repeated == expected.end())) {
      wrong(fmt::format("{} takes {} operands, but has {}", name_of(k.kind), expected.size(), op_.views.count));
      return;
    }
    const auto first = static_cast<std::size_t>(repeated - expected.begin());
    for (std::uint32_t i = 0; i < op_.views.count; ++i) {
      const OperandRow& x = expected[i > first + extra ? i - extra : std::min<std::size_t>(i, first)];
      const std::string_view name = orrery::name_of(x.name);
      if (x.adds) {
        use(i, name, {Use::write, Use::accumulate});
      } else {
        use(i, name, {x.use});
      }
      if (x.elements == nullptr) continue;
      if (const double elements = x.elements(k); static_cast<double>(view(i).count) != elements) {
        wrong(fmt::format("operand {} ({}) of {} has {} elements, but its shape has {}", i, name, name_of(k.kind),
                          view(i).count, elements));
      }
    }
    kind_rules(k);
  }

  static bool is_part(const Kernel& k) {
    return k.kind == KernelKind::attention_part_forward || k.kind == KernelKind::attention_part_backward;
  }

  /// The keys of operand `kv` come from an inner ring, which is one of the ring's equal parts.
  void inner_ring(const Kernel& k, std::uint32_t kv) {
    const std::uint64_t keys = k.batch == 0 ? 0 : k.depth / k.batch;
    const auto& shard = buffer(kv).shard;
    const std::uint64_t ranks = shard && keys > 0 ? shard->dims[0].extent / keys : 1;
    if (ranks % k.ring != 0) wrong(fmt::format("inner rings of {} do not divide a ring of {}", k.ring, ranks));
  }

  /// A window, and chunks, are a narrower causal mask.
  void local(const Kernel& k) {
    if (k.window > 0 && !k.options.causal) wrong(fmt::format("a window of {} needs a causal mask", k.window));
    if (k.options.chunked && k.window == 0) wrong("chunks have no length");
  }

  /// Scores with the keys of a rank lie behind those of the ranks before it on the ring.
  void placed_by_site(const Kernel& k, std::uint32_t i) {
    if (view(i).offset == k.site * view(i).count) return;
    wrong(fmt::format("operand {} is at {}, but the scores {} places back are at {}", i, view(i).offset, k.site,
                      k.site * view(i).count));
  }

  /// A table of angles that there is, for as many pairs of features as the kernel turns.
  void rotation(const Kernel& k, std::uint64_t features) {
    if (features % 2 != 0 || features > k.head_dim) {
      wrong(fmt::format("{} of a head's {} features cannot turn in pairs", features, k.head_dim));
    }
    if (k.rotation == 0) return;
    if (k.rotation > p_.rotations.size()) {
      wrong(fmt::format("there is no rotation {} among {}", k.rotation, p_.rotations.size()));
    } else if (const std::size_t pairs = p_.rotations[k.rotation - 1].frequencies.size(); 2 * pairs != features) {
      wrong(fmt::format("rotation {} has {} frequencies for {} features", k.rotation, pairs, features));
    }
  }

  /// Norms of all heads take at least this rank's.
  void normed_width(const Kernel& k) {
    if (k.depth != k.head_dim && k.depth < std::uint64_t{k.heads} * k.head_dim) {
      wrong(fmt::format("a norm over {} features is neither one of a head nor one of all {} heads", k.depth, k.heads));
    }
  }

  /// Adam's moments with scales: m and v follow gradient, steps, factor, weight and master.
  void scaled_moments(const Kernel& k) {
    const std::uint32_t m = 3 + (k.options.factor ? 1U : 0U) + (k.options.master ? 1U : 0U);
    const DType first = buffer(m).dtype, second = buffer(m + 1).dtype;
    const bool codes = first == DType::u8 && second == DType::u8, floats = first == DType::f8 && second == DType::f16;
    if (!codes && !floats) {
      wrong(fmt::format("moments in {} and {} have no scales", name_of(first), name_of(second)));
    } else if (k.depth != moment_block(first)) {
      wrong(fmt::format("{} moments in {} share a scale, not {}", moment_block(first), name_of(first), k.depth));
    }
  }

  void kind_rules(const Kernel& k) {
    switch (k.kind) {
      case KernelKind::attention_scores_forward:
        placed_by_site(k, 2);
        if (k.options.dropout) placed_by_site(k, 3);
        break;
      case KernelKind::attention_values_backward: placed_by_site(k, 2); break;
      case KernelKind::attention_values_forward:
      case KernelKind::attention_scores_backward: placed_by_site(k, 0); break;
      case KernelKind::initialize:
        if (!buffer(0).parameters) wrong("only buffers with a parameter table are initialized");
        break;
      case KernelKind::quantize_weight:
      case KernelKind::dequantize_weight: {
        const auto base = static_cast<BaseWeights>(k.site);
        if (base != BaseWeights::nf4 && base != BaseWeights::int8 && base != BaseWeights::fp8) {
          wrong(fmt::format("there is no format {} of weights in few bits", k.site));
        } else if (k.options.scaled && base != BaseWeights::nf4) {
          wrong("only the scales of nf4 are in few bits too");
        }
        break;
      }
      case KernelKind::adam_update:
        if (k.options.scaled) scaled_moments(k);
        break;
      case KernelKind::load_tokens:
      case KernelKind::load_targets:
      case KernelKind::load_segments:
        if (buffer(0).dtype != DType::i32) wrong("tokens are of type i32");
        break;
      case KernelKind::position_forward:
      case KernelKind::position_backward:
        if (k.columns == 0 || view(1).count % k.columns != 0)
          wrong("the table does not hold a whole number of positions");
        break;
      case KernelKind::query_key_norm_forward:
      case KernelKind::query_key_norm_backward_input:
      case KernelKind::query_key_norm_backward_weight:
      case KernelKind::query_key_squares:
      case KernelKind::query_key_gradient_sums:
      case KernelKind::attention_unfused_forward:
      case KernelKind::attention_unfused_backward:
      case KernelKind::attention_flash_forward:
      case KernelKind::attention_flash_backward:
      case KernelKind::rope_forward:
      case KernelKind::rope_backward:
      case KernelKind::latent_heads_forward:
      case KernelKind::latent_heads_backward:
      case KernelKind::pack_keys_values:
      case KernelKind::unpack_gradients:
      case KernelKind::attention_part_forward:
      case KernelKind::attention_part_backward:
        if (k.batch == 0 || k.rows % k.batch != 0) wrong("rows are not a whole number of sequences");
        if (k.kv_heads == 0 || k.heads % k.kv_heads != 0) wrong("heads are not a multiple of kv_heads");
        local(k);
        if (k.kind == KernelKind::rope_forward || k.kind == KernelKind::rope_backward) {
          rotation(k, k.depth > 0 ? k.depth : k.head_dim);
        }
        if (k.kind == KernelKind::latent_heads_forward || k.kind == KernelKind::latent_heads_backward) {
          rotation(k, k.columns);
        }
        if (row_of(k.kind).work == WorkKind::norm) normed_width(k);
        if (is_part(k) && k.batch != 0 && k.depth % k.batch != 0) wrong("keys are not a whole number of sequences");
        if (is_part(k) && k.ring != 0) inner_ring(k, k.kind == KernelKind::attention_part_forward ? 1 : 2);
        if (k.parameter > static_cast<double>(k.columns) && is_part(k)) {
          wrong("a rank attends to more pairs on average than the busiest rank");
        }
        break;
      case KernelKind::share_heads_forward:
      case KernelKind::share_heads_backward:
        if (k.kv_heads == 0 || k.heads % k.kv_heads != 0) {
          wrong("heads are not a multiple of kv_heads");
        } else if (!HeadCopies(k).valid()) {
          wrong(fmt::format("rows of {} x {} columns are not shared out evenly as {} heads and {}", k.depth, k.columns,
                            k.heads, counted(k.kv_heads, "key")));
        }
        break;
      case KernelKind::adapter_forward:
      case KernelKind::adapter_backward_input:
      case KernelKind::adapter_backward_weight:
        if (k.heads < k.batch || std::uint64_t{k.kv_heads} * k.heads * k.head_dim != k.columns) {
          wrong("the blocks of the product's matrices do not make its columns");
        }
        if (k.site == 0 || static_cast<std::uint64_t>(std::bit_width(k.site)) > k.batch) {
          wrong("adapted matrices are not among the product's");
        }
        break;
      default: break;  // the shapes say it all
    }
  }

  void whole_and_part(std::uint32_t whole, std::uint32_t part, std::uint64_t members) {
    if (buffer(whole).dtype != buffer(part).dtype) wrong("part and whole differ in element type");
    if (view(whole).count != view(part).count * members) {
      wrong(fmt::format("{} elements are not {} parts of {}", view(whole).count, members, view(part).count));
    }
  }

  void action(const Collective& c) {
    const std::uint32_t n = op_.views.count;
    const std::uint64_t members = group_size(p_[c.group], p_.mesh);
    const bool pairs = is_paired(block_, op_, c);
    if (op_.lane.kind == LaneKind::compute) wrong("a Collective does not queue on the compute lane");
    if (c.kind == Collective::Kind::barrier) {
      if (n != 0) wrong("a barrier has no operands");
      return;
    }
    if (n == 0) wrong(fmt::format("{} has no operands", orrery::name_of(c.kind)));
    if (pairs && n % 2 != 0) {
      wrong(fmt::format("{} takes pairs of operands, but has {}", orrery::name_of(c.kind), n));
      return;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      if (pairs) {
        if (i % 2 == 0) {
          use(i, "source", {Use::read});
        } else if (c.kind == Collective::Kind::reduce_scatter || c.kind == Collective::Kind::reduce) {
          use(i, "result", {Use::write, Use::accumulate});
        } else {
          use(i, "result", {Use::write});
        }
      } else if (c.kind == Collective::Kind::broadcast || c.kind == Collective::Kind::reduce) {
        // A block that all members share says accumulate; where members have blocks of their own, each block says what
        // the member really does with the buffer.
        use(i, "operand", {Use::accumulate, Use::read, Use::write});
      } else {
        use(i, "operand", {Use::accumulate});
      }
    }
    for (std::uint32_t i = 0; pairs && i + 1 < n; i += 2) {
      if (c.kind == Collective::Kind::all_gather) whole_and_part(i + 1, i, members);
      if (c.kind == Collective::Kind::reduce_scatter) whole_and_part(i, i + 1, members);
      if (c.kind == Collective::Kind::permute || c.kind == Collective::Kind::broadcast ||
          c.kind == Collective::Kind::reduce) {
        whole_and_part(i, i + 1, 1);
      }
      if (c.kind == Collective::Kind::all_to_all) {
        whole_and_part(i, i + 1, 1);
        if (view(i).count % members != 0) wrong(fmt::format("{} elements are not {} parts", view(i).count, members));
      }
    }
  }

  void action(const Exchange& e) {
    if (op_.lane.kind == LaneKind::compute) wrong("an Exchange does not queue on the compute lane");
    if (e.transfers.count == 0) wrong("an exchange moves nothing");
    std::vector<bool> used(op_.views.count, false);
    for (std::uint32_t i = 0; i < e.transfers.count; ++i) {
      const Transfer& t = block_.transfers[e.transfers.first + i];
      used[t.view] = true;
      use(t.view, t.send ? "sent" : "received", {t.send ? Use::read : Use::write});
    }
    for (std::uint32_t i = 0; i < op_.views.count; ++i) {
      if (!used[i]) wrong(fmt::format("operand {} belongs to no transfer", i));
    }
  }

  void action(const Copy& c) {
    if (op_.views.count == 0 || op_.views.count % 2 != 0) {
      wrong(fmt::format("a copy takes pairs of operands, but has {}", op_.views.count));
      return;
    }
    for (std::uint32_t i = 0; i < op_.views.count; i += 2) {
      use(i, "source", {Use::read});
      use(i + 1, "result", {Use::write});
      whole_and_part(i, i + 1, 1);
      if (buffer(i).tier != c.from || buffer(i + 1).tier != c.to) {
        f_.add_at("program.tier",
                  fmt::format("{} lives in {} memory and {} in {} memory, but the copy goes from {} to {} memory",
                              buffer(i).name, name_of(buffer(i).tier), buffer(i + 1).name, name_of(buffer(i + 1).tier),
                              name_of(c.from), name_of(c.to)),
                  id_, at_);
      }
    }
  }

  void action(const Alloc&) {}
  void action(const Free&) {}

  static std::string_view name_of(Use u) { return verifying::name_of(u); }
  static std::string_view name_of(KernelKind k) { return orrery::name_of(k); }
  static std::string_view name_of(Tier t) { return orrery::name_of(t); }
  static std::string_view name_of(DType t) { return orrery::name_of(t); }

  Findings& f_;
  const Program& p_;
  const Block& block_;
  const Op& op_;
  BlockId id_;
  std::uint32_t at_;
};

}  // namespace

void check_operands(Findings& f) {
  const Program& p = f.program();
  for (std::uint32_t b = 0; b < p.blocks.size(); ++b) {
    for (std::uint32_t i = 0; i < p.blocks[b].ops.size(); ++i) {
      if (f.full()) return;
      Operands(f, BlockId{b}, i).check();
    }
  }
}

}  // namespace orrery::verifying
