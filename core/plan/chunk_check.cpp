#include "core/plan/chunk_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/plan/check_context.hpp"

namespace orrery {

std::uint64_t largest_layer_tensor(const Plan& plan, const ModelSpec& m) {
  const std::uint64_t t = plan.mesh.size(Axis::tensor);
  const std::uint64_t up = (m.activation == Activation::swiglu ? 2 : 1) * m.hidden * (m.ffn / t);
  const std::uint64_t out = m.heads / t * value_width(m) * m.hidden;
  std::uint64_t most = std::max(up, out);
  if (!m.latent) return std::max(most, m.hidden * (m.kv_heads / t) * (m.heads / m.kv_heads + 2) * m.head_dim);
  const LatentAttention& l = *m.latent;
  most = std::max(most, (l.query_rank > 0 ? l.query_rank : m.hidden) * (m.heads / t) * key_width(m));
  most = std::max(most, l.kv_rank * (m.heads / t) * (m.head_dim + l.value_dim));
  return std::max({most, m.hidden * l.query_rank, m.hidden * l.kv_rank, m.hidden * l.rope_dim});
}

namespace {

void check_size(const CheckContext& c) {
  const double bytes = c.plan.parameter_chunk->base();
  const std::uint64_t element = size_of(weight_dtype(c.workload));
  // Every rank's part is whole elements.
  const std::uint64_t sharing = size(c.plan.mesh, shard_axes_of(c.plan));
  const std::uint64_t unit = element * sharing;
  const std::uint64_t least = largest_layer_tensor(c.plan, c.model) * element;
  const std::uint64_t smallest = (least + unit - 1) / unit * unit;
  if (bytes < static_cast<double>(least)) {
    c.error("plan.parameter_chunk", "chunk-tensor", "a parameter tensor does not fit into a chunk",
            {fmt::format("The largest of a layer takes {} bytes of a rank; parameter_chunk is {}.", least,
                         exact_text(*c.plan.parameter_chunk)),
             fmt::format("Nearest valid: \"{} B\".", smallest)});
    return;
  }
  const double units = bytes / static_cast<double>(unit);
  if (bytes > 0x1p53 || units != static_cast<double>(static_cast<std::uint64_t>(units))) {
    const auto below = static_cast<std::uint64_t>(std::min(bytes, 0x1p53)) / unit * unit;
    c.error("plan.parameter_chunk", "chunk-parts", "a chunk is not cut into equal parts of whole parameters",
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
    c.error(key, "chunk-zero", "chunks are of weights that are gathered, and none are",
            {fmt::format("zero_stage is {}, and {} share weights.", plan.zero_stage,
                         shard_axes_of(plan).empty() ? "no ranks" : "ranks"),
             "Set zero_stage to 3 with data or context of 2 or more, or leave out parameter_chunk."});
    return;
  }
  if (model.mixture) {
    c.error(key, "chunk-mixture", "layers of experts are not packed into chunks",
            {"Experts may be cut over an axis of their own, along which no message joins them with the rest.",
             "Leave out parameter_chunk."});
    return;
  }
  if (!plan.reshard_after_forward) {
    c.error(key, "chunk-kept", "weights that are kept leave their memory to no gradients",
            {"reshard_after_forward is false.", "Set reshard_after_forward to true, or leave out parameter_chunk."});
  }
  if (gradient_dtype(workload) != weight_dtype(workload)) {
    const std::string_view weights = name_of(weight_dtype(workload)), gradients = name_of(gradient_dtype(workload));
    c.error(key, "chunk-gradients", "gradients take over the memory of weights of their own type alone",
            {fmt::format("Weights are {}, and gradients {}.", weights, gradients),
             fmt::format("Set gradient_dtype to {} in [workload], or leave out parameter_chunk.", weights)});
  }
  if (plan.parameter_chunk) check_size(c);
}

}  // namespace orrery
