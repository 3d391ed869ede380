#include "serve/step_work.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/program/sight.hpp"
#include "sim/cost/memory_cost.hpp"

namespace orrery {
namespace {

double real(std::uint64_t n) { return static_cast<double>(n); }
std::uint64_t whole(double n) { return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(n))); }

DeviceSpec with_four_bits(DeviceSpec d) {
  const auto fp8 = d.peak.find(Precision::fp8);
  if (fp8 != d.peak.end()) fp8->second = 2.0 * fp8->second;
  return d;
}

/// Launches are among what an engine adds to a layer.
Calibration without_launch(Calibration c) {
  c.launch = Seconds{};
  return c;
}

GroupShape first_devices(std::uint32_t count, const ClusterSpec& c) {
  std::vector<std::uint32_t> devices(count);
  std::iota(devices.begin(), devices.end(), 0U);
  return group_shape(devices, c);
}

}  // namespace

StepPricer::StepPricer(const ModelSpec& model, const ServingPlan& plan, const ClusterSpec& cluster,
                       const Calibration& calibration)
    : model_(model),
      plan_(plan),
      device_(cluster.device),
      wide_(cluster.device, without_launch(calibration)),
      four_(with_four_bits(cluster.device), without_launch(calibration)),
      links_(cluster, calibration),
      stage_(first_devices(plan.stage_devices(), cluster)),
      tensor_(first_devices(plan.tensor, cluster)),
      next_level_(plan.pipeline > 1 ? level_between(0, plan.stage_devices(), cluster) : 0),
      memory_efficiency_(calibration.memory_efficiency),
      stage_share_(std::ceil(real(model.layers) / plan.pipeline) / real(model.layers)) {}

const KernelCost& StepPricer::costs(const ProductRate& rate) const { return rate.over > 1.0 ? four_ : wide_; }

Seconds StepPricer::moved(double bytes) const {
  return memory_time(Bytes::of(bytes), device_.memory_bandwidth, memory_efficiency_);
}

Seconds StepPricer::product(const ProductRate& rate, double rows, double columns, double depth, double batch) const {
  Seconds best = Seconds::of(std::numeric_limits<double>::infinity());
  for (const std::uint64_t parts : {1U, 2U, 4U, 8U, 16U}) {
    if (depth / real(parts) < 128.0 && parts > 1) break;
    GemmShape s;
    s.rows = whole(rows);
    s.columns = whole(columns);
    s.depth = whole(depth / real(parts));
    s.batch = whole(batch) * parts;
    best = std::min(best, costs(rate).gemm(s, rate.compute, Bytes{}));
  }
  return best;
}

void StepPricer::matrix(std::vector<ServingOp>& ops, StepPart part, const char* name, WeightFormat format, double count,
                        double rows, double columns, double depth) const {
  if (rows <= 0.0) return;
  const ProductRate rate = product_rate(format, device_);
  const double bytes = columns * depth * bytes_of(format) + 2.0 * rows * (columns + depth);
  ops.push_back({part, name, rate.unpacked, count * product(rate, rows, columns, depth, 1.0), count * moved(bytes)});
}

void StepPricer::experts(std::vector<ServingOp>& ops, double tokens) const {
  const Mixture& x = *model_.mixture;
  const double all = tokens * plan_.attention_data;
  const double here = real(x.experts) / plan_.expert;
  const double missed = std::pow(1.0 - real(x.per_token) / real(x.experts), all);
  const double read = std::max(here * (1.0 - missed), std::min(here, real(x.per_token) / plan_.expert));
  const double rows = all * real(x.per_token) / plan_.expert / std::max(read, 1e-9);
  const double width = real(x.ffn) / (plan_.stage_devices() / plan_.expert);
  const double gated = is_gated(model_.activation) ? 2.0 : 1.0;
  const double h = real(model_.hidden);
  const double layers = real(mixture_count(model_)) * stage_share_;
  const ProductRate rate = product_rate(plan_.experts, device_);
  // Experts that share a kernel fill the device together, so a part of an expert is a whole number of tiles.
  const double batch = std::max(1.0, read);
  const auto one = [&](const char* name, double columns, double depth) {
    const double bytes = read * columns * depth * bytes_of(plan_.experts) + 2.0 * rows * read * (columns + depth);
    ops.push_back({StepPart::expert, name, rate.unpacked, layers * product(rate, rows, columns, depth, batch),
                   layers * moved(bytes)});
  };
  one("experts in", gated * width, h);
  one("experts out", h, width);
  matrix(ops, StepPart::dense, "router", WeightFormat::bf16, layers, tokens, real(x.experts), h);
  if (x.shared_ffn > 0) {
    matrix(ops, StepPart::dense, "shared experts in", plan_.weights, layers, tokens,
           gated * real(x.shared_ffn) / plan_.tensor, h);
    matrix(ops, StepPart::dense, "shared experts out", plan_.weights, layers, tokens, h,
           real(x.shared_ffn) / plan_.tensor);
  }
}

Seconds StepPricer::prompt_attention(double keys, std::uint64_t window, bool chunked) const {
  if (keys < 1.0) return {};
  Kernel k;
  k.kind = KernelKind::attention_flash_forward;
  k.compute = DType::bf16;
  k.options.causal = true;
  k.options.chunked = chunked;
  k.batch = 1;
  k.rows = whole(keys);
  k.heads = static_cast<std::uint32_t>(model_.heads / plan_.tensor);
  k.kv_heads = k.heads;
  k.head_dim = static_cast<std::uint32_t>(key_width(model_));
  k.value_dim = static_cast<std::uint32_t>(value_width(model_));
  k.window = window;
  return wide_.attention(k, Bytes{});
}

void StepPricer::attention(std::vector<ServingOp>& ops, const StepShape& s) const {
  const double b = plan_.kv_fp8 ? 1.0 : 2.0;
  const double heads = real(model_.heads) / plan_.tensor;
  double read = 0.0;  // keys of a sequence over the layers of the stage
  double local = 0.0;
  for (std::uint64_t l = 0; l < model_.layers; ++l) {
    const bool near = model_.local && is_local(model_, l);
    read += near ? std::min(s.keys, real(model_.local->size)) : s.keys;
    local += near ? 1.0 : 0.0;
  }
  read *= stage_share_ * s.sequences;
  const double wide = model_.latent ? real(model_.latent->kv_rank + model_.latent->rope_dim)
                                    : 2.0 * std::max(1.0, real(model_.kv_heads) / plan_.tensor) * real(model_.head_dim);
  const double met =
      model_.latent ? real(2 * model_.latent->kv_rank + model_.latent->rope_dim) : 2.0 * real(model_.head_dim);
  if (s.sequences > 0.0) {
    const FlopRate peak =
        device_.peak.contains(Precision::bf16) ? device_.peak.at(Precision::bf16) : device_.peak.begin()->second;
    ops.push_back({StepPart::keys, "keys and values", false, Flops::of(2.0 * read * s.each * heads * met) / peak,
                   moved(read * wide * b)});
  }
  if (s.chunk <= 0.0) return;
  // The chunk's queries see what earlier steps computed, too.
  const auto of_chunk = [&](std::uint64_t window, bool chunked) {
    const double each = s.chunk / std::max(1.0, s.prompts);
    return std::max(1.0, s.prompts) *
           (prompt_attention(s.before + each, window, chunked) - prompt_attention(s.before, window, chunked));
  };
  const double globals = real(model_.layers) - local;
  Seconds products = stage_share_ * globals * of_chunk(0, false);
  if (local > 0.0) {
    products += stage_share_ * local * of_chunk(model_.local->size, model_.local->span == LocalAttention::Span::chunk);
  }
  const double near = model_.local ? std::min(s.before, real(model_.local->size)) : 0.0;
  ops.push_back({StepPart::prompt_attention, "attention of prompts", false, products,
                 moved(std::max(1.0, s.prompts) * (globals * s.before + local * near) * stage_share_ * wide * b)});
}

void StepPricer::communication(StepWork& w, double tokens) const {
  const double h = real(model_.hidden);
  const Bytes own = Bytes::of(2.0 * tokens * h);
  // Moving bytes alone: an engine's own kernels have less latency than NCCL on devices that NVLink joins. Over several
  // levels it is NCCL's whole time, and the engine's latency is not added.
  const auto bytes_of_one = [&](Collective::Kind kind, Bytes payload, const GroupShape& group) {
    if (group.members < 2) return Seconds{};
    const Seconds least = links_.choose(kind, Bytes::of(16.0), group).time;
    const Seconds all = links_.choose(kind, payload, group).time;
    return group.levels > 1 ? all : std::max(Seconds{}, all - least);
  };
  const double mixtures = w.mixtures;
  if (plan_.tensor > 1) {
    const double sums = 2.0 * w.layers - (plan_.attention_data > 1 ? mixtures : 0.0);
    if (tensor_.levels == 1) w.collectives += sums;
    w.collective_bytes += sums * bytes_of_one(Collective::Kind::all_reduce, own, tensor_);
  }
  if (plan_.attention_data > 1 && mixtures > 0.0) {
    // Tokens of all groups go to the experts and come back.
    const Bytes all = static_cast<double>(plan_.attention_data) * own;
    if (stage_.levels == 1) w.collectives += 2.0 * mixtures;
    w.collective_bytes += mixtures * (bytes_of_one(Collective::Kind::all_gather, all, stage_) +
                                      bytes_of_one(Collective::Kind::reduce_scatter, all, stage_));
  }
  if (plan_.pipeline > 1) w.hop = links_.message(own, next_level_);
}

StepWork StepPricer::work(const StepShape& s) const {
  StepWork w;
  const double tokens = s.sequences * s.each + s.chunk;
  const double h = real(model_.hidden);
  const double tp = plan_.tensor;
  w.layers = real(model_.layers) * stage_share_;
  w.mixtures = model_.mixture ? real(mixture_count(model_)) * stage_share_ : 0.0;
  w.stages = plan_.pipeline;
  w.sequences = s.sequences;
  const double heads = real(model_.heads) / tp;
  if (model_.latent) {
    const LatentAttention& l = *model_.latent;
    const double queries = heads * real(model_.head_dim + l.rope_dim);
    const double narrow = real(l.kv_rank + l.rope_dim);
    if (l.query_rank > 0) {
      matrix(w.ops, StepPart::dense, "latents", plan_.weights, w.layers, tokens, real(l.query_rank) + narrow, h);
      matrix(w.ops, StepPart::dense, "queries", plan_.weights, w.layers, tokens, queries, real(l.query_rank));
    } else {
      matrix(w.ops, StepPart::dense, "queries and latents", plan_.weights, w.layers, tokens, queries + narrow, h);
    }
    matrix(w.ops, StepPart::dense, "keys and values of latents", plan_.weights, w.layers, tokens,
           heads * real(model_.head_dim + l.value_dim), real(l.kv_rank));
    matrix(w.ops, StepPart::dense, "attention out", plan_.weights, w.layers, tokens, h, heads * real(l.value_dim));
  } else {
    const double d = real(model_.head_dim);
    const double kv = std::max(1.0, real(model_.kv_heads) / tp);
    matrix(w.ops, StepPart::dense, "queries, keys, values", plan_.weights, w.layers, tokens, (heads + 2.0 * kv) * d, h);
    matrix(w.ops, StepPart::dense, "attention out", plan_.weights, w.layers, tokens, h, heads * d);
  }
  attention(w.ops, s);
  const double dense = w.layers - w.mixtures;
  if (dense > 0.0) {
    const double gated = is_gated(model_.activation) ? 2.0 : 1.0;
    matrix(w.ops, StepPart::dense, "feed-forward in", plan_.weights, dense, tokens, gated * real(model_.ffn) / tp, h);
    matrix(w.ops, StepPart::dense, "feed-forward out", plan_.weights, dense, tokens, h, real(model_.ffn) / tp);
  }
  if (w.mixtures > 0.0) experts(w.ops, tokens);
  // Two norms and two residuals, each read and written in 16 bits.
  w.ops.push_back({StepPart::elementwise, "norms and residuals", false, {}, w.layers * moved(16.0 * tokens * h)});
  // The last of the stages has the head, so a stage in the mean has a part of it.
  matrix(w.ops, StepPart::dense, "head", WeightFormat::bf16, 1.0 / plan_.pipeline, s.sequences * s.each + s.finished,
         real(model_.vocabulary) / tp, h);
  communication(w, tokens);
  return w;
}

}  // namespace orrery
