#include "validate/serving_table.hpp"

#include <array>
#include <fstream>

#include "core/base/toml_reader.hpp"
#include "validate/csv_table.hpp"

namespace orrery {
namespace {

using S = MeasuredServing;
const std::array<CsvColumn<S>, 34> columns = {{
    {"id", &S::id},
    {"silicon_data_source", &S::silicon_data_source},
    {"backend", &S::backend},
    {"backend_version", &S::backend_version},
    {"model_path", &S::model_path},
    {"system", &S::system},
    {"precision", &S::precision},
    {"mode", &S::mode},
    {"isl", &S::isl},
    {"osl", &S::osl},
    {"gemm_quant_mode", &S::gemm_quant_mode},
    {"moe_quant_mode", &S::moe_quant_mode},
    {"batch_size", &S::batch_size},
    {"tp_size", &S::tp_size},
    {"pp_size", &S::pp_size},
    {"attention_dp_size", &S::attention_dp_size},
    {"moe_tp_size", &S::moe_tp_size},
    {"moe_ep_size", &S::moe_ep_size},
    {"prefill_batch_size", &S::prefill_batch_size},
    {"prefill_num_workers", &S::prefill_num_workers},
    {"prefill_tp_size", &S::prefill_tp_size},
    {"prefill_pp_size", &S::prefill_pp_size},
    {"prefill_attention_dp_size", &S::prefill_attention_dp_size},
    {"prefill_moe_tp_size", &S::prefill_moe_tp_size},
    {"prefill_moe_ep_size", &S::prefill_moe_ep_size},
    {"decode_batch_size", &S::decode_batch_size},
    {"decode_num_workers", &S::decode_num_workers},
    {"decode_tp_size", &S::decode_tp_size},
    {"decode_pp_size", &S::decode_pp_size},
    {"decode_attention_dp_size", &S::decode_attention_dp_size},
    {"decode_moe_tp_size", &S::decode_moe_tp_size},
    {"decode_moe_ep_size", &S::decode_moe_ep_size},
    {"silicon_ttft_ms", &S::silicon_ttft_ms},
    {"silicon_tpot_ms", &S::silicon_tpot_ms},
}};

}  // namespace

std::optional<std::vector<MeasuredServing>> parse_serving(std::string text, std::string name, Diagnostics& d) {
  return CsvTable<MeasuredServing>(columns).parse({std::move(name), std::move(text), {}}, d);
}

std::optional<std::vector<MeasuredServing>> read_serving(const std::filesystem::path& file, Diagnostics& d) {
  std::optional<std::string> text = read_text(file, d);
  if (!text) return std::nullopt;
  return parse_serving(std::move(*text), file.string(), d);
}

bool is_serving_table(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  return in && std::getline(in, line) && line.find("silicon_tpot_ms") != std::string::npos;
}

}  // namespace orrery
