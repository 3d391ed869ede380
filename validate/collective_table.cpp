#include "validate/collective_table.hpp"

#include <algorithm>
#include <array>

#include "core/base/toml_reader.hpp"
#include "sim/cost/nccl/nccl_tables.hpp"
#include "validate/csv_table.hpp"

namespace orrery {
namespace {

using R = MeasuredCollective;
const std::array<CsvColumn<R>, 17> columns = {{{"id", &R::id},
                                               {"machine", &R::machine},
                                               {"curve", &R::curve},
                                               {"generation", &R::generation},
                                               {"gpus", &R::gpus},
                                               {"domains", &R::domains},
                                               {"nvlink_gb_s", &R::nvlink_gb_s},
                                               {"port_gb_s", &R::port_gb_s},
                                               {"collective", &R::collective},
                                               {"bytes", &R::bytes},
                                               {"time_us", &R::time_us},
                                               {"without", &R::without},
                                               {"algorithm", &R::algorithm},
                                               {"protocol", &R::protocol},
                                               {"derived", &R::derived},
                                               {"notes", &R::notes},
                                               {"source", &R::source}}};

const std::vector<std::string_view>& algorithm_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (std::size_t i = 0; i < nccl_algorithm_count; ++i) list.push_back(name_of(static_cast<NcclAlgorithm>(i)));
    return list;
  }();
  return names;
}

const std::vector<std::string_view>& protocol_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (std::size_t i = 0; i < nccl_protocol_count; ++i) list.push_back(name_of(static_cast<NcclProtocol>(i)));
    return list;
  }();
  return names;
}

/// Further checks on the cells of a row.
class Checks {
 public:
  Checks(const Origin& origin, std::uint32_t line, Diagnostics& out) : origin_(origin), line_(line), out_(out) {}

  void choice(const char* column, const std::string& value, const std::vector<std::string_view>& names, bool may_lack) {
    if (may_lack && value.empty()) return;
    if (std::find(names.begin(), names.end(), value) != names.end()) return;
    error("runs.choice", fmt::format("{} is \"{}\", which is not known", column, value),
          fmt::format("Known: {}{}.", fmt::join(names, ", "), may_lack ? ", or an empty cell" : ""));
  }
  void domains(const R& row) {
    if (!row.gpus || !row.domains || (*row.gpus % *row.domains == 0 && *row.gpus >= *row.domains)) return;
    error("runs.domains", fmt::format("{} GPUs do not divide equally among {} domains", *row.gpus, *row.domains),
          "A domain is what NVLink joins: a board, or a rack of boards.");
  }

 private:
  void error(const char* code, std::string message, std::string detail) {
    out_.error_at(origin_, {line_, 1}, code, std::move(message), {std::move(detail)});
  }
  const Origin& origin_;
  std::uint32_t line_;
  Diagnostics& out_;
};

}  // namespace

const std::vector<std::string_view>& generation_names() {
  static const std::vector<std::string_view> names{"volta", "ampere", "hopper", "blackwell"};
  return names;
}

const std::vector<std::string_view>& measured_collective_names() {
  static const std::vector<std::string_view> names{"all_reduce", "all_gather", "reduce_scatter",
                                                   "broadcast",  "reduce",     "all_to_all"};
  return names;
}

std::optional<std::vector<R>> parse_collectives(std::string text, std::string name, Diagnostics& diagnostics) {
  const Origin origin{std::move(name), std::move(text), {}};
  std::vector<std::uint32_t> lines;
  auto rows = CsvTable<R>(columns).parse(origin, diagnostics, &lines);
  if (!rows) return rows;
  Diagnostics found;
  for (std::size_t i = 0; i < rows->size() && found.size() < 20; ++i) {
    const R& row = (*rows)[i];
    Checks checks(origin, lines[i], found);
    checks.choice("generation", row.generation, generation_names(), false);
    checks.choice("collective", row.collective, measured_collective_names(), false);
    checks.choice("without", row.without, algorithm_names(), true);
    checks.choice("algorithm", row.algorithm, algorithm_names(), true);
    checks.choice("protocol", row.protocol, protocol_names(), true);
    checks.domains(row);
  }
  for (const Diagnostic& d : found.list()) diagnostics.add(d);
  if (!found.empty()) return std::nullopt;
  return rows;
}

std::optional<std::vector<R>> read_collectives(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_collectives(std::move(*text), file.string(), diagnostics);
}

std::string write_collectives(const std::vector<R>& rows) { return CsvTable<R>(columns).write(rows); }

}  // namespace orrery
