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
    const std::size_t dash = word.rfind('-');
    if (dash == std::string::npos) break;
    const std::string_view last = std::string_view(word).substr(dash + 1);
    if (std::find(endings.begin(), endings.end(), last) == endings.end()) break;
    word.erase(dash);
  }
  return std::nullopt;
}

}  // namespace orrery
