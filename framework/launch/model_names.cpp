#include "framework/launch/model_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace orrery {
namespace {

/// Words at the end of a name that say how weights were trained or stored. Versions are not among them: they change
/// vocabularies (Mistral-7B-v0.3).
constexpr std::array<std::string_view, 16> endings{"hf",   "instruct", "base",     "chat",   "it",  "pt",
                                                   "bf16", "fp16",     "2507",     "sft",    "dpo", "v0.1",
                                                   "bnb",  "4bit",     "thinking", "unsloth"};

/// Published names of other spelling, whose configurations have the shipped shape and vocabulary: the same architecture
/// trained on other tokens, or a name without its size. Weights, rotary bases and longest contexts may differ.
struct Alias {
  std::string_view name, shipped;
};
constexpr std::array aliases{
    Alias{"gpt2", "gpt2-124m"},
    Alias{"gpt2-medium", "gpt2-355m"},
    Alias{"gpt2-large", "gpt2-774m"},
    Alias{"gpt2-xl", "gpt2-1.5b"},
    Alias{"bloom", "bloom-176b"},
    Alias{"open-llama-7b", "llama-7b"},
    Alias{"open-llama-7b-v2", "llama-7b"},
    Alias{"open-llama-13b", "llama-13b"},
    Alias{"vicuna-7b-v1.5", "llama-2-7b"},
    Alias{"vicuna-13b-v1.5", "llama-2-13b"},
    Alias{"tinyllama-v1.1", "tinyllama-1.1b"},
    Alias{"tinyllama-1.1b-chat-v1.0", "tinyllama-1.1b"},
    Alias{"llama-3.3-70b", "llama-3.1-70b"},
    Alias{"deepseek-r1-distill-llama-8b", "llama-3.1-8b"},
    Alias{"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    Alias{"llama-4-scout-17b-16e", "llama-4-scout-109b-a17b"},
    Alias{"llama-4-maverick-17b-128e", "llama-4-maverick-400b-a17b"},
    Alias{"zephyr-7b-alpha", "mistral-7b"},
    Alias{"zephyr-7b-beta", "mistral-7b"},
    Alias{"mistral-nemo-base-2407", "mistral-nemo-12b"},
    Alias{"mistral-nemo-instruct-2407", "mistral-nemo-12b"},
    Alias{"mistral-small-24b-base-2501", "mistral-small-24b"},
    Alias{"mistral-small-24b-instruct-2501", "mistral-small-24b"},
    Alias{"magistral-small-2506", "mistral-small-24b"},
    Alias{"mistral-large-instruct-2407", "mistral-large-123b"},
    Alias{"yi-34b", "yi-1.5-34b"},
    Alias{"qwen2-0.5b", "qwen2.5-0.5b"},
    Alias{"qwen2-1.5b", "qwen2.5-1.5b"},
    Alias{"qwen2-7b", "qwen2.5-7b"},
    Alias{"qwen2-72b", "qwen2.5-72b"},
    Alias{"qwen2.5-coder-0.5b", "qwen2.5-0.5b"},
    Alias{"qwen2.5-coder-1.5b", "qwen2.5-1.5b"},
    Alias{"qwen2.5-coder-3b", "qwen2.5-3b"},
    Alias{"qwen2.5-coder-7b", "qwen2.5-7b"},
    Alias{"qwen2.5-coder-14b", "qwen2.5-14b"},
    Alias{"qwen2.5-coder-32b", "qwen2.5-32b"},
    Alias{"qwen2.5-math-1.5b", "qwen2.5-1.5b"},
    Alias{"qwen2.5-math-7b", "qwen2.5-7b"},
    Alias{"qwen2.5-math-72b", "qwen2.5-72b"},
    Alias{"qwq-32b", "qwen2.5-32b"},
    Alias{"deepseek-r1-distill-qwen-7b", "qwen2.5-7b"},
    Alias{"deepseek-r1-distill-qwen-14b", "qwen2.5-14b"},
    Alias{"deepseek-r1-distill-qwen-32b", "qwen2.5-32b"},
    Alias{"deepseek-v2.5", "deepseek-v2"},
    Alias{"deepseek-v3-0324", "deepseek-v3"},
    Alias{"deepseek-r1", "deepseek-v3"},
    Alias{"deepseek-r1-0528", "deepseek-v3"},
    Alias{"gpt-oss-safeguard-20b", "gpt-oss-20b"},
    Alias{"gpt-oss-safeguard-120b", "gpt-oss-120b"},
    Alias{"phi-3-mini-4k", "phi-3-mini-3.8b"},
    Alias{"phi-4", "phi-4-14b"},
    Alias{"phi-4-reasoning", "phi-4-14b"},
    Alias{"gemma-1.1-2b", "gemma-2b"},
    Alias{"gemma-1.1-7b", "gemma-7b"},
    Alias{"codegemma-7b", "gemma-7b"},
    Alias{"glm-4.5", "glm-4.5-355b-a32b"},
    Alias{"glm-4.5-air", "glm-4.5-air-106b-a12b"},
    Alias{"olmo-2-1124-7b", "olmo-2-7b"},
    Alias{"olmo-2-1124-13b", "olmo-2-13b"},
    Alias{"olmo-2-0325-32b", "olmo-2-32b"},
    Alias{"olmo-3-1025-7b", "olmo-3-7b"},
    Alias{"olmo-3-1125-32b", "olmo-3-32b"},
    Alias{"olmoe-1b-7b-0924", "olmoe-7b-a1b"},
    Alias{"dbrx", "dbrx-132b"},
    Alias{"c4ai-command-r-v01", "command-r-35b"},
    Alias{"c4ai-command-r7b-12-2024", "command-r7b"},
    Alias{"exaone-4.0-32b", "exaone-4-32b"},
    Alias{"pythia-6.9b-deduped", "pythia-6.9b"},
};

std::string plain(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string out;
  for (const char c : name) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c == '_' ? '-' : c;
  return out;
}

std::string joined(const std::string& name) {
  std::string out = name;
  std::erase(out, '-');
  return out;
}

}  // namespace

std::optional<std::string> shipped_model_of(const std::string& name, const Library& library) {
  const std::vector<std::string> shipped = library.models();
  std::string word = plain(name);
  if (word.starts_with("meta-llama")) word.erase(0, 5);
  while (!word.empty()) {
    for (const std::string& known : shipped) {
      if (joined(known) == joined(word)) return known;
    }
    const auto alias = std::find_if(aliases.begin(), aliases.end(), [&](const Alias& a) { return a.name == word; });
    if (alias != aliases.end() && std::find(shipped.begin(), shipped.end(), alias->shipped) != shipped.end()) {
      return std::string(alias->shipped);
    }
    const std::size_t dash = word.rfind('-');
    if (dash == std::string::npos) break;
    const std::string_view last = std::string_view(word).substr(dash + 1);
    if (std::find(endings.begin(), endings.end(), last) == endings.end()) break;
    word.erase(dash);
  }
  return std::nullopt;
}

}  // namespace orrery
