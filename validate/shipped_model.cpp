#include "validate/shipped_model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "validate/cell_words.hpp"

namespace orrery {
namespace {

using Parts = std::vector<std::string>;

/// Other names of shipped models, in any spelling.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> common_names = {{
    {"deepseek-v3-671b", "deepseek-v3"},
    {"deepseek-v3-0324", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v2-236b", "deepseek-v2"},
    {"deepseek-v2-lite-16b", "deepseek-v2-lite"},
    {"grok-1-314b", "grok-1"},
    {"kimi-k2.5", "kimi-k2"},
    {"minimax-m2.5", "minimax-m2"},
    {"llama-3.1-8b", "llama-3-8b"},
    {"llama-3.1-70b", "llama-3-70b"},
    {"llama-3.3-70b", "llama-3-70b"},
    {"llama-3.1-405b", "llama-3-405b"},
    {"gpt2", "gpt2-124m"},
    {"gpt2-medium", "gpt2-355m"},
    {"gpt2-large", "gpt2-774m"},
    {"gpt2-xl", "gpt2-1.5b"},
}};

bool is_tuning(std::string_view word) {
  constexpr std::array known = {"meta", "instruct", "base", "chat", "hf"};
  return std::find(known.begin(), known.end(), word) != known.end();
}

/// Letters and numbers of a name in turn, in lower case.
Parts parts_of(std::string_view name) {
  Parts out;
  int before = 0;  // 1: a letter, 2: a digit
  for (const char c : lower_case(name)) {
    const int kind = c >= 'a' && c <= 'z' ? 1 : c >= '0' && c <= '9' ? 2 : 0;
    if (kind == 0 && c != '-' && c != '_' && c != '.' && c != ' ') return {};
    if (kind != 0 && kind != before) out.emplace_back();
    if (kind != 0) out.back() += c;
    before = kind;
  }
  std::erase_if(out, is_tuning);
  // The name ends with a release of the weights: "Mixtral-8x7B-v0.1".
  const std::size_t n = out.size();
  if (n > 3 && out[n - 3] == "v" && out[n - 2] == "0") out.resize(n - 3);
  // "DeepSeek-V3" and "deepseekv3".
  Parts joined;
  for (std::string& part : out) {
    const bool digits = part.front() >= '0' && part.front() <= '9';
    if (!digits && !joined.empty() && joined.back().front() >= 'a') {
      joined.back() += part;
    } else {
      joined.push_back(std::move(part));
    }
  }
  return joined;
}

/// The text before the brackets, where these say nothing of the shape but the number of layers, which has a column.
std::optional<std::string_view> without_remark(std::string_view text) {
  const std::size_t begin = std::min(text.find('('), text.size());
  CellWords remark(text.substr(begin));
  remark.take_remarks([](std::string_view r) {
    constexpr std::string_view layers = " layers";
    return r == "tokendrop" || r == "w/o mtp" ||
           (r.ends_with(layers) && number_of_word(r.substr(0, r.size() - layers.size())) > 0);
  });
  if (!remark.done()) return std::nullopt;
  text = text.substr(0, begin);
  const std::size_t owner = text.rfind('/');
  return owner == std::string_view::npos ? text : text.substr(owner + 1);
}

}  // namespace

std::string shipped_model_named(std::string_view text, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), text) != known.end()) return std::string(text);
  const std::optional<std::string_view> name = without_remark(text);
  if (!name) return {};
  const Parts parts = parts_of(*name);
  if (parts.empty()) return {};
  for (const std::string& model : known) {
    if (parts_of(model) == parts) return model;
  }
  for (const auto& [common, model] : common_names) {
    if (parts_of(common) == parts && std::find(known.begin(), known.end(), model) != known.end())
      return std::string(model);
  }
  return {};
}

}  // namespace orrery
