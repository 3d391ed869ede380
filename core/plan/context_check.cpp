#include "core/plan/context_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/plan/head_shares.hpp"
#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/recompute_modules.hpp"

namespace orrery {
namespace {

class Check {
 public:
  Check(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out)
      : plan_(plan), model_(model), workload_(workload), out_(out) {}

  void none() const {
    if (plan_.zigzag) {
      error("plan.zigzag", "zigzag-context", "zigzag needs a context axis",
            {"It deals chunks of the sequence to the ranks of the context axis, and context is 1.",
             "Set it to false, or context to 2 or more."});
    }
    if (plan_.inner_ring != 0) {
      error("plan.inner_ring", "inner-ring-context", "an inner ring needs a context axis",
            {"It is a part of the ring of the context axis, and context is 1.",
             "Leave inner_ring out, or set context to 4 or more."});
    }
    if (plan_.context != Plan{}.context) {
      error("plan.context", "context-axis", "context is set in [plan], but the mesh has no context axis",
            {fmt::format("context is \"{}\" in [plan] and 1 in [mesh].", name_of(plan_.context)),
             "Leave it out of [plan], or set context in [mesh] to 2 or more."});
    }
  }

  [[nodiscard]] bool lengths() const {
    const std::uint64_t s = workload_.sequence_length;
    if (s % c_ != 0) {
      error("mesh.context", "context-length", "the context size does not divide the sequence length",
            {fmt::format("sequence is {}, and {} / {} leaves {}.", s, s, c_, s % c_),
             nearest_divisors(s, c_, "context sizes")});
      return false;
    }
    if (plan_.zigzag && s % (2 * c_) != 0) {
      error("plan.zigzag", "zigzag-length",
            "the sequence cannot be cut into two equal chunks for each rank of the context axis",
            {fmt::format("sequence is {}, and {} / (2 x {}) leaves {}.", s, s, c_, s % (2 * c_)),
             "Set zigzag to false, or sequence to a multiple of " + std::to_string(2 * c_) + "."});
    }
    if (plan_.sequence_parallel && t_ > 1 && s % t_ == 0 && s / c_ % t_ != 0) {
      error("plan.sequence_parallel", "context-sequence-parallel",
            "the tensor size does not divide the positions of a rank of the context axis",
            {fmt::format("sequence {} / context {} is {}, and {} / {} leaves {}.", s, c_, s / c_, s / c_, t_,
                         s / c_ % t_),
             nearest_divisors(std::gcd(std::gcd(s / c_, model_.kv_heads), std::gcd(model_.heads, model_.ffn)), t_,
                              "tensor sizes")});
    }
    return true;
  }

  /// Zigzag makes the work of a causal mask equal, so it is of no use where the work is equal already.
  void zigzag() const {
    if (!plan_.zigzag) return;
    const std::string name = model_.name.empty() ? "the model" : model_.name;
    if (!is_causal(model_)) {
      error("plan.zigzag", "zigzag-bidirectional", "zigzag is of no use without a causal mask",
            {fmt::format("Every position of {} sees all others, so that all ranks have the same work.", name),
             "Set zigzag to false."});
    } else if (plan_.context == ContextAlgorithm::ulysses) {
      error("plan.zigzag", "zigzag-ulysses", "zigzag is of no use with ulysses",
            {"Each rank sees the whole sequence, so that a causal mask gives all of them the same work.",
             "Set zigzag to false, or context to ring or all_gather."});
    } else if (plan_.context == ContextAlgorithm::ring_self_attention) {
      error("plan.zigzag", "zigzag-scores", "zigzag is of no use with ring_self_attention",
            {"Each rank makes the scores of its queries with all keys, masked or not.",
             "Set zigzag to false, or context to ring or all_gather."});
    }
  }

  void inner_ring() const {
    const std::uint32_t w = plan_.inner_ring;
    if (w == 0) return;
    if (plan_.context != ContextAlgorithm::ring) {
      error(
          "plan.inner_ring", "inner-ring-algorithm", "only a ring has inner rings",
          {fmt::format("context is \"{}\".", name_of(plan_.context)), "Leave inner_ring out, or set context to ring."});
      return;
    }
    if (w > 1 && w < c_ && c_ % w == 0) return;
    std::string valid;
    for (std::uint64_t n = 2; n < c_; ++n) {
      if (c_ % n == 0) valid += (valid.empty() ? "" : ", ") + std::to_string(n);
    }
    error("plan.inner_ring", "inner-ring-size", "inner_ring must divide context, and be above 1 and below context",
          {fmt::format("inner_ring is {}, and context is {}.", w, c_),
           valid.empty() ? "Context has no such divisor: leave inner_ring out."
                         : fmt::format("Valid inner rings: {}.", valid)});
  }

  /// What some algorithms do not have of a model's attention.
  void layer_kinds() const {
    const std::string name = model_.name.empty() ? "The model" : model_.name;
    const auto lacks = [&](const char* algorithm, const char* what, std::string because, const char* instead) {
      error("plan.context", "context-layer-kinds", fmt::format("{} does not have {}", algorithm, what),
            {std::move(because), fmt::format("Set context to {}.", instead)});
    };
    if (plan_.context == ContextAlgorithm::ulysses && model_.sinks) {
      lacks(
          "ulysses", "attention sinks",
          fmt::format("{} has a sink for each head, and ulysses moves heads between ranks without their sinks.", name),
          "ring or all_gather");
    }
    if (plan_.context != ContextAlgorithm::ring_self_attention) return;
    if (model_.sinks) {
      lacks("ring self-attention", "attention sinks", fmt::format("{} has a sink for each head.", name),
            "ring or all_gather");
    }
    if (model_.attention_softcap > 0.0) {
      lacks(
          "ring self-attention", "a cap of attention scores",
          fmt::format("{} caps them at {}. The derivative of a cap needs the scores, and only probabilities are kept.",
                      name, model_.attention_softcap),
          "ring, all_gather or ulysses");
    }
    if (model_.local && model_.local->size < workload_.sequence_length) {
      lacks("ring self-attention", "local attention",
            fmt::format("Queries of {} see {} positions of {} in some layers; it multiplies all pairs of query and "
                        "key.",
                        name, model_.local->size, workload_.sequence_length),
            "ring, all_gather or ulysses");
    }
  }

  void algorithm() const {
    switch (plan_.context) {
      case ContextAlgorithm::all_gather: flash(); break;
      case ContextAlgorithm::ring:
        ring_size();
        flash();
        break;
      case ContextAlgorithm::ring_self_attention:
        ring_size();
        if (recomputes_scores(plan_)) {
          error("plan.recompute", "context-recompute", "selective recomputation needs attention to be one kernel",
                {"Ring self-attention makes its scores with many kernels, and the keys would have to go around the "
                 "ring again.",
                 "Set recompute to none or full, or context to ulysses."});
        }
        if (plan_.attention == AttentionKernel::flash) {
          error("plan.attention", "context-scores", "ring self-attention cannot use the flash kernel",
                {"It keeps the scores of a whole row until the values come; the flash kernel keeps none.",
                 "Set attention to unfused, or context to ring."});
        }
        break;
      case ContextAlgorithm::ulysses: ulysses(); break;
    }
  }

 private:
  void error(const char* key, const char* code, std::string message, std::vector<std::string> details) const {
    out_.error(plan_.origin, key, std::string("plan.") + code, std::move(message), std::move(details));
  }

  void ring_size() const {
    if (c_ <= ring_limit) return;
    error("mesh.context", "context-ring", "the ring has too many ranks",
          {fmt::format("context is {}; at most {} are handled.", c_, ring_limit),
           fmt::format("Set context to {} or less in [mesh], or to all_gather in [plan].", ring_limit)});
  }

  void flash() const {
    if (plan_.attention == AttentionKernel::unfused) {
      error("plan.attention", "context-attention", "this context algorithm needs the flash kernel",
            {fmt::format("context is \"{}\": local queries meet keys from other ranks.", name_of(plan_.context)),
             "Set attention to flash, or context to ulysses or ring_self_attention."});
    }
    if (!plan_.attention && recomputes_scores(plan_)) {
      error("plan.recompute", "context-recompute", "selective recomputation has nothing to recompute",
            {fmt::format("It drops the attention scores, and \"{}\" needs the flash kernel, which keeps none.",
                         name_of(plan_.context)),
             "Set recompute to none, or context to ulysses."});
    }
  }

  void ulysses() const {
    // Heads that the tensor size, or the side of a grid, leaves to a rank; another rule reports where it does not
    // divide them.
    const bool grid = plan_.tensor != TensorAlgorithm::one_d;
    const std::uint64_t parts = grid ? plan_.mesh.size(Axis::column) : t_;
    if (!shares_out_heads(model_, parts) || shares_out_heads(model_, parts * c_)) return;
    const std::uint64_t queries = model_.heads / parts, keys = held_kv_heads(model_, parts) / parts;
    const char* axis = grid ? "column" : "tensor";
    if (queries % c_ != 0) {
      error("mesh.context", "ulysses-heads", "the context size does not divide the query heads of a rank",
            {fmt::format("heads {} / {} {} is {}, and {} / {} leaves {}.", model_.heads, axis, parts, queries, queries,
                         c_, queries % c_),
             "Ulysses cuts heads over the context axis.", nearest_shares(parts)});
      return;
    }
    error("mesh.context", "ulysses-kv-heads",
          "the context size neither divides the key-value heads of a rank nor is a multiple of them",
          {fmt::format("kv_heads {0} / {1} {2} is {3}; {3} / {4} leaves {5}, and {4} / {3} leaves {6}.",
                       model_.kv_heads, axis, parts, keys, c_, keys % c_, c_ % keys),
           "Ulysses cuts heads over the context axis, or gives as many ranks as the others a copy of one.",
           nearest_shares(parts)});
  }

  /// Context sizes that share out the heads that `parts` leave to a rank.
  [[nodiscard]] std::string nearest_shares(std::uint64_t parts) const {
    const std::uint64_t most = model_.heads / parts;
    std::uint64_t below = std::min(c_ - 1, most), above = c_ + 1;
    while (below > 1 && !shares_out_heads(model_, parts * below)) --below;
    while (above <= most && !shares_out_heads(model_, parts * above)) ++above;
    return above <= most ? fmt::format("Nearest valid context sizes: {}, {}.", below, above)
                         : fmt::format("Nearest valid context sizes: {}.", below);
  }

  const Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  Diagnostics& out_;
  std::uint64_t c_ = plan_.mesh.size(Axis::context);
  std::uint64_t t_ = plan_.mesh.size(Axis::tensor);
};

}  // namespace

void check_context(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const Check check(plan, model, workload, out);
  if (plan.mesh.size(Axis::context) == 1) return check.none();
  if (!check.lengths()) return;
  check.zigzag();
  check.inner_ring();
  check.layer_kinds();
  check.algorithm();
}

}  // namespace orrery
