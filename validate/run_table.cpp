#include "validate/run_table.hpp"

#include <array>
#include <utility>

#include "core/base/toml_reader.hpp"
#include "validate/csv_table.hpp"

namespace orrery {
namespace {

using R = MeasuredRun;
/// Columns stand in the order in which tables are written.
const std::array<CsvColumn<R>, 46> columns = {{{"id", &R::id},
                                               {"source", &R::source},
                                               {"citation", &R::citation},
                                               {"provenance", &R::provenance},
                                               {"gpu", &R::gpu},
                                               {"gpu_mem_gb", &R::gpu_mem_gb},
                                               {"gpus", &R::gpus},
                                               {"gpus_per_node", &R::gpus_per_node},
                                               {"intra_link", &R::intra_link},
                                               {"inter_net", &R::inter_net},
                                               {"model", &R::model},
                                               {"layers", &R::layers},
                                               {"hidden", &R::hidden},
                                               {"ffn", &R::ffn},
                                               {"heads", &R::heads},
                                               {"kv_heads", &R::kv_heads},
                                               {"seq", &R::seq},
                                               {"vocab", &R::vocab},
                                               {"experts", &R::experts},
                                               {"topk", &R::topk},
                                               {"activation", &R::activation},
                                               {"precision", &R::precision},
                                               {"gbs", &R::gbs},
                                               {"mbs", &R::mbs},
                                               {"tp", &R::tp},
                                               {"pp", &R::pp},
                                               {"vp", &R::vp},
                                               {"dp", &R::dp},
                                               {"cp", &R::cp},
                                               {"ep", &R::ep},
                                               {"etp", &R::etp},
                                               {"sp", &R::sp},
                                               {"zero", &R::zero},
                                               {"recompute", &R::recompute},
                                               {"framework", &R::framework},
                                               {"iter_s", &R::iter_s},
                                               {"tflops_gpu", &R::tflops_gpu},
                                               {"tok_s_gpu", &R::tok_s_gpu},
                                               {"samples_s", &R::samples_s},
                                               {"mfu_pct", &R::mfu_pct},
                                               {"hfu_pct", &R::hfu_pct},
                                               {"peak_mem_gb", &R::peak_mem_gb},
                                               {"peak_mem_kind", &R::peak_mem_kind},
                                               {"flop_convention", &R::flop_convention},
                                               {"derived", &R::derived},
                                               {"notes", &R::notes}}};

}  // namespace

std::optional<std::vector<MeasuredRun>> parse_runs(std::string text, std::string name, Diagnostics& diagnostics) {
  return CsvTable<MeasuredRun>(columns).parse({std::move(name), std::move(text), {}}, diagnostics);
}

std::optional<std::vector<MeasuredRun>> read_runs(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_runs(std::move(*text), file.string(), diagnostics);
}

std::string write_runs(const std::vector<MeasuredRun>& runs) { return CsvTable<MeasuredRun>(columns).write(runs); }

}  // namespace orrery
