#include "validate/trained_weights.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "validate/cell_words.hpp"

namespace orrery {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

/// Whether it is a rank of latent attention, which has that name too: "q_lora_rank", "kv-lora-rank".
bool is_latent_rank(std::string_view before, std::string_view behind) {
  for (const std::string_view of : {"q-", "q ", "kv-", "kv "}) {
    if (before.ends_with(of) && (behind.starts_with("-rank") || behind.starts_with(" rank"))) return true;
  }
  return false;
}

/// Whether the text names it as a word of its own, and does not deny it.
bool names(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at > 0 && is_letter(text[at - 1])) || (end < text.size() && is_letter(text[end]))) continue;
    const std::string_view before = std::string_view(text).substr(0, at);
    if (is_latent_rank(before, std::string_view(text).substr(end))) continue;
    bool denied = false;
    for (const std::string_view no : {"no ", "not ", "without ", "non-", "no-"}) {
      const std::size_t start = before.size() - std::min(before.size(), no.size());
      denied = denied || (before.ends_with(no) && (start == 0 || !is_letter(before[start - 1])));
    }
    if (!denied) return true;
  }
  return false;
}

template <std::size_t N>
bool names_any(const std::string& text, const std::array<std::string_view, N>& words) {
  for (const std::string_view word : words) {
    if (names(text, word)) return true;
  }
  return false;
}

bool names_few(const std::string& text) {
  return names_any(text, std::array<std::string_view, 4>{"lora", "qlora", "dora", "peft"});
}
bool names_all(const std::string& text) {
  return names_any(text,
                   std::array<std::string_view, 8>{"sft", "full fine-tuning", "full fine-tune", "full finetuning",
                                                   "full finetune", "full-parameter", "full parameter", "all weights"});
}

}  // namespace

TrainedWeights trained_weights(const MeasuredRun& run) {
  const std::string notes = lower_case(run.notes);
  const std::string rest = lower_case(run.model + "; " + run.citation + "; " + run.id);
  const bool few = names_few(notes), all = names_all(notes);
  const bool elsewhere_few = names_few(rest), elsewhere_all = names_all(rest);
  if (few && !all) return TrainedWeights::few;
  if (all && !few) return TrainedWeights::all;
  if (elsewhere_few != elsewhere_all) return elsewhere_few ? TrainedWeights::few : TrainedWeights::all;
  return few || elsewhere_few ? TrainedWeights::unclear : TrainedWeights::all;
}

bool trains_plain_adapters(const MeasuredRun& run) {
  const std::string text = lower_case(run.notes + "; " + run.model + "; " + run.citation + "; " + run.id);
  return !names_any(text, std::array<std::string_view, 2>{"qlora", "dora"});
}

}  // namespace orrery
