#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Shape of a single-rank training step whose kernels are sampled.
struct SampleShape {
  std::uint64_t layers = 1;
  std::uint64_t sequences = 1;  ///< of one microbatch
  std::uint64_t microbatches = 1;
  std::uint64_t length = 16;
  std::uint64_t heads = 2;
  std::uint64_t head_dim = 16;
  bool llama = false;  ///< RMSNorm, rotary, SwiGLU, untied; else LayerNorm, learned, GELU, biases, tied
  bool flash = false;
  bool dropout = false;
  bool sgd = false;
};

struct SampleProgram {
  ModelSpec model;
  Workload workload;
  Plan plan;
  Program program;
};

[[nodiscard]] SampleProgram sample_program(const SampleShape&, Precision);

}  // namespace orrery
