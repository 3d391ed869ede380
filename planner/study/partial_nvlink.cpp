#include <fmt/format.h>

#include <algorithm>

#include "planner/study/fabric_step.hpp"
#include "planner/study/studies.hpp"
#include "sim/net/node_wiring.hpp"

// Experiment E3: the same plans on a box with NVLink between all GPUs and on one with NVLink between neighbours only,
// simulated over the wires of both.

namespace orrery {
namespace {

struct System {
  std::string name;
  ClusterSpec cluster;
  Calibration calibration;
  Fabric fabric;
};

/// System I has every GPU on NVLink with every other.
System fully_linked(const Library& library) {
  ClusterSpec cluster = study_cluster(library, "colossal-system-1", 4);
  FabricSpec spec;
  spec.name = "System I";
  spec.node = nvswitch_node(4, 1, {LinkKind::nvlink, cluster.levels[0].bandwidth, Seconds::of(1e-6)},
                            {LinkKind::pcie, Bandwidth::of(15e9), Seconds::of(1e-6)});
  Calibration calibration = study_calibration(library, cluster.device);
  return {"I", std::move(cluster), std::move(calibration), Fabric(std::move(spec))};
}

System linked_in_pairs(const Library& library) {
  ClusterSpec cluster = study_cluster(library, "colossal-system-2", 4);
  Calibration calibration = study_calibration(library, cluster.device);
  return {"II", std::move(cluster), std::move(calibration), Fabric(study_fabric(library, "system-2"))};
}

struct Setting {
  std::uint32_t hidden, sequences;
};

ModelSpec layers_of(const Library& library, std::uint32_t hidden) {
  ModelSpec m = study_model(library, "gpt2-1.5b");
  m.name = fmt::format("gpt-{}", hidden);
  m.layers = 8;
  m.hidden = hidden;
  m.heads = m.kv_heads = hidden / 64;
  m.head_dim = 64;
  m.ffn = 4 * hidden;
  return m;
}

Plan plan_of(std::vector<MeshAxis> axes, TensorAlgorithm tensor, std::uint32_t sequences) {
  Plan p;
  p.mesh.axes = std::move(axes);
  p.tensor = tensor;
  p.microbatch_size = sequences;
  p.attention = AttentionKernel::flash;
  return p;
}

struct Times {
  Seconds one_d, two_d;
  [[nodiscard]] double gain() const { return one_d / two_d; }
};

Times times_of(const Library& library, const System& box, const Setting& s) {
  const ModelSpec model = layers_of(library, s.hidden);
  const Workload workload = study_workload(s.sequences, 512);
  const auto time = [&](const Plan& plan) {
    return step_over(model, workload, box.cluster, box.calibration, plan, box.fabric).time();
  };
  Times t;
  t.one_d = time(plan_of({{Axis::tensor, 4}}, TensorAlgorithm::one_d, s.sequences));
  // Rows or columns on the pairs, whichever is faster; rows have half the sequences each.
  t.two_d = std::min(time(plan_of({{Axis::row, 2}, {Axis::column, 2}}, TensorAlgorithm::two_d, s.sequences / 2)),
                     time(plan_of({{Axis::column, 2}, {Axis::row, 2}}, TensorAlgorithm::two_d, s.sequences / 2)));
  return t;
}

}  // namespace

StudyResult partial_nvlink_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E3"};
  r.sources = {
      "Bian et al., Colossal-AI, arXiv 2110.14883, systems I and II: the order of 1D and 2D there is recalled, "
      "unverified"};
  r.inputs = {"clusters colossal-system-1 and -2 (unverified), fabric system-2, calibration a100-80",
              "GPTs of 8 layers, head size 64, sequences of 512 tokens"};
  r.formulas = {"ring_all_reduce", "Simulate"};
  r.assumptions = {
      "4 GPUs, fp16, one microbatch, the same batch in both; whole steps are lowered and simulated over the wires, "
      "with "
      "optimizer, embedding and head.",
      "2D takes the better of rows on the NVLink pairs and columns on them.",
      "System I: 300 GB/s from every GPU; system II: 184 GB/s in a pair, 15 GB/s of PCIe to the others."};
  StudyTable table{
      "Steps on 4 GPUs, simulated over shared links",
      {"width", "sequences", "I: 1D, ms", "I: 2D, ms", "I: 2D faster", "II: 1D, ms", "II: 2D, ms", "II: 2D faster"},
      {}};
  Chart chart{"Speed of 2D over 1D on 4 GPUs (above 1: 2D is faster)", "", "times", false, false, {}, {}};
  chart.series = {{"I: NVLink between all", {}}, {"II: NVLink in pairs", {}}};
  const System one = fully_linked(library), two = linked_in_pairs(library);
  double most_on_one = 0.0, least_on_two = 1e30, most_on_two = 0.0;
  for (const Setting s :
       {Setting{1024, 16}, Setting{1024, 64}, Setting{2048, 16}, Setting{2048, 64}, Setting{4096, 64}}) {
    const Times on_one = times_of(library, one, s), on_two = times_of(library, two, s);
    table.rows.push_back({number(s.hidden, 0), number(s.sequences, 0), number(on_one.one_d.base() * 1e3, 1),
                          number(on_one.two_d.base() * 1e3, 1), number(on_one.gain(), 2, "x"),
                          number(on_two.one_d.base() * 1e3, 1), number(on_two.two_d.base() * 1e3, 1),
                          number(on_two.gain(), 2, "x")});
    const auto at = static_cast<double>(chart.categories.size());
    chart.categories.push_back(fmt::format("{} wide, {}", s.hidden, s.sequences));
    chart.series[0].points.push_back({at, on_one.gain()});
    chart.series[1].points.push_back({at, on_two.gain()});
    most_on_one = std::max(most_on_one, on_one.gain());
    least_on_two = std::min(least_on_two, on_two.gain());
    most_on_two = std::max(most_on_two, on_two.gain());
  }
  r.claims = {{"NVLink between all pairs, 2D over 1D",
               plain("1D wins"),
               Evidence::unverified,
               {fmt::format("at most {:.2f}x", most_on_one), most_on_one},
               most_on_one < 1.0 ? Verdict::follows : Verdict::in_part,
               "links are so fast that 2D's smaller products and more messages decide"},
              {"NVLink in pairs only, 2D over 1D",
               plain("2D wins"),
               Evidence::unverified,
               {fmt::format("{:.2f}x to {:.2f}x", least_on_two, most_on_two), most_on_two},
               least_on_two > 1.0  ? Verdict::follows
               : most_on_two > 1.0 ? Verdict::in_part
                                   : Verdict::does_not_follow,
               "1D's one ring crosses PCIe with all activations; 2D keeps activations on the pairs and sends weights "
               "over PCIe, which pays where a step has many tokens for its weights"}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {
      "The same plans in another order: which way to cut depends on the wires, so a planner has to see them.",
      "The fewer tokens a step has for the model's width, the less 2D gains on pairs."};
  return r;
}

}  // namespace orrery
