#pragma once

#include <cstdint>
#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// A program's keys for what PEFT's LoraConfig says, and its defaults.
struct AdapterKeys {
  std::string_view rank, alpha, dropout, targets;
  std::string_view every;  ///< a switch for all matrices of layers; empty: none
  std::string_view rank_stabilized = {};
  std::uint64_t usual_rank = 8;    ///< where the file gives none; 0: it has to
  bool usual_targets_all = false;  ///< where the file names none; else it has to
};

/// What bitsandbytes is asked for. Without a word of them, 4 bits are NF4 with scales in 8 bits.
struct BaseKeys {
  std::string_view key;                    ///< asks for it
  std::uint64_t bits = 4;                  ///< 4 or 8
  std::string_view type = {}, twice = {};  ///< "nf4" or "fp4"; whether scales are quantized too
};

/// Reads in what the frozen matrices are kept. FP4 is refused with the nearest.
void read_trainer_base(LaunchReading&, const BaseKeys&);

/// Reads the adapters of a run into [workload.adapters]. Matrices go by the names that transformers gives them. Dropout
/// in front of adapters, and adapters of embedding and head, are refused with the nearest.
void read_trainer_adapters(LaunchReading&, const AdapterKeys&);

}  // namespace orrery
