#include <fmt/format.h>

#include <limits>

#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

using Use = View::Use;

/// One operand as kernel.hpp lists it; count 0 stands for "as many as the first gradient".
struct Expected {
  std::string_view name;
  Use use;
  double elements;  ///< of the shapes; a double cannot overflow, and views are below 2^53
};

/// The operand table of kernel.hpp, written a second time on purpose: the two must agree.
class KernelTable {
 public:
  explicit KernelTable(const Kernel& k) : k_(k) { fill(); }

  [[nodiscard]] const std::vector<Expected>& operands() const { return operands_; }
  /// The last operand may stand any number of times (fill, initialize, sum_squares: the first).
  [[nodiscard]] bool repeats() const { return repeats_; }

 private:
  void r(std::string_view name, double n) { operands_.push_back({name, Use::read, n}); }
  void w(std::string_view name, double n) { operands_.push_back({name, Use::write, n}); }
  void a(std::string_view name, double n) { operands_.push_back({name, Use::accumulate, n}); }
  /// Input gradient of a norm, added to itself or to the residual stream's.
  void residual(double n) {
    if (!k_.options.residual) return a("dx", n);
    r("residual", n), w("dx", n);
  }
  void fill();
  void attention();
  void optimizer();

  const Kernel& k_;
  std::vector<Expected> operands_;
  bool repeats_ = false;
};

constexpr double any = -1.0;

void KernelTable::attention() {
  const double tokens = static_cast<double>(k_.rows);
  const double value = k_.value_dim > 0 ? k_.value_dim : k_.head_dim;  // of MLA, not that of keys
  const double query = tokens * k_.heads * k_.head_dim;
  const double context = tokens * k_.heads * value;
  const double qkv = query + tokens * k_.kv_heads * (k_.head_dim + value);
  const double scores = k_.batch == 0 ? 0.0 : tokens / k_.batch * tokens * k_.heads;
  const double pair = k_.kv_heads * (k_.head_dim + value);
  const double own = tokens * pair;
  const double brought = static_cast<double>(k_.depth) * pair;
  const double brought_keys = static_cast<double>(k_.depth) * k_.kv_heads * k_.head_dim;
  const double brought_scores = k_.batch == 0 ? 0.0 : tokens / k_.batch * static_cast<double>(k_.depth) * k_.heads;
  const bool dropout = k_.options.dropout;
  switch (k_.kind) {
    case KernelKind::rope_forward: a("qkv", qkv); break;
    case KernelKind::rope_backward: a("dqkv", qkv); break;
    case KernelKind::attention_unfused_forward:
      r("qkv", qkv), w("context", context), w("probabilities", scores);
      if (dropout) w("mask", scores), w("dropped", scores);
      break;
    case KernelKind::attention_unfused_backward:
      r("dcontext", context), r("qkv", qkv), r("probabilities", scores);
      if (dropout) r("mask", scores), r("dropped", scores);
      w("dqkv", qkv), w("dscores", scores);
      break;
    case KernelKind::attention_flash_forward: r("qkv", qkv), w("context", context), w("lse", tokens * k_.heads); break;
    case KernelKind::attention_flash_backward:
      r("dcontext", context), r("qkv", qkv), r("context", context), r("lse", tokens * k_.heads);
      w("dqkv", qkv), w("dq accumulator", query);
      break;
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward: {
      const double key = tokens * static_cast<double>(k_.columns), pairs = qkv - query - k_.heads * key;
      if (k_.kind == KernelKind::latent_heads_forward) {
        r("queries", query), r("pairs", pairs), r("key", key), w("qkv", qkv);
      } else {
        r("dqkv", qkv), w("dqueries", query), w("dpairs", pairs), w("dkey", key);
      }
      break;
    }
    case KernelKind::pack_keys_values: r("qkv", qkv), w("kv", own); break;
    case KernelKind::attention_part_forward:
      r("qkv", qkv), r("kv", brought), w("context", context), w("lse", tokens * k_.heads);
      break;
    case KernelKind::attention_part_backward:
      r("dcontext", context), r("qkv", qkv), r("kv", brought), r("context", context), r("lse", tokens * k_.heads);
      w("dq", query), w("dkv", brought);
      break;
    case KernelKind::attention_merge:
      a("context", context), a("lse", tokens * k_.heads), r("part", context), r("part lse", tokens * k_.heads);
      break;
    case KernelKind::unpack_gradients: r("dq", query), r("dkv", own), w("dqkv", qkv); break;
    case KernelKind::split_keys_values: {
      const double keys = tokens * k_.kv_heads * k_.head_dim;
      r("qkv", qkv), w("keys", keys), w("values", own - keys);
      break;
    }
    case KernelKind::attention_scores_forward:
      r("qkv", qkv), r("keys", brought_keys), w("scores", brought_scores);
      if (dropout) w("mask", brought_scores);
      break;
    case KernelKind::attention_softmax_forward:
      r("scores", brought_scores), w("probabilities", brought_scores);
      if (dropout) r("mask", brought_scores), w("weights", brought_scores);
      break;
    case KernelKind::attention_values_forward:
      r("weights", brought_scores), r("values", brought - brought_keys), w("context", context);
      break;
    case KernelKind::attention_values_backward:
      r("dcontext", context), r("values", brought - brought_keys), w("dweights", brought_scores);
      break;
    case KernelKind::attention_softmax_backward:
      r("probabilities", brought_scores);
      if (dropout) r("mask", brought_scores);
      a("dscores", brought_scores);
      break;
    case KernelKind::attention_scores_backward:
      r("dscores", brought_scores), r("keys", brought_keys), w("dq", query);
      break;
    case KernelKind::attention_pairs_backward:
      r("dcontext", context), r("qkv", qkv), r("weights", brought_scores), r("dscores", brought_scores);
      w("dkv", brought);
      break;
    default: break;
  }
}

void KernelTable::optimizer() {
  const double n = static_cast<double>(k_.columns);
  const double norms = 2.0 * static_cast<double>(k_.depth);
  switch (k_.kind) {
    case KernelKind::sum_squares: r("gradient", any), a("norm", 1); break;
    case KernelKind::clip_factor:
      r("norm", 1);
      if (k_.options.scaled) a("loss_scale", 2);
      w("factor", 2);
      break;
    case KernelKind::advance_step:
      a("steps", 1);
      if (k_.options.factor) r("factor", 2);
      break;
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      if (k_.kind == KernelKind::adam_update) {
        a("m", n), a("v", n);
      } else if (k_.options.momentum) {
        a("m", n);
      }
      break;
    case KernelKind::lamb_moments:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      r("exact", n), a("m", n), a("v", n), a("norms", norms);
      break;
    case KernelKind::lamb_update:
      r("norms", norms), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      r("m", n), r("v", n);
      break;
    case KernelKind::lars_norms:
      r("gradient", n);
      if (k_.options.factor) r("factor", 2);
      r("exact", n), a("norms", norms);
      break;
    case KernelKind::lars_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      a("m", n);
      if (k_.depth > 0) r("norms", norms);
      break;
    case KernelKind::adafactor_squares:
      r("gradient", n);
      if (k_.options.factor) r("factor", 2);
      a("sums", norms / 2.0);
      break;
    case KernelKind::adafactor_moments:
      r("gradient", n), r("sums", norms / 2.0), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("moments", norms / 2.0), a("norms", k_.batch);
      break;
    case KernelKind::adafactor_update:
      r("gradient", n), r("steps", 1);
      if (k_.options.factor) r("factor", 2);
      a("weight", n);
      if (k_.options.master) a("master", n);
      r("moments", norms / 2.0), r("norms", k_.batch);
      break;
    default: break;
  }
}

void KernelTable::fill() {
  const double rows = static_cast<double>(k_.rows);
  const double columns = static_cast<double>(k_.columns);
  const double depth = static_cast<double>(k_.depth);
  const double all = rows * columns;
  const double batch = k_.batch;
  const bool bias = k_.options.bias;
  const bool dropout = k_.options.dropout;
  switch (k_.kind) {
    case KernelKind::load_tokens: w("tokens", rows); break;
    case KernelKind::load_targets: w("targets", rows); break;
    case KernelKind::load_segments: w("segments", rows); break;
    case KernelKind::load_patches: w("patches", all); break;
    case KernelKind::count_targets: w("count", 1); break;
    case KernelKind::fill: w("x", any), repeats_ = true; break;
    case KernelKind::initialize: w("parameters", any); break;
    case KernelKind::initialize_scale: w("loss_scale", 2); break;
    case KernelKind::embed_forward: r("tokens", rows), r("table", depth * columns), w("x", all); break;
    case KernelKind::embed_backward: r("tokens", rows), r("dx", all), a("dtable", depth * columns); break;
    case KernelKind::position_forward: a("x", all), r("table", any); break;
    case KernelKind::position_backward: r("dx", all), a("dtable", any); break;
    case KernelKind::segment_forward: r("segments", rows), a("x", all), r("table", depth * columns); break;
    case KernelKind::segment_backward: r("segments", rows), r("dx", all), a("dtable", depth * columns); break;
    case KernelKind::class_token_forward: a("x", all), r("token", columns), r("bias", columns); break;
    case KernelKind::class_token_backward: r("dx", all), a("dtoken", columns), a("dbias", columns); break;
    case KernelKind::layer_norm_forward:
      r("x", all), r("gamma", columns), r("beta", columns);
      if (k_.options.cut) r("sums", rows), r("squares", rows);
      w("y", all), w("stats", 2 * rows);
      break;
    case KernelKind::layer_norm_backward_input:
      r("dy", all), r("x", all), r("gamma", columns), r("stats", 2 * rows);
      if (k_.options.cut) r("gradient sums", 2 * rows);
      residual(all);
      break;
    case KernelKind::layer_norm_backward_weight:
      r("dy", all), r("x", all), r("stats", 2 * rows), a("dgamma", columns), a("dbeta", columns);
      break;
    case KernelKind::rms_norm_forward:
      r("x", all), r("gamma", columns);
      if (k_.options.cut) r("squares", rows);
      w("y", all), w("stats", rows);
      break;
    case KernelKind::rms_norm_backward_input:
      r("dy", all), r("x", all), r("gamma", columns), r("stats", rows);
      if (k_.options.cut) r("gradient sums", rows);
      residual(all);
      break;
    case KernelKind::rms_norm_backward_weight: r("dy", all), r("x", all), r("stats", rows), a("dgamma", columns); break;
    case KernelKind::norm_sums: r("x", all), w("sums", rows); break;
    case KernelKind::norm_squares:
      r("x", all);
      if (k_.options.centered) r("sums", rows);
      w("squares", rows);
      break;
    case KernelKind::norm_gradient_sums: {
      const double per_row = k_.options.centered ? 2 : 1;
      r("dy", all), r("x", all), r("gamma", columns), r("stats", per_row * rows), w("sums", per_row * rows);
      break;
    }
    case KernelKind::gemm:
      r("A", rows * depth), r("B", depth * columns), w("C", all);
      if (bias) r("bias", columns);
      break;
    case KernelKind::bias_forward: r("bias", columns), a("x", all); break;
    case KernelKind::bias_backward: r("dy", all), a("dbias", columns); break;
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward:
    case KernelKind::pack_keys_values:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward:
    case KernelKind::attention_merge:
    case KernelKind::unpack_gradients:
    case KernelKind::split_keys_values:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_softmax_forward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward:
    case KernelKind::attention_softmax_backward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_pairs_backward: attention(); break;
    case KernelKind::add_to: r("x", all), a("sum", all); break;
    case KernelKind::convert: r("x", all), w("y", all); break;
    case KernelKind::swap_blocks: r("x", all * depth), w("y", all * depth); break;
    case KernelKind::gelu_forward: r("pre", all), w("y", all); break;
    case KernelKind::gelu_backward: r("pre", all), a("d", all); break;
    case KernelKind::swiglu_forward: r("pre", 2 * all), w("y", all); break;
    case KernelKind::swiglu_backward: r("pre", 2 * all), r("dy", all), w("dpre", 2 * all); break;
    case KernelKind::route_tokens: w("choice", rows * batch), w("slots", depth), w("experts", depth); break;
    case KernelKind::gates_forward: r("logits", all), r("choice", rows * batch), w("gates", rows * batch); break;
    case KernelKind::gates_backward:
      r("dgates", rows * batch), r("logits", all), r("choice", rows * batch);
      if (k_.options.scaled) r("loss_scale", 2);
      w("dlogits", all);
      break;
    case KernelKind::dispatch_forward: r("x", all), r("slots", depth), w("rows", depth * columns); break;
    case KernelKind::dispatch_backward:
      r("drows", depth * columns), r("slots", depth);
      if (k_.options.residual) r("residual", all);
      w("dx", all);
      break;
    case KernelKind::combine_forward:
      r("rows", depth * columns), r("slots", depth), r("gates", rows * batch);
      if (k_.options.residual) r("residual", all);
      w("y", all);
      break;
    case KernelKind::combine_backward:
      r("dy", all), r("rows", depth * columns), r("slots", depth), r("gates", rows * batch);
      w("drows", depth * columns), w("dgates", rows * batch);
      break;
    case KernelKind::expert_gemm: {
      const bool to_weight = k_.options.transpose_a;
      r("A", rows * depth), r("B", depth * columns * (to_weight ? 1.0 : batch));
      r("experts", to_weight ? depth : rows), w("C", all * (to_weight ? batch : 1.0));
      break;
    }
    case KernelKind::residual_forward:
      r("x", all);
      if (bias) r("bias", columns);
      r("residual", all), w("y", all);
      if (dropout) w("mask", all);
      break;
    case KernelKind::dropout_forward: a("x", all), w("mask", all); break;
    case KernelKind::dropout_backward: r("dy", all), r("mask", all), w("dx", all); break;
    case KernelKind::cross_entropy_max: r("logits", all), w("max", rows); break;
    case KernelKind::cross_entropy_sum:
      r("logits", all), r("max", rows), r("targets", rows), w("sum", rows), w("target_logit", rows);
      break;
    case KernelKind::cross_entropy_loss:
      r("max", rows), r("sum", rows), r("target_logit", rows), r("targets", rows), a("loss", 1);
      break;
    case KernelKind::cross_entropy_backward:
      a("logits", all), r("max", rows), r("sum", rows), r("targets", rows), r("count", 1);
      if (k_.options.scaled) r("loss_scale", 2);
      break;
    case KernelKind::mean_loss: a("loss", 1), r("count", 1); break;
    case KernelKind::sum_squares:
    case KernelKind::clip_factor:
    case KernelKind::advance_step:
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
    case KernelKind::lamb_moments:
    case KernelKind::lamb_update:
    case KernelKind::lars_norms:
    case KernelKind::lars_update:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
    case KernelKind::adafactor_update: optimizer(); break;
  }
}

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
      f_.add_at("program.tier", fmt::format("{} lives in {} memory", buffer(i).name, name_of(buffer(i).tier)), id_,
                at_);
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
    const KernelTable table(k);
    const auto& expected = table.operands();
    const std::size_t extra = op_.views.count > expected.size() ? op_.views.count - expected.size() : 0;
    // sum_squares takes any number of gradients, then the norm.
    const bool leading = k.kind == KernelKind::sum_squares;
    if (op_.views.count < expected.size() || (extra > 0 && !table.repeats() && !leading)) {
      wrong(fmt::format("{} takes {} operands, here are {}", name_of(k.kind), expected.size(), op_.views.count));
      return;
    }
    for (std::uint32_t i = 0; i < op_.views.count; ++i) {
      std::size_t e = i;
      if (leading) e = i > extra ? i - extra : 0;
      if (table.repeats()) e = std::min<std::size_t>(i, expected.size() - 1);
      const Expected& x = expected[e];
      // C is written or added to, and so are dq and the context of brought values.
      const bool product = (k.kind == KernelKind::gemm && i == 2) || (k.kind == KernelKind::expert_gemm && i == 3) ||
                           (k.kind == KernelKind::attention_part_backward && i == 5) ||
                           (k.kind == KernelKind::attention_values_forward && i == 2) ||
                           (k.kind == KernelKind::attention_scores_backward && i == 2);
      if (product) {
        use(i, x.name, {Use::write, Use::accumulate});
      } else {
        use(i, x.name, {x.use});
      }
      if (x.elements >= 0 && static_cast<double>(view(i).count) != x.elements) {
        wrong(fmt::format("operand {} ({}) of {} has {} elements, its shape {}", i, x.name, name_of(k.kind),
                          view(i).count, x.elements));
      }
    }
    kind_rules(k);
  }

  static bool is_part(const Kernel& k) {
    return k.kind == KernelKind::attention_part_forward || k.kind == KernelKind::attention_part_backward;
  }

  /// The keys of operand `kv` come from an inner ring, one of equal parts of the ring.
  void inner_ring(const Kernel& k, std::uint32_t kv) {
    const std::uint64_t keys = k.batch == 0 ? 0 : k.depth / k.batch;
    const auto& shard = buffer(kv).shard;
    const std::uint64_t ranks = shard && keys > 0 ? shard->dims[0].extent / keys : 1;
    if (ranks % k.ring != 0) wrong(fmt::format("inner rings of {} are no parts of a ring of {}", k.ring, ranks));
  }

  /// Scores with the keys of a rank lie behind those of the ranks before it on the ring.
  void placed_by_site(const Kernel& k, std::uint32_t i) {
    if (view(i).offset == k.site * view(i).count) return;
    wrong(fmt::format("operand {} is at {}, not where scores {} places back are", i, view(i).offset, k.site));
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
      case KernelKind::load_tokens:
      case KernelKind::load_targets:
      case KernelKind::load_segments:
        if (buffer(0).dtype != DType::i32) wrong("tokens are of type i32");
        break;
      case KernelKind::position_forward:
      case KernelKind::position_backward:
        if (k.columns == 0 || view(1).count % k.columns != 0) wrong("the table has no whole number of positions");
        break;
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
        if (k.batch == 0 || k.rows % k.batch != 0) wrong("rows are no whole number of sequences");
        if (k.kv_heads == 0 || k.heads % k.kv_heads != 0) wrong("heads are no multiple of kv_heads");
        if (is_part(k) && k.batch != 0 && k.depth % k.batch != 0) wrong("keys are no whole number of sequences");
        if (is_part(k) && k.ring != 0) inner_ring(k, k.kind == KernelKind::attention_part_forward ? 1 : 2);
        if (k.parameter > static_cast<double>(k.columns) && is_part(k)) {
          wrong("ranks attend to more pairs than the busiest of them");
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
      wrong(fmt::format("{} takes pairs, here are {} operands", orrery::name_of(c.kind), n));
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
        // A block shared by all members says accumulate; blocks of their own say
        // what each member really does with the buffer.
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
      wrong(fmt::format("a copy takes pairs, here are {} operands", op_.views.count));
      return;
    }
    for (std::uint32_t i = 0; i < op_.views.count; i += 2) {
      use(i, "source", {Use::read});
      use(i + 1, "result", {Use::write});
      whole_and_part(i, i + 1, 1);
      if (buffer(i).tier != c.from || buffer(i + 1).tier != c.to) {
        f_.add_at("program.tier",
                  fmt::format("{} lives in {} memory and {} in {} memory", buffer(i).name, name_of(buffer(i).tier),
                              buffer(i + 1).name, name_of(buffer(i + 1).tier)),
                  id_, at_);
      }
    }
  }

  void action(const Alloc&) {}
  void action(const Free&) {}

  static std::string_view name_of(Use u) { return verifying::name_of(u); }
  static std::string_view name_of(KernelKind k) { return orrery::name_of(k); }
  static std::string_view name_of(Tier t) { return orrery::name_of(t); }

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
