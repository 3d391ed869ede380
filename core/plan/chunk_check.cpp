#include "core/plan/chunk_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/plan/check_context.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"

namespace orrery {

std::uint64_t largest_layer_tensor(const Plan& plan, const ModelSpec& m) {
  const bool grid = plan.tensor != TensorAlgorithm::one_d;
  const std::uint64_t side = plan.mesh.size(Axis::row);
  // t ranks share heads. A grid cuts every matrix into `blocks` blocks; in 2.5D the layers of depth hold the same ones.
  const std::uint64_t t = grid ? side : plan.mesh.size(Axis::tensor);
  const std::uint64_t blocks = !grid ? t : side * side * (plan.tensor == TensorAlgorithm::three_d ? side : 1);
  const std::uint64_t up = is_gated(m.activation) ? 2 : 1;
  const std::uint64_t features = grid ? m.hidden / side : m.hidden;
  std::uint64_t widest = m.heads * value_width(m);
  if (!m.mixture || mixes_kinds(m)) widest = std::max(widest, up * m.ffn);
  if (!m.latent) widest = std::max(widest, m.kv_heads * (m.heads / m.kv_heads + 2) * m.head_dim);
  if (m.latent && m.latent->query_rank == 0) widest = std::max(widest, m.heads * key_width(m));
  std::uint64_t most = m.hidden * widest / blocks;
  if (m.mixture) {
    const Mixture& x = *m.mixture;
    const std::uint64_t width = folds_tensor(plan) ? x.ffn : x.ffn / t;
    most = std::max(most, x.experts / size(plan.mesh, expert_axes(plan)) * up * m.hidden * width);
    most = std::max({most, up * m.hidden * (x.shared_ffn / t), features * x.experts});
  }
  if (!m.latent) return most;
  const LatentAttention& l = *m.latent;
  return std::max({most, l.query_rank * (m.heads / t) * key_width(m),
                   l.kv_rank * (m.heads / t) * (m.head_dim + l.value_dim), features * l.query_rank,
                   features * l.kv_rank, features * l.rope_dim});
}

namespace {

void check_size(const CheckContext& c) {
  const double bytes = c.plan.parameter_chunk->base();
  const std::uint64_t element = size_of(weight_dtype(c.workload));
  // Every rank's part is a whole number of elements.
  const std::uint64_t sharing = size(c.plan.mesh, shard_axes_of(c.plan));
  const std::uint64_t unit = element * sharing;
  const std::uint64_t least = largest_layer_tensor(c.plan, c.model) * element;
  const std::uint64_t smallest = (least + unit - 1) / unit * unit;
  if (bytes < static_cast<double>(least)) {
    c.error("plan.parameter_chunk", "chunk-tensor", "a parameter tensor does not fit into a chunk",
            {fmt::format("The largest tensor of a layer takes {} bytes on a rank; parameter_chunk is {}.", least,
                         exact_text(*c.plan.parameter_chunk)),
             fmt::format("Nearest valid: \"{} B\".", smallest)});
    return;
  }
  const double units = bytes / static_cast<double>(unit);
  if (bytes > 0x1p53 || units != static_cast<double>(static_cast<std::uint64_t>(units))) {
    const auto below = static_cast<std::uint64_t>(std::min(bytes, 0x1p53)) / unit * unit;
    c.error("plan.parameter_chunk", "chunk-parts", "a chunk does not divide into equal parts of whole parameters",
            {fmt::format("{} ranks share it, a weight takes {} bytes, and parameter_chunk is {}.", sharing, element,
                         exact_text(*c.plan.parameter_chunk)),
             fmt::format("Nearest valid: \"{} B\".", std::max(below, smallest))});
  }
}

}  // namespace

void check_parameter_chunk(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const CheckContext c{plan, model, workload, out};
  const std::string key = "plan.parameter_chunk";
  if (plan.parameter_chunk == Bytes()) return;
  if (plan.zero_stage != 3 || shard_axes_of(plan).empty()) {
    c.error(key, "chunk-zero", "parameter_chunk is set, but no weights are gathered",
            {fmt::format("zero_stage is {}, and {} share weights.", plan.zero_stage,
                         shard_axes_of(plan).empty() ? "no ranks" : "ranks"),
             "Set zero_stage to 3 with data or context of 2 or more, or leave out parameter_chunk."});
    return;
  }
  if (!plan.reshard_after_forward) {
    c.error(key, "chunk-kept", "weights that stay after the forward pass leave no memory for gradients",
            {"reshard_after_forward is false.", "Set reshard_after_forward to true, or leave out parameter_chunk."});
  }
  if (splits_backward(plan)) {
    c.error(
        key, "chunk-split", "a split backward pass frees weights before their gradients are made",
        {fmt::format("schedule is {}; in chunks, gradients take over the memory of weights.", name_of(plan.schedule)),
         "Take a schedule that keeps the backward pass whole, such as 1f1b or interleaved, or leave out "
         "parameter_chunk."});
  }
  if (gradient_dtype(workload) != weight_dtype(workload)) {
    const std::string_view weights = name_of(weight_dtype(workload)), gradients = name_of(gradient_dtype(workload));
    c.error(key, "chunk-gradients", "gradients can take over the memory of weights only if both have the same type",
            {fmt::format("Weights are {}, and gradients {}.", weights, gradients),
             fmt::format("Set gradient_dtype to {} in [workload], or leave out parameter_chunk.", weights)});
  }
  if (plan.parameter_chunk) check_size(c);
}

}  // namespace orrery
