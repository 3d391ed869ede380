#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Bits of Adapters::matrices from names ("q", "down"), "all" for all of them; empty where one is `unknown`.
[[nodiscard]] std::optional<std::uint8_t> matrices_named(const std::vector<std::string>&, std::string& unknown);
/// The same from one text with commas between the names.
[[nodiscard]] std::optional<std::uint8_t> matrices_listed(std::string_view, std::string& unknown);
/// "The matrices are q, k, v, o, gate, up and down; all stands for all of them.": what diagnostics say.
[[nodiscard]] std::string matrices_help();

}  // namespace orrery
