#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// One measured collective: a row of a table such as traces/measured/collectives.csv.  docs/validate.md says what each
/// column means.
struct MeasuredCollective {
  std::string id, machine, curve, generation;
  std::optional<std::uint64_t> gpus, domains;
  std::optional<double> nvlink_gb_s, port_gb_s;
  std::string collective;
  std::optional<double> bytes, time_us;
  std::string without, algorithm, protocol, derived, notes, source;
  friend bool operator==(const MeasuredCollective&, const MeasuredCollective&) = default;
};

/// Reads a table of measured collectives as CsvTable has it.  Besides, generation is that of a GPU, collective is one
/// that NCCL makes, algorithm, protocol and without are NCCL's names or empty, and gpus are a multiple of domains.
///
/// Codes: those of CsvTable; runs.choice, runs.domains; file.* of the file itself
[[nodiscard]] std::optional<std::vector<MeasuredCollective>> read_collectives(const std::filesystem::path&,
                                                                              Diagnostics&);
[[nodiscard]] std::optional<std::vector<MeasuredCollective>> parse_collectives(std::string text, std::string name,
                                                                               Diagnostics&);

/// The table as text that reads back equal.
[[nodiscard]] std::string write_collectives(const std::vector<MeasuredCollective>&);

/// Names of columns with a choice, in the order of their enumerators.
[[nodiscard]] const std::vector<std::string_view>& generation_names();
[[nodiscard]] const std::vector<std::string_view>& measured_collective_names();

}  // namespace orrery
