#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// One measured point of serving: a row of a table with the columns of AIConfigurator's silicon_sample.csv, cell by
/// cell. docs/serve.md says what each means; sizes of 0 are not published.
struct MeasuredServing {
  std::string id, silicon_data_source, backend, backend_version, model_path, system, precision, mode;
  std::optional<std::uint64_t> isl, osl;
  std::string gemm_quant_mode, moe_quant_mode;
  std::string batch_size, tp_size, pp_size, attention_dp_size, moe_tp_size, moe_ep_size;
  std::string prefill_batch_size, prefill_num_workers, prefill_tp_size, prefill_pp_size, prefill_attention_dp_size,
      prefill_moe_tp_size, prefill_moe_ep_size;
  std::string decode_batch_size, decode_num_workers, decode_tp_size, decode_pp_size, decode_attention_dp_size,
      decode_moe_tp_size, decode_moe_ep_size;
  std::optional<double> silicon_ttft_ms, silicon_tpot_ms;
  friend bool operator==(const MeasuredServing&, const MeasuredServing&) = default;
};

/// Reads a table as CsvTable has it. Codes: those of CsvTable; file.* of the file itself
[[nodiscard]] std::optional<std::vector<MeasuredServing>> read_serving(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<std::vector<MeasuredServing>> parse_serving(std::string text, std::string name,
                                                                        Diagnostics&);
/// Whether the file's first line has the columns of such a table.
[[nodiscard]] bool is_serving_table(const std::filesystem::path&);

}  // namespace orrery
