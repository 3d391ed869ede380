#include "cli/here_plans.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <set>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

/// A sequence of draws that depends on the seed alone.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + random_bits(seed_, stream_of("here plans"), count_++) % list.size());
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

constexpr std::uint64_t layers = 4;

ModelSpec model_of(Draw& draw, std::uint64_t length) {
  const bool llama = draw.of({false, true});
  ModelSpec m;
  m.name = llama ? "llama" : "gpt";
  m.layers = layers;
  m.hidden = draw.of<std::uint64_t>({64, 128, 192, 256});
  m.heads = 4;
  m.kv_heads = llama ? 2 : 4;
  m.head_dim = m.hidden / m.heads;
  m.ffn = llama ? 344 * m.hidden / 128 : 4 * m.hidden;
  m.vocabulary = 512;
  m.max_positions = length;
  m.norm = llama ? Norm::rms_norm : Norm::layer_norm;
  m.activation = llama ? Activation::swiglu : Activation::gelu;
  m.positions = llama ? PositionEncoding::rotary : PositionEncoding::learned;
  m.biases = Biases::of_layers(!llama);
  m.tied_embeddings = !llama;
  return m;
}

Workload workload_of(Draw& draw, std::uint64_t length) {
  Workload w;
  w.sequence_length = length;
  w.precision = draw.of({Precision::fp32, Precision::fp32, Precision::fp64, Precision::bf16, Precision::fp16});
  w.clip_norm = 1.0;
  w.hidden_dropout = w.attention_dropout = draw.of({0.0, 0.0, 0.0, 0.1});
  return w;
}

HerePlan drawn(Draw& draw, bool crowded) {
  HerePlan out;
  PlannedRun& run = out.run;
  const auto length = draw.of<std::uint64_t>({32, 64, 128});
  run.model = model_of(draw, length);
  run.workload = workload_of(draw, length);
  Plan& p = run.plan;
  const Axis first = draw.of({Axis::pipeline, Axis::data, Axis::tensor});
  const Axis second = draw.of({Axis::pipeline, Axis::data, Axis::tensor});
  const bool alone = !crowded && draw.of({true, false, false});
  p.mesh = Mesh{{{Axis::pipeline, 1}, {Axis::data, 1}, {Axis::tensor, 1}}};
  for (MeshAxis& a : p.mesh.axes) {
    if (!alone && a.axis == first) a.size *= 2;
    if (crowded && a.axis == second) a.size *= 2;
  }
  const std::uint32_t data = p.mesh.size(Axis::data), tensor = p.mesh.size(Axis::tensor);
  const std::uint32_t pipeline = p.mesh.size(Axis::pipeline);
  p.microbatch_size = draw.of({1U, 2U, 4U});
  run.workload.global_batch = std::uint64_t{p.microbatch_size} * data * draw.of({1U, 2U, 4U});
  p.schedule = draw.of({ScheduleName::one_f_one_b, ScheduleName::gpipe});
  p.stage_layers = std::vector<std::uint32_t>(pipeline, static_cast<std::uint32_t>(layers / pipeline));
  p.recompute = draw.of({Recompute::none, Recompute::none, Recompute::selective, Recompute::full});
  p.attention = draw.of({AttentionKernel::unfused, AttentionKernel::flash});
  p.sequence_parallel = tensor > 1 && draw.of({false, true});
  p.zero_stage = data > 1 ? draw.of({0U, 1U, 2U}) : 0U;
  p.gradient_bucket = Bytes::of(4e6);
  p.overlap_gradients = draw.of({false, true});
  out.name = fmt::format("{} {} {} p{} d{} t{}{} {} x{} of {} {} {}{}{}", run.model.name, run.model.hidden,
                         name_of(run.workload.precision), pipeline, data, tensor,
                         p.zero_stage > 0 ? fmt::format(" z{}", p.zero_stage) : "", p.microbatch_size,
                         run.workload.global_batch, length, name_of(p.schedule), name_of(*p.attention),
                         p.recompute == Recompute::none ? "" : fmt::format(" {}", name_of(p.recompute)),
                         run.workload.hidden_dropout > 0.0 ? " dropout" : "");
  p.name = out.name;
  return out;
}

}  // namespace

std::vector<HerePlan> here_plans(std::uint32_t count, std::uint64_t seed, std::uint32_t cores) {
  std::vector<HerePlan> out;
  std::set<std::string> names;
  Draw draw(seed);
  while (out.size() < count) {
    // With one core, every plan of two ranks crowds it, so such plans are left out.
    HerePlan plan = drawn(draw, out.size() % 5 == 4);
    if (cores < 2 && out.size() % 5 != 4 && plan.run.plan.mesh.size() > 1) continue;
    Diagnostics d;
    check(plan.run.plan, plan.run.model, plan.run.workload, nullptr, d);
    if (d.empty() && names.insert(plan.name).second) out.push_back(std::move(plan));
  }
  return out;
}

}  // namespace orrery
