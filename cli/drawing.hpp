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
/// Draws stages as columns and replicas as rows, at most 8 of each.
[[nodiscard]] std::string dot_of(const PlannedRun&);
/// Draws the ops of each class of ranks in a step, and the blocks that run most often. Their ops stand in a column for
/// each lane, with the waits across lanes. At most 160 ops are drawn; the picture says what is left out.
[[nodiscard]] std::string dot_of(const Program&);

/// The format of a drawing's file: "svg", "png", "pdf", "dot" (Graphviz' own language), or none of these.
[[nodiscard]] std::string format_of(const std::string& file);

/// Runs Graphviz' `dot` on `text`; `format` is "svg", "png" or "pdf".  Throws
/// Error when dot is missing or fails.
[[nodiscard]] std::string draw(const std::string& text, const std::string& format);

}  // namespace orrery
