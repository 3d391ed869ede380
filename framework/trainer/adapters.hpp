#pragma once

#include <cstdint>
#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// A program's keys for what PEFT's LoraConfig says, and its defaults.
struct AdapterKeys {
  std::string_view rank, alpha, dropout, targets;
  std::string_view every;          ///< a switch for all matrices of layers; empty: none
  std::uint64_t usual_rank = 8;    ///< where the file gives none; 0: it has to
  bool usual_targets_all = false;  ///< where the file names none; else it has to
};

/// Reads the adapters of a run into [workload.adapters]. Matrices go by the names that transformers gives them. Dropout
/// in front of adapters, and adapters of embedding and head, are refused with the nearest.
void read_trainer_adapters(LaunchReading&, const AdapterKeys&);

}  // namespace orrery
