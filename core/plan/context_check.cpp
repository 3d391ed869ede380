#include "core/plan/context_check.hpp"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

/// The kernels count places along the ring in 8 bits.
constexpr std::uint64_t ring_limit = 256;

}  // namespace

void check_context(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const std::uint64_t c = plan.mesh.size(Axis::context);
  const std::uint64_t t = plan.mesh.size(Axis::tensor);
  const std::uint64_t s = workload.sequence_length;
  const auto error = [&](const char* key, const char* code, const char* message, std::vector<std::string> details) {
    out.error(plan.origin, key, std::string("plan.") + code, message, std::move(details));
  };
  if (c == 1) {
    if (plan.zigzag) {
      error("plan.zigzag", "zigzag-context", "zigzag needs a context axis",
            {"It deals chunks of the sequence to the ranks of the context axis, and context is 1.",
             "Set it to false, or context to 2 or more."});
    }
    if (plan.context != Plan{}.context) {
      error("plan.context", "context-axis", "the plan says how to cut attention over the context axis, and has none",
            {fmt::format("context is \"{}\" in [plan] and 1 in [mesh].", name_of(plan.context)),
             "Leave it out of [plan], or set context in [mesh] to 2 or more."});
    }
    return;
  }
  if (s % c != 0) {
    error("mesh.context", "context-length", "the context size does not divide the sequence length",
          {fmt::format("sequence is {}, and {} / {} leaves {}.", s, s, c, s % c),
           nearest_divisors(s, c, "context sizes")});
    return;
  }
  if (plan.zigzag && s % (2 * c) != 0) {
    error("plan.zigzag", "zigzag-length", "the sequence has no two equal chunks for each rank of the context axis",
          {fmt::format("sequence is {}, and {} / (2 x {}) leaves {}.", s, s, c, s % (2 * c)),
           "Set zigzag to false, or sequence to a multiple of " + std::to_string(2 * c) + "."});
  }
  if (plan.sequence_parallel && t > 1 && s % t == 0 && s / c % t != 0) {
    error("plan.sequence_parallel", "context-sequence-parallel",
          "the tensor size does not divide the positions of a rank of the context axis",
          {fmt::format("sequence {} / context {} is {}, and {} / {} leaves {}.", s, c, s / c, s / c, t, s / c % t),
           nearest_divisors(std::gcd(std::gcd(s / c, model.kv_heads), std::gcd(model.heads, model.ffn)), t,
                            "tensor sizes")});
  }
  switch (plan.context) {
    case ContextAlgorithm::all_gather:
    case ContextAlgorithm::ring:
      if (plan.context == ContextAlgorithm::ring && c > ring_limit) {
        error("mesh.context", "context-ring", "the ring has too many ranks",
              {fmt::format("context is {}; at most {} are handled.", c, ring_limit),
               fmt::format("Set context to {} or less in [mesh], or to all_gather in [plan].", ring_limit)});
      }
      if (plan.attention == AttentionKernel::unfused) {
        error("plan.attention", "context-attention", "this way to cut attention needs the flash kernel",
              {fmt::format("context is \"{}\": local queries meet keys from other ranks.", name_of(plan.context)),
               "Set attention to flash, or context to ulysses."});
      }
      if (!plan.attention && plan.recompute == Recompute::selective) {
        error("plan.recompute", "context-recompute", "selective recomputation has nothing to recompute",
              {fmt::format("It drops the attention scores, and \"{}\" needs the flash kernel, which keeps none.",
                           name_of(plan.context)),
               "Set recompute to none, or context to ulysses."});
      }
      if (plan.attention != AttentionKernel::flash && workload.attention_dropout > 0.0) {
        error("plan.context", "context-dropout", "this way to cut attention has no attention dropout",
              {fmt::format("attention_dropout is {}, and \"{}\" needs the flash kernel, which has none.",
                           workload.attention_dropout, name_of(plan.context)),
               "Set context to ulysses, or attention_dropout to 0."});
      }
      break;
    case ContextAlgorithm::ulysses:
      if (plan.zigzag) {
        error("plan.zigzag", "zigzag-ulysses", "zigzag is of no use with ulysses",
              {"Each rank sees the whole sequence, so that a causal mask gives all of them the same work.",
               "Set zigzag to false, or context to ring or all_gather."});
      }
      // What the tensor size leaves of the key-value heads; its own rule says when it does not divide them.
      if (model.kv_heads % t == 0 && model.kv_heads / t % c != 0) {
        const std::uint64_t heads = model.kv_heads / t;
        error("mesh.context", "ulysses-kv-heads", "the context size does not divide the key-value heads of a rank",
              {fmt::format("kv_heads {} / tensor {} is {}, and {} / {} leaves {}.", model.kv_heads, t, heads, heads, c,
                           heads % c),
               "Ulysses cuts heads over the context axis; copies of key-value heads are not made.",
               nearest_divisors(heads, c, "context sizes")});
      }
      break;
    case ContextAlgorithm::ring_self_attention:
      error("plan.context", "context-algorithm", "this way to cut attention is not supported",
            {"Nearest valid: ring, all_gather, ulysses."});
      break;
  }
}

}  // namespace orrery
