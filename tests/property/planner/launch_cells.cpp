#include "tests/property/planner/launch_cells.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <vector>

#include "core/base/random.hpp"
#include "core/plan/plan_names.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/torchtitan/models.hpp"
#include "tests/support/layer_kinds.hpp"
#include "tests/support/shipped_model.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_bits(seed_, stream_of("launch cells"), count_++) % n; }
  bool once_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

/// A small model of a family, with a kind of layers in one of three.
ModelSpec small_model(Draw& draw) {
  const bool gpt = draw.once_in(5);
  Size size{.layers = draw.of<std::uint64_t>({4, 6, 8, 12, 16}),
            .hidden = draw.of<std::uint64_t>({512, 1024, 2048}),
            .heads = 16,
            .kv_heads = draw.of<std::uint64_t>({2, 4, 8, 16}),
            .vocabulary = draw.of<std::uint64_t>({4096, 32000, 50257}),
            .positions = 8192,
            .tied = draw.once_in(2)};
  if (gpt) size.kv_heads = 0;
  ModelSpec m = gpt ? tiny_gpt(size) : tiny_llama(size);
  const std::uint64_t kind = draw.below(gpt ? 2 : 6);
  if (kind == 1 && !gpt) {
    Mixture& x = m.mixture.emplace();
    x.experts = draw.of({4U, 8U, 16U});
    x.per_token = draw.of({1U, 2U});
    x.ffn = m.ffn / 2;
    x.shared_ffn = draw.once_in(3) ? m.ffn / 2 : 0;
    if (draw.once_in(3)) x.first_dense = 1;
    m.name = "tiny-mixture";
  } else if (kind == 2) {
    m.kv_heads = m.heads;
    m.latent = LatentAttention{draw.once_in(2) ? 0 : m.hidden / 4, m.hidden / 8, 32, 64};
    m.name = "tiny-mla";
  } else if (draw.once_in(3)) {
    const auto kinds = draw.once_in(2) ? family_kinds() : single_kinds();
    const LayerKindCase& k = kinds[draw.below(kinds.size())];
    if (!k.mixture) {
      k.apply(m);
      m.name += fmt::format(", {}", k.name);
    }
  }
  return m;
}

/// torchtitan's own small models, which it knows by name.
ModelSpec titan_model(Draw& draw) {
  std::vector<const TitanModel*> own;
  for (const TitanModel& m : titan_models()) {
    if (m.shape != nullptr && m.flavor.starts_with("debug")) own.push_back(&m);
  }
  const TitanModel& known = *own[draw.below(own.size())];
  ModelSpec m = shipped_model(std::string(known.shipped).c_str());
  known.shape(m);
  m.name = own_name(known);
  return m;
}

ModelSpec drawn_model(Draw& draw) {
  const std::uint64_t kind = draw.below(10);
  if (kind < 4) return small_model(draw);
  if (kind < 7) return titan_model(draw);
  return shipped_model(draw.of({"llama-3-8b",   "llama-3.1-8b",  "llama-3.2-1b",   "qwen2.5-7b",       "qwen2.5-0.5b",
                                "mistral-7b",   "qwen3-0.6b",    "qwen3-4b",       "gpt2-355m",        "gpt2-1.5b",
                                "mixtral-8x7b", "qwen3-30b-a3b", "olmoe-7b-a1b",   "deepseek-v2-lite", "gpt-oss-20b",
                                "gemma-2-2b",   "llama-3-70b",   "tinyllama-1.1b", "smollm2-1.7b",     "llama-2-7b"}));
}

Workload drawn_workload(Draw& draw, const ModelSpec& m, const DeviceSpec& device) {
  Workload w;
  w.global_batch = draw.of<std::uint64_t>({4, 8, 12, 16, 24, 32, 64, 128, 256});
  w.sequence_length = std::min(draw.of<std::uint64_t>({512, 1024, 2048, 4096}), m.max_positions);
  w.precision = draw.of({Precision::bf16, Precision::bf16, Precision::bf16, Precision::bf16, Precision::fp16,
                         Precision::fp8, Precision::fp32});
  if (!device.peak.contains(w.precision)) w.precision = Precision::bf16;
  if (draw.once_in(2)) w.clip_norm = 1.0;
  if (draw.once_in(8) && w.precision == Precision::bf16) w.gradient_dtype = DType::bf16;
  if (draw.once_in(3)) w.schedule = {ScheduleKind::cosine, 10, 200, 0.1};
  Optimizer& o = w.optimizer;
  o.kind = draw.of({OptimizerKind::adam, OptimizerKind::adam, OptimizerKind::adam, OptimizerKind::adam,
                    OptimizerKind::adam, OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::lamb});
  if (o.kind == OptimizerKind::sgd) o.weight_decay = 0.0;
  if (o.kind == OptimizerKind::adam && w.precision != Precision::fp32 && draw.once_in(10)) w.moment_dtype = DType::bf16;
  return w;
}

}  // namespace

LaunchCell launch_cell(std::uint64_t seed, std::uint32_t gpus) {
  Draw draw(seed);
  LaunchCell out;
  std::uint32_t n = 0;
  do {
    n = draw.of({1U, 2U, 3U, 4U, 6U, 8U, 8U, 12U, 16U, 16U, 24U, 32U, 48U, 64U});
  } while (n > gpus);
  const char* boxes = draw.of({"dgx-h100", "dgx-h100", "dgx-a100", "l40s:8", "4090:4"});
  const std::uint32_t box = std::string_view(boxes) == "4090:4" ? 4 : 8;
  if (n > box / 2) n -= n % (n > box ? box : box / 2);  // whole switches and boxes
  const Library library = shipped_library();
  Diagnostics wrong;
  std::optional<ClusterSpec> cluster = library.cluster(boxes, ".", n, wrong);
  INFO(render(wrong));
  REQUIRE(cluster);
  out.cluster = *std::move(cluster);
  const auto prices = read_calibration(library.calibration(out.cluster.device.calibration), wrong);
  if (prices) out.calibration = *prices;
  out.model = drawn_model(draw);
  out.workload = drawn_workload(draw, out.model, out.cluster.device);
  out.judge_memory = draw.once_in(2);
  out.text = fmt::format("cell {}: {} on {} x {}, batch {} x {}, {}, {}{}{}", seed, out.model.name, n, boxes,
                         out.workload.global_batch, out.workload.sequence_length, name_of(out.workload.precision),
                         name_of(out.workload.optimizer.kind), out.workload.gradient_dtype ? ", bf16 sums" : "",
                         out.workload.moment_dtype ? ", bf16 moments" : "");
  return out;
}

}  // namespace orrery::test
