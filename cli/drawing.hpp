#pragma once

#include <string>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

// Graphs in Graphviz' language.
[[nodiscard]] std::string dot_of(const ModelSpec&);
[[nodiscard]] std::string dot_of(const ClusterSpec&);
/// Stages as columns, replicas as rows; at most 8 of each are drawn.
[[nodiscard]] std::string dot_of(const PlannedRun&);
/// What each class of ranks does in a step, and the blocks that run most often: their ops in a column for each
/// lane, and what waits for what across lanes.  At most 160 ops are drawn; what is left out is said.
[[nodiscard]] std::string dot_of(const Program&);

/// What a drawing's file is to hold: "svg", "png", "pdf", "dot" (Graphviz' own language), or nothing of these.
[[nodiscard]] std::string format_of(const std::string& file);

/// Runs Graphviz' `dot` on `text`; `format` is "svg", "png" or "pdf".  Throws
/// Error when dot is missing or fails.
[[nodiscard]] std::string draw(const std::string& text, const std::string& format);

}  // namespace orrery
