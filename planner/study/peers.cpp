#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/plan/mesh.hpp"
#include "core/spec/power_spec.hpp"
#include "planner/study/studies.hpp"
#include "planner/study/tensor_volumes.hpp"

// Experiment E15: "each of 1000 processors communicates with 999 others in 1D,
// with only 9 in 3D".  Counted on the groups themselves.

namespace orrery {
namespace {

constexpr std::uint32_t side = 10;

/// Everyone in the group of `me` along `axis`.
std::set<Rank> group_peers(const Mesh& mesh, Rank me, Axis axis) {
  std::set<Rank> peers;
  for (std::uint32_t i = 0; i < mesh.size(axis); ++i) {
    if (const Rank other = mesh.moved(me, axis, i); other != me) peers.insert(other);
  }
  return peers;
}

/// pJ of a byte between nodes, both ends.
double network_energy(const Library& library) {
  Diagnostics d;
  const std::optional<PowerTable> table = power_table(library, std::nullopt, d);
  const LinkEnergy* network = table ? table->over("network") : nullptr;
  if (network == nullptr) throw Error("models/power.toml has no energy of the network");
  return network->pj_per_byte.value;
}

}  // namespace

StudyResult peers_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E15"};
  r.sources = {"announcement of Colossal-AI"};
  r.formulas = {"linear_volume"};
  r.assumptions = {"1000 processors in one 1D group, or as a 10 x 10 x 10 cube with a group along each axis.",
                   "A logical peer is a member of a common group; a physical one is a partner in a ring."};
  const Mesh cube_mesh{{{Axis::depth, side}, {Axis::row, side}, {Axis::column, side}}};
  const Mesh line_mesh{{{Axis::tensor, side * side * side}}};
  const Rank me{314};
  std::set<Rank> all;
  std::size_t largest = 0;
  for (const MeshAxis& a : cube_mesh.axes) {
    const std::set<Rank> peers = group_peers(cube_mesh, me, a.axis);
    largest = std::max(largest, peers.size());
    all.insert(peers.begin(), peers.end());
  }
  const double in_group = static_cast<double>(largest);
  const double distinct = static_cast<double>(all.size());
  const double in_1d = static_cast<double>(group_peers(line_mesh, me, Axis::tensor).size());
  // A ring's processor sends to one neighbour and hears from another.
  const double ring = 2.0;
  r.tables.push_back({"Processors that one of 1000 exchanges data with",
                      {"<mode", "in one group", "in all its groups", "messages to, ring of each group"},
                      {{plain("1D"), number(in_1d, 0), number(in_1d, 0), number(ring, 0)},
                       {plain("3D"), number(in_group, 0), number(distinct, 0), number(3.0 * ring, 0)}}});
  r.claims = {
      {"peers of a processor in 1D", number(999, 0), Evidence::announcement, number(in_1d, 0), Verdict::in_part,
       "logical peers: all 999 contribute to its sum; a ring sends to one neighbour and hears from another, 2 "
       "physical ones"},
      {"peers of a processor in 3D", number(9, 0), Evidence::announcement, number(in_group, 0), Verdict::in_part,
       fmt::format("9 in each of three groups, {:.0f} distinct in all; around rings {:.0f} physical ones", distinct,
                   3.0 * ring)}};
  const TensorGrid line{TensorMode::one_d, 1000, 1};
  const TensorGrid cube{TensorMode::three_d, side, 1};
  const std::uint64_t tokens = 16384;
  const std::uint64_t hidden = 1000;
  const double bytes = static_cast<double>(layer_volume(line, tokens, hidden).total()) /
                       static_cast<double>(layer_volume(cube, tokens, hidden).total());
  // Two bytes an element; every message taken to go between nodes, where it costs most.
  const double joules = 2.0 * network_energy(library) * 1e-12;
  const double energy_1d = joules * static_cast<double>(layer_volume(line, tokens, hidden).total());
  const double energy_3d = joules * static_cast<double>(layer_volume(cube, tokens, hidden).total());
  r.inputs = {"models/power.toml: pJ per byte of the network, unverified"};
  r.tables.push_back({"Energy of the messages of one layer, 16384 tokens of width 1000 in 16 bits, all between nodes",
                      {"<mode", "J"},
                      {{plain("1D"), number(energy_1d, 1)}, {plain("3D"), number(energy_3d, 1)}}});
  r.claims.push_back({"energy saved since 3D moves less", plain("no figure"), Evidence::announcement,
                      number(energy_1d - energy_3d, 1, "J a layer"), Verdict::in_part,
                      "energy follows the bytes, not the number of peers; what a joule of messages is beside that of "
                      "computing, orrery forecast --explain says for a plan"});
  r.conclusions = {
      "The number of peers is not what a ring costs: with it, 1D talks to 2 neighbours and 3D to 6.",
      fmt::format(
          "What 3D saves is volume and steps: with 16384 tokens of width 1000, 1D moves {:.0f} times as much per "
          "layer, in rings of 999 steps where 3D's have 9.",
          bytes)};
  r.charts.push_back(
      {"Peers of one of 1000 processors",
       "",
       "processors",
       false,
       true,
       {"in one group", "in all groups", "around rings"},
       {{"1D", {{0, in_1d}, {1, in_1d}, {2, ring}}}, {"3D", {{0, in_group}, {1, distinct}, {2, 3.0 * ring}}}}});
  return r;
}

}  // namespace orrery
