#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Which of the `known` models a text names, of `known` its own spelling; empty: none of them.
///
/// Case, dots, dashes and underscores mean nothing, nor do an owner before a slash, "Meta" and what a model was tuned
/// for behind its name ("Instruct", "chat", "hf"): "meta-llama/Meta-Llama-3-8B-Instruct" and "LLAMA3_8B" are
/// llama-3-8b. Numbers and letters have to be the same ones in the same order, but for the common names of some
/// (DeepSeek-R1 has V3's shape).  Remarks that change no shape may stand in brackets: "DeepSeekV3 (tokendrop)".
[[nodiscard]] std::string shipped_model_named(std::string_view text, const std::vector<std::string>& known);

}  // namespace orrery
