#pragma once

#include "core/base/diagnostics.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

// The tables [model.mixture] and [workload.routing], and the rules for them wherever they come from; parts of the
// readers and checks of spec_files.hpp.

void read_mixture(TomlTable, Mixture&);
void write_mixture(TomlWriter&, const Mixture&);
/// Codes: model.mixture, model.range.
[[nodiscard]] bool check_mixture_spec(const ModelSpec&, Diagnostics&);

/// Reads the recorded table too.
void read_routing(TomlTable, Routing&);
void write_routing(TomlWriter&, const Routing&, std::string_view path);
/// Codes: workload.routing, workload.range.
[[nodiscard]] bool check_routing(const Workload&, Diagnostics&);

/// Reads the loads of experts, a row for each layer: numbers from 0 on, separated by blanks or commas. A # begins a
/// comment to the end of the line, and empty lines do not count. Empty after a mistake, which is in `diagnostics` with
/// its line. Code: workload.routing
[[nodiscard]] std::vector<std::vector<double>> parse_routing_table(std::string text, std::string name, Diagnostics&);

}  // namespace orrery
