#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/model_spec.hpp"
#include "framework/launch/launch_sizes.hpp"
#include "framework/megatron_core/flags.hpp"

namespace orrery {

/// Whether a file is a script or a command line of Megatron-LM, a functional test's MODEL_ARGS, or overrides of
/// Megatron-Bridge or NeMo.
[[nodiscard]] bool is_megatron_script(const LaunchFile&);
[[nodiscard]] bool is_megatron_args(const LaunchFile&);
[[nodiscard]] bool is_megatron_bridge(const LaunchFile&);
void read_megatron_bridge(LaunchReading&);
/// Assignments to fields of a configuration in Python ("cfg.model.x = 4").
[[nodiscard]] bool is_bridge_python(const LaunchFile&);
void read_bridge_python(LaunchReading&);
/// Reads the fields behind a table's name ("MODEL_ARGS.").
void read_bridge_fields(LaunchReading&, std::string_view table);
void read_megatron_script(LaunchReading&);
void read_megatron_args(LaunchReading&);

/// Says of all flags what becomes of them.
void read_megatron_flags(MegatronFlags&);

// Its parts, in this order.

/// An error where the run trains no decoder that plans have; nothing is left to say then.
[[nodiscard]] bool refuse_foreign(MegatronFlags&);
/// The model of the flags; `tensor` is the tensor-parallel size, which pads the vocabulary.
void read_megatron_model(MegatronFlags&, std::uint64_t tensor);
/// Mixture and latent attention; false after a mistake.
[[nodiscard]] bool read_megatron_experts(MegatronFlags&, ModelSpec&);
/// Sizes of the mesh and of the batch.
[[nodiscard]] LaunchSizes read_megatron_sizes(MegatronFlags&);
/// Schedule, chunks and the layers of stages, on `pipeline` ranks. Returns the layers of each stage; none after a
/// mistake.
[[nodiscard]] std::vector<std::uint64_t> read_megatron_stages(MegatronFlags&, std::uint64_t pipeline);
/// Sharding, offload, buckets and how ranks talk.
void read_megatron_memory(MegatronFlags&, const LaunchSizes&);
/// Attention's kernel and recomputation.
void read_megatron_kernels(MegatronFlags&, const std::vector<std::uint64_t>& stages);
/// Precision, optimizer, dropout and the learning rate.
void read_megatron_training(MegatronFlags&);
/// Flags without effect on time and memory.
void ignore_megatron_flags(MegatronFlags&);

/// The stages of a layout ("Et*2|(tt|)*3mL"), each with its letters; empty where it is none.
[[nodiscard]] std::optional<std::vector<std::string>> megatron_layout(const std::string&);
/// Which layers are mixtures, by --moe-layer-freq: "2", or "([0]*3+[1]*58)"; empty where it says neither.
[[nodiscard]] std::optional<std::vector<bool>> megatron_mixture_layers(const std::string&, std::uint64_t layers);

}  // namespace orrery
