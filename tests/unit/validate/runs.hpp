#pragma once

#include "tests/support/shipped_model.hpp"
#include "validate/measured_run.hpp"

namespace orrery::test {

/// A GPT of 22 billion parameters on one DGX A100, with every cell that a plan needs.
inline MeasuredRun dense_run() {
  MeasuredRun r;
  r.id = "dense";
  r.gpu = "A100-SXM4";
  r.gpu_mem_gb = 80;
  r.gpus = 8;
  r.gpus_per_node = 8;
  r.intra_link = "NVLink3 NVSwitch";
  r.model = "GPT-22B";
  r.layers = 48;
  r.hidden = 6144;
  r.ffn = 24576;
  r.heads = 64;
  r.kv_heads = 64;
  r.seq = 2048;
  r.vocab = 51200;
  r.activation = "gelu";
  r.precision = "fp16";
  r.gbs = 8;
  r.mbs = 2;
  r.tp = 4;
  r.pp = 2;
  r.vp = 1;
  r.dp = 1;
  r.cp = 1;
  r.ep = 1;
  r.sp = "no";
  r.zero = "none";
  r.recompute = "full";
  r.framework = "Megatron-LM (2022)";
  r.iter_s = 2.5;
  return r;
}

}  // namespace orrery::test
