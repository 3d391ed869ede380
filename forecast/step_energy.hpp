#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "core/spec/power_spec.hpp"

namespace orrery {

/// Bytes that a step moves, all ranks together.
struct MovedBytes {
  double memory = 0.0;   ///< read and written by kernels, each operand once
  double inside = 0.0;   ///< over links between the devices of a node
  double network = 0.0;  ///< between nodes
  double host = 0.0;     ///< between devices and host memory or disks
};
/// Rings of p members on n nodes send n / p of their messages between nodes where the members stand node by node.
[[nodiscard]] MovedBytes moved_bytes(const Program&, const std::vector<std::uint32_t>& placement,
                                     std::uint32_t per_node);

/// Energy of one step, in joules, all devices together.
struct StepEnergy {
  struct Part {
    std::string name;  ///< a kind of operation, "waiting", "nvlink"
    double joules = 0.0;
  };
  double joules = 0.0;      ///< of the boards, and of the network between nodes
  std::vector<Part> work;   ///< by kind of work; the boards' energy
  std::vector<Part> moves;  ///< of moving data, by kind of link; a part of the boards' energy, but for the network's
  double idle_w = 0.0;      ///< of all devices while nothing runs
  std::vector<std::string> sources;  ///< figures with their basis
  std::vector<std::string> unknown;
};

/// Energy of a step whose report is given.
///
///     E = N (P_busy t_compute + P_wait (t_step - t_compute)) + network bytes e_network
///
///     N devices    t_compute compute-lane busy, mean over ranks    P_wait  P_busy times the share of the table
///
/// The energy of moved data is bytes times pJ per byte of the kind of link. What moves in a board and between boards of
/// a node is part of the boards' energy and is shown apart; the network's is added.
/// Source: power is the integral of two levels; derived. P_busy is the board's limit, so that E is an upper bound for
/// work that does not reach it. Leaves out: clocks that follow the load, hosts, cooling. Empty where no power of the
/// device is known.
[[nodiscard]] std::optional<StepEnergy> step_energy(const Report&, const MovedBytes&, const ClusterSpec&,
                                                    const PowerTable&);

}  // namespace orrery
