#include <fmt/format.h>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"
#include "planner/study/tensor_layer_time.hpp"
#include "planner/study/tensor_volumes.hpp"

// Experiment E16: a user's table of what runs out of memory, and how fast the
// rest is, on one node of 8 A100.  1D cells are lowered plans; 2D is in closed form.

namespace orrery {
namespace {

constexpr std::uint32_t gpus = 8;
constexpr std::uint64_t sequence = 1024;

/// GPT-2 shaped models of the names and sizes that the thread's author used in another repository.
ModelSpec shaped(const Library& library, const char* name, std::uint64_t layers, std::uint64_t hidden) {
  ModelSpec m = study_model(library, "gpt2-1.5b");
  m.name = name;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = 16;
  m.head_dim = hidden / 16;
  m.ffn = 4 * hidden;
  return m;
}

struct Cell {
  const char* model;
  std::uint64_t batch;
  std::uint32_t tensor;
  std::optional<double> published;  ///< sequences a second; none: out of memory
};

constexpr std::optional<double> out_of_memory = std::nullopt;
const Cell cells_1d[] = {{"4B", 8, 4, 7.61},
                         {"4B", 8, 8, 7.62},
                         {"4B", 16, 4, out_of_memory},
                         {"4B", 16, 8, out_of_memory},
                         {"4B", 128, 4, out_of_memory},
                         {"4B", 128, 8, out_of_memory},
                         {"10B", 2, 4, out_of_memory},
                         {"10B", 2, 8, 3.62},
                         {"10B", 4, 4, out_of_memory},
                         {"10B", 4, 8, 4.66},
                         {"10B", 128, 4, out_of_memory},
                         {"10B", 128, 8, out_of_memory}};
const Cell cells_2d[] = {{"4B", 8, 4, 9.89},           {"4B", 16, 4, out_of_memory}, {"4B", 128, 4, out_of_memory},
                         {"10B", 2, 4, out_of_memory}, {"10B", 4, 4, out_of_memory}, {"10B", 128, 4, out_of_memory}};

std::string text_of(const std::optional<double>& rate) { return rate ? fmt::format("{:.2f}", *rate) : "out of memory"; }

}  // namespace

StudyResult one_node_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E16"};
  r.sources = {
      "hpcaitech/ColossalAI issue 124 (8 A100 of a SuperPod node; GPU memory and model shapes not given there)",
      "model shapes GPT2_4B (h 2304, 64 layers) and GPT3_10B (h 4096, 50 layers), 16 heads, 1024 positions: "
      "Tencent/PatrickStar examples/model_builder.py, commit 04af7c93, by the same author: assumed to be the same"};
  r.inputs = {"cluster dgx-a100 with a100-40 GPUs", "calibration a100-40"};
  r.formulas = {"estimate", "LiveMemory", "layer_activations", "tensor_layer_time"};
  r.assumptions = {
      "GPUs of 40 GB: with 80 GB the 16-sequence row would fit.",
      "No recomputation, unfused attention with dropout, fp16, 16 bytes of state a parameter; data parallel over "
      "what the tensor ranks leave; the whole batch in one microbatch.",
      "2D: states 16 bytes a parameter over 4, saved activations in closed form; no panels, no logits."};
  ClusterSpec cluster = study_cluster(library, "dgx-a100", gpus);
  cluster.device = study_device(library, "a100-40");
  const Calibration calibration = study_calibration(library, cluster.device);
  const ModelSpec models[] = {shaped(library, "4B", 64, 2304), shaped(library, "10B", 50, 4096)};
  const auto model_of = [&](const char* name) -> const ModelSpec& { return models[models[0].name == name ? 0 : 1]; };

  StudyTable table{"Sequences a second, or out of memory",
                   {"<model", "batch", "<mode", "<published", "<computed", "peak, GB", "agree"},
                   {}};
  int agree = 0;
  int all = 0;
  const auto judge = [&](bool fits, const Cell& c) {
    const bool same = fits == c.published.has_value();
    agree += same ? 1 : 0;
    ++all;
    return plain(same ? "yes" : "NO");
  };
  double rate_4 = 0.0;
  double rate_8 = 0.0;
  for (const Cell& c : cells_1d) {
    const std::uint32_t data = gpus / c.tensor;
    Workload workload = study_workload(c.batch, sequence);
    workload.hidden_dropout = 0.1;
    workload.attention_dropout = 0.1;
    Plan plan;
    plan.name = fmt::format("1d-{}mp", c.tensor);
    plan.mesh.axes = {{Axis::data, data}, {Axis::tensor, c.tensor}};
    plan.microbatch_size = static_cast<std::uint32_t>(c.batch / data);
    plan.attention = AttentionKernel::unfused;
    const PricedPlan p = priced(model_of(c.model), workload, cluster, calibration, plan);
    const double rate = static_cast<double>(c.batch) / p.report.step_time.base();
    const std::optional<double> computed = p.report.fits ? std::optional(rate) : std::nullopt;
    if (c.batch == 8) (c.tensor == 4 ? rate_4 : rate_8) = rate;
    table.rows.push_back({plain(c.model),
                          number(static_cast<double>(c.batch), 0),
                          plain(fmt::format("1d-{}mp", c.tensor)),
                          {text_of(c.published), c.published},
                          {text_of(computed), computed},
                          number(static_cast<double>(p.report.peak_memory_bytes) / 1e9, 1),
                          judge(p.report.fits, c)});
  }
  // 2D over 4 in each of two replicas, against 1D over 4, layers alone.
  ClusterSpec four = study_cluster(library, "dgx-a100", 4);
  four.device = cluster.device;
  const TensorGrid grid{TensorMode::two_d, 2, 1};
  const TensorGrid line{TensorMode::one_d, 4, 1};
  double speed = 0.0;
  for (const Cell& c : cells_2d) {
    const ModelSpec& m = model_of(c.model);
    const LayerShape shape{c.batch / 2, sequence, m.hidden, m.heads};
    const double peak = 16.0 * static_cast<double>(parameter_count(m)) / 4.0 +
                        layer_activations(grid, shape).saved * static_cast<double>(m.layers);
    const bool fits = peak <= cluster.device.memory.base();
    std::optional<double> computed;
    if (fits) {
      const Seconds layer = tensor_layer_time(grid, shape, four, calibration).serial();
      computed = static_cast<double>(c.batch) / (layer.base() * static_cast<double>(m.layers));
      if (c.batch == 8) speed = tensor_layer_time(line, shape, four, calibration).serial() / layer;
    }
    table.rows.push_back({plain(c.model),
                          number(static_cast<double>(c.batch), 0),
                          plain("2d-4mp"),
                          {text_of(c.published), c.published},
                          {computed ? text_of(computed) + " (layers alone)" : text_of(computed), computed},
                          number(peak / 1e9, 1),
                          judge(fits, c)});
  }
  r.claims = {
      {"cells that run out of memory or not", number(all, 0), Evidence::thread, number(agree, 0),
       agree == all ? Verdict::follows : Verdict::in_part,
       "with GPUs of 40 GB; cells that disagree are marked NO: there 2D's panels, logits and the allocator, which the "
       "closed form leaves out, make the difference of a few GB"},
      {"4B, batch 8: 1d-8mp over 1d-4mp", number(7.62 / 7.61, 2, "x"), Evidence::thread,
       number(rate_8 / rate_4, 2, "x"), Verdict::in_part,
       fmt::format(
           "the estimate lets kernels reach a tuned share of the peak; the measured rates are {:.0f} model TFLOP/s of "
           "312 on each GPU, where overheads that are not in the model decide",
           7.61 * static_cast<double>(sequence) * 6.0 * static_cast<double>(parameter_count(models[0])) / gpus / 1e12)},
      {"4B, batch 8: 2d-4mp over 1d-4mp", number(9.89 / 7.61, 2, "x"), Evidence::thread, number(speed, 2, "x"),
       speed > 1.0 ? Verdict::in_part : Verdict::does_not_follow,
       "layers alone, inside one NVLink node, where links are fast; 2.5d-4mp has depth 1 and is 2d-4mp: its 10.31 "
       "shows "
       "that the table's noise is 4 %"},
      {"4B, batch 8: 2d-8mp", number(8.47, 2), Evidence::thread, plain("-"), Verdict::undecided,
       "8 is no square: what ran under that name is not known"},
      {"PatrickStar and DeepSpeed columns", plain("1.15 to 28.39"), Evidence::thread, plain("-"), Verdict::undecided,
       "other systems, which offload; not computed"}};
  Chart chart{"4B, batch 8, 8 A100: sequences a second",
              "",
              "sequences/s",
              false,
              false,
              {"1d-4mp", "1d-8mp"},
              {{"published", {{0, 7.61}, {1, 7.62}}}, {"estimated", {{0, rate_4}, {1, rate_8}}}}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {
      "What fits follows from memory; how fast the rest ran does not follow from the GPUs' rates: measured "
      "throughput is far below them."};
  return r;
}

}  // namespace orrery
