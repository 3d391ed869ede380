#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/program.hpp"

namespace orrery {

/// The text form of a Program: one op per line, in a stable order, for golden tests, error messages and review.
/// docs/program-format.md has the grammar; a text looks like this:
///
///     orrery-program 1
///     mesh pipeline=1 data=1 tensor=2
///     ...
///     block forward forward
///       0: alloc y
///       1: compute gemm forward f32 rows=4 columns=8 depth=8 (read x, read w, write y) after tail tensor
///       2: tensor all_reduce sum tensor (accumulate y) after 1
inline constexpr std::uint32_t program_text_version = 1;

/// The whole Program; `read_program` gives back an equal one.
///
/// Requires what `verify` checks as the rule "program.layout": ids in bounds
/// and the flat arrays of a block dense in op order.
[[nodiscard]] std::string write_program(const Program&);

/// Reads the text form.  `file` is named in the diagnostics (codes
/// "program.version", "program.syntax", "program.name", "program.number",
/// "program.size").  Promises names that resolve and numbers in the range of
/// their type; whether the Program makes sense is for `verify` to say.
[[nodiscard]] std::optional<Program> read_program(std::string_view text, const std::string& file, Diagnostics&);

/// One op as a line of its block, without the number in front: "tensor
/// all_reduce sum tensor (accumulate y) after 1".
[[nodiscard]] std::string op_text(const Program&, const Block&, const Op&);
/// Lines of several ops of a block. The names in a Program are counted only once.
[[nodiscard]] std::vector<std::string> op_texts(const Program&, const Block&, std::span<const Op>);

/// The expanded list of one rank for people: op id, layer and microbatch, op. The listing cannot be read back. Setup
/// comes first, its ops without ids.
[[nodiscard]] std::string write_rank(const Program&, Rank);

}  // namespace orrery
