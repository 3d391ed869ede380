#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/base/toml_reader.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"
#include "core/spec/reliability_spec.hpp"

namespace orrery {

// Reliability files, docs/forecast.md. A file has `schema = 1` and a table [reliability]; a cluster's file may
// hold the same table beside [cluster], or name a file: reliability = "llama-3".
//
// Codes: reliability.source  reliability.slow  library.unknown-reliability, and those of the TOML reader

/// Reads the table. A figure without a source is a mistake.
[[nodiscard]] std::optional<ReliabilitySpec> read_reliability(TomlTable& reliability);
[[nodiscard]] std::optional<ReliabilitySpec> parse_reliability(std::string text, std::string name, Diagnostics&);

/// The shipped file of that name, or a path that ends in .toml and counts from `relative_to`.
[[nodiscard]] std::optional<ReliabilitySpec> find_reliability(const Library&, const std::string& reference,
                                                              const std::filesystem::path& relative_to, Diagnostics&);
/// What the file of a cluster holds or names; empty, without a mistake, where it says nothing of it.
[[nodiscard]] std::optional<ReliabilitySpec> reliability_of(const ClusterSpec&, const Library&, Diagnostics&);
/// Checks the key `reliability` of a cluster's file, so that it is known there.
void check_reliability_key(TomlTable& root);

/// Text that reads back equal.
[[nodiscard]] std::string write_reliability(const ReliabilitySpec&);

}  // namespace orrery
