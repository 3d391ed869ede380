#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace orrery {

/// One published, measured training run: a row of a table of runs, cell by cell (docs/validate.md says what each column
/// means). Unset and empty cells are not published.
struct MeasuredRun {
  // Where the figures come from.
  std::string id, source, citation, provenance;
  // The machine.
  std::string gpu;
  std::optional<std::uint64_t> gpu_mem_gb, gpus, gpus_per_node;
  std::string intra_link, inter_net;
  // The model.
  std::string model;
  std::optional<std::uint64_t> layers, hidden, ffn, heads, kv_heads, seq, vocab, experts, topk;
  std::string activation, precision;
  // Batch and plan, sizes in sequences.  dp excludes cp; ep lies inside dp.
  std::optional<std::uint64_t> gbs, mbs, tp, pp, vp, dp, cp, ep, etp;
  std::string sp, zero, recompute, framework;
  // What was measured.
  std::optional<double> iter_s, tflops_gpu, tok_s_gpu, samples_s, mfu_pct, hfu_pct, peak_mem_gb;
  std::string peak_mem_kind, flop_convention, derived, notes;

  friend bool operator==(const MeasuredRun&, const MeasuredRun&) = default;
};

}  // namespace orrery
