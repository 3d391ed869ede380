#include <fmt/format.h>

#include "planner/study/studies.hpp"
#include "planner/study/tensor_volumes.hpp"

// Experiment E28: the figures of Colossal-AI pull request 1638, in which a
// sharding solver is run on an MLP once without and once with a tight memory
// budget.  Counted again from the shapes, by the cost functions that the solver
// used, and then by what really moves.

namespace orrery {
namespace {

constexpr double rows = 16.0;   // tokens
constexpr double width = 32.0;  // d
constexpr double ffn = 4 * width;
constexpr double devices = 8.0;  // a 2 x 4 mesh, both axes used as one
constexpr double element = 4.0;  // bytes, fp32

/// The solver's all-reduce: alpha + beta 2 (n - 1) / n B + 0.01 with alpha = beta = 1 (its defaults, no seconds).
double solver_all_reduce(double bytes) { return 1.0 + 2.0 * (devices - 1.0) / devices * bytes + 0.01; }

struct Costs {
  double compute = 0.0;
  double communication = 0.0;
  double memory = 0.0;
};

/// linear1 by columns; linear2 by rows (the pairing) or by columns too.
Costs costs(bool pairing) {
  Costs c;
  // 2 per multiply-add of each linear's forward product, and one for each of dropout and ReLU, which the solver
  // counts whole.
  c.compute = 2.0 * (2.0 * rows * width * ffn / devices) + 2.0 * rows * ffn;
  // Backward of linear1 sums the gradient of x.  Then either the output is summed, or linear2's input gradient.
  c.communication =
      solver_all_reduce(rows * width * element) + solver_all_reduce((pairing ? rows * width : rows * ffn) * element);
  // Weights and outputs of the two linears.
  const double weights = 2.0 * width * ffn / devices;
  const double outputs = rows * ffn / devices + (pairing ? rows * width : rows * width / devices);
  c.memory = (weights + outputs) * element;
  return c;
}

Claim same(const char* what, double published, double computed, int decimals) {
  return {what,
          number(published, decimals),
          Evidence::thread,
          number(computed, decimals),
          judged(computed, published, 1e-5),
          "counted from the shapes, all printed digits: x [16, 32], d = 32, 8 devices, fp32"};
}

}  // namespace

StudyResult mlp_sharding_study(const Library&) {
  StudyResult r;
  r.experiments = {"E28"};
  r.sources = {
      "hpcaitech/ColossalAI pull request 1638; shapes from its test, commit 89145801; cost functions from "
      "device_mesh.py at 4f9953be"};
  r.formulas = {"linear_volume"};
  r.assumptions = {
      "The solver's own units: alpha = beta = 1, 0.01 added per all-reduce to break ties; not seconds.",
      "It sums the costs of the nodes; the all-gather between two layers cut by columns is not in its sum."};
  const Costs tight = costs(false);
  const Costs paired = costs(true);
  r.claims = {same("least memory: computation", 36864.0, tight.compute, 2),
              same("least memory: communication", 17922.02, tight.communication, 2),
              same("least memory: memory, bytes", 5376.0, tight.memory, 0),
              same("column-row pairing: computation", 36864.0, paired.compute, 2),
              same("column-row pairing: communication", 7170.02, paired.communication, 2),
              same("column-row pairing: memory, bytes", 7168.0, paired.memory, 0)};
  const bool moves_less = paired.communication < tight.communication;
  r.claims.push_back({"which one wins when memory allows", plain("column-row pairing"), Evidence::thread,
                      plain(moves_less ? "column-row pairing" : "both by columns"),
                      moves_less ? Verdict::follows : Verdict::does_not_follow,
                      "it moves 2.5 times less, and what Orrery's 1D lowering runs is this pairing"});
  // What really moves, elements received by each device, by either pairing.
  const TensorGrid line{TensorMode::one_d, static_cast<std::uint64_t>(devices), 1};
  const auto volume = [&](double in, double out, bool by_rows) {
    const LinearShape l{static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(in),
                        static_cast<std::uint64_t>(out), by_rows};
    return static_cast<double>(linear_volume(line, l).total()) / devices;
  };
  const double pairing = volume(width, ffn, false) + volume(ffn, width, true);
  // Both by columns: the hidden activation is gathered before linear2, its gradient scattered on the way back,
  // which the all-reduce of linear2's input gradient includes; the output stays cut.
  const double columns = volume(width, ffn, false) + volume(ffn, width, false) + (devices - 1.0) / devices * rows * ffn;
  r.tables.push_back({"Elements received per device, the gather between the layers included",
                      {"<sharding", "elements", "bytes"},
                      {{plain("both by columns"), number(columns, 0), number(columns * element, 0)},
                       {plain("column-row pairing"), number(pairing, 0), number(pairing * element, 0)}}});
  r.charts.push_back({"Costs of two shardings of an MLP, in the solver's units",
                      "",
                      "solver's units",
                      false,
                      false,
                      {"computation", "communication", "memory, bytes"},
                      {{"both by columns", {{0, tight.compute}, {1, tight.communication}, {2, tight.memory}}},
                       {"column-row pairing", {{0, paired.compute}, {1, paired.communication}, {2, paired.memory}}}}});
  r.conclusions = {"Every printed figure follows from the shapes.",
                   fmt::format("The solver's sum understates the sharding by columns: with the gather it moves {:.1f} "
                               "times what the pairing moves, not {:.1f}.",
                               columns / pairing, tight.communication / paired.communication)};
  return r;
}

}  // namespace orrery
