#include "core/record/rates.hpp"

#include <fmt/format.h>

#include "core/program/sight.hpp"
#include "core/record/device_room.hpp"
#include "core/record/tier_memory.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery {

namespace {

double real(std::uint64_t v) { return static_cast<double>(v); }

/// FLOPs of one token's forward pass through a mixture: its experts, shared experts, the router and the gate.
double mixture_flops(const ModelSpec& m) {
  const Mixture& x = *m.mixture;
  const double matrices = is_gated(m.activation) ? 3.0 : 2.0;
  const double width = real(x.per_token) * real(x.ffn) + real(x.shared_ffn);
  return 2.0 * real(m.hidden) * (matrices * width + real(x.experts) + (x.shared_gate ? 1.0 : 0.0));
}

/// Keys that a query of the layer meets in the mean over positions, by the convention of reports: all of the sequence,
/// or those that a window or chunks leave.
double mean_keys(const ModelSpec& m, const Workload& w, std::uint64_t layer) {
  const auto s = static_cast<double>(w.sequence_length);
  if (!is_local(m, layer) || m.local->size >= w.sequence_length) return s;
  const Sight sight{true, m.local->span == LocalAttention::Span::chunk, m.local->size};
  return static_cast<double>(seen_pairs(sight, w.sequence_length)) / s;
}

}  // namespace

double model_flops(const ModelSpec& m, const Workload& w) {
  const double tokens = real(w.global_batch) * real(w.sequence_length);
  double projections = 2.0 * real(m.hidden) * real(m.head_dim) * (2.0 * real(m.heads) + 2.0 * real(m.kv_heads));
  if (m.latent) {
    const LatentAttention& l = *m.latent;
    const double query = real(m.heads * key_width(m));
    const double queries = l.query_rank > 0 ? real(l.query_rank) * (real(m.hidden) + query) : real(m.hidden) * query;
    projections = 2.0 * (queries + real(m.hidden * (l.kv_rank + l.rope_dim)) +
                         real(l.kv_rank * m.heads) * real(m.head_dim + l.value_dim) +
                         real(m.heads * l.value_dim) * real(m.hidden));
  }
  const double matrices = is_gated(m.activation) ? 3.0 : 2.0;
  const double dense = 2.0 * matrices * real(m.hidden) * real(m.ffn);
  double feed_forward = real(m.layers) * dense;
  if (m.mixture) {
    const double mixtures = real(mixture_count(m));
    feed_forward = (real(m.layers) - mixtures) * dense + mixtures * mixture_flops(m);
  }
  const double core = 2.0 * real(m.heads) * real(key_width(m) + value_width(m));  // per key that a query meets
  const double head = 2.0 * real(m.hidden) * real(m.vocabulary);
  double keys = 0.0;  // that queries of all layers meet, mean over positions
  for (std::uint64_t l = 0; l < m.layers; ++l) keys += mean_keys(m, w, l);
  if (w.adapters) {  // of dense decoders
    const double products = real(m.layers) * projections + feed_forward + head;
    return tokens * (2.0 * products + 3.0 * keys * core + 6.0 * real(adapter_parameter_count(m, *w.adapters)));
  }
  double layers = 3.0 * tokens * (real(m.layers) * projections + keys * core + feed_forward);
  if (m.prediction_modules > 0) {
    double one = dense;
    if (is_mixture(m, m.layers)) {
      one = mixture_flops(m);
    }
    const double joined = 2.0 * 2.0 * real(m.hidden) * real(m.hidden);
    layers += 3.0 * tokens * real(m.prediction_modules) *
              (joined + projections + mean_keys(m, w, m.layers) * core + one + head);
  }
  const double sequences = real(w.global_batch);
  switch (m.architecture) {
    case Architecture::decoder: return layers + 3.0 * tokens * head;
    case Architecture::bert: return layers + 3.0 * tokens * (head + 2.0 * real(m.hidden) * real(m.hidden));
    case Architecture::vit:  // nobody asks for the gradient of the pixels
      return layers + 3.0 * sequences * head * (m.image->pool == Image::Pool::class_and_mean ? 2.0 : 1.0) +
             2.0 * sequences * 2.0 * real(patch_count(*m.image) * patch_width(*m.image)) * real(m.hidden);
  }
  return layers;
}

double program_flops(const Program& program) {
  std::vector<std::uint64_t> runs(program.blocks.size(), 0);
  for (const RankClass& ranks : program.classes) {
    for (const Slot& slot : ranks.step) runs[index(slot.block)] += slot.repeat;
  }
  return program_flops(program, runs);
}

double program_flops(const Program& program, const std::vector<std::uint64_t>& block_runs) {
  double flops = 0.0;
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    if (block_runs[b] == 0) continue;
    const Block& block = program.blocks[b];
    double once = 0.0;
    for (const Op& op : block.ops) {
      if (const auto* compute = std::get_if<Compute>(&op.action))
        once += flops_of(block.kernels[compute->kernel]).counted;
    }
    flops += once * static_cast<double>(block_runs[b]);
  }
  return program.classes.empty()
             ? 0.0
             : flops * (static_cast<double>(program.mesh.size()) / static_cast<double>(program.classes.size()));
}

void add_rates(Report& report, const PlannedRun& run, const Program& program, double executed_flops) {
  report.plan = run.plan.name;
  report.gpus = program.mesh.size();
  const double gpus = static_cast<double>(report.gpus);
  const double step = report.step_time.base();
  const double tokens =
      static_cast<double>(run.workload.global_batch) * static_cast<double>(run.workload.sequence_length);
  report.tokens_per_s = step > 0.0 ? tokens / step : 0.0;
  report.tokens_per_s_per_gpu = report.tokens_per_s / gpus;
  report.flop_convention = "full attention and head counted, 2 per multiply-add, dense peak of the compute precision";
  if (run.workload.adapters) report.flop_convention += "; 4 per token and frozen weight (LoRA)";
  add_tier_memory(report, run, program);
  if (!run.cluster) return;
  const ClusterSpec& cluster = *run.cluster;
  const std::optional<FlopRate> peak = total_peak(cluster, run.workload.precision, report.gpus);
  if (peak && peak->base() > 0.0 && step > 0.0) {
    const double available = step * peak->base();
    report.model_flops_utilization = model_flops(run.model, run.workload) / available;
    report.hardware_flops_utilization = executed_flops / available;
  }
  add_device_room(report, run, program);
  if (cluster.price_per_gpu_hour) {
    report.cost_per_step = *cluster.price_per_gpu_hour * gpus * step / 3600.0;
    report.cost_currency = cluster.price_currency;
    report.assumptions.push_back(fmt::format("price: {} {} per GPU-hour{}", *cluster.price_per_gpu_hour,
                                             cluster.price_currency,
                                             cluster.price_source.empty() ? "" : ", " + cluster.price_source));
  }
}

}  // namespace orrery
