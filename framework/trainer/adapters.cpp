#include "framework/trainer/adapters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/spec/adapters.hpp"

// Source of the names of matrices: huggingface/peft@2b3fbc91 src/peft/utils/constants.py, and the model classes of
// transformers that are read here.

namespace orrery {
namespace {

struct Target {
  std::string_view name;
  std::string_view matrices;  ///< of plans, with commas between
};
constexpr std::array targets{Target{"q_proj", "q"},
                             Target{"k_proj", "k"},
                             Target{"v_proj", "v"},
                             Target{"o_proj", "o"},
                             Target{"out_proj", "o"},
                             Target{"gate_proj", "gate"},
                             Target{"up_proj", "up"},
                             Target{"down_proj", "down"},
                             Target{"qkv_proj", "q,k,v"},
                             Target{"query_key_value", "q,k,v"},
                             Target{"c_attn", "q,k,v"},
                             Target{"Wqkv", "q,k,v"},
                             Target{"gate_up_proj", "gate,up"},
                             Target{"dense", "o"},
                             Target{"fc1", "up"},
                             Target{"fc2", "down"},
                             Target{"c_fc", "up"},
                             Target{"dense_h_to_4h", "up"},
                             Target{"dense_4h_to_h", "down"},
                             Target{"all", "all"},
                             Target{"all-linear", "all"}};

/// The names that a list, or a text with commas between, has.
std::vector<std::string> names_of(const LaunchValue& v) {
  std::vector<std::string> names;
  for (const LaunchValue& item : v.items) names.push_back(item.text);
  if (!v.items.empty()) return names;
  std::string_view rest = v.text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) names.emplace_back(word);
  }
  return names;
}

/// Whether a part of the name between points is a number: that of one layer.
bool has_number(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, std::min(name.find('.'), name.size()));
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) return true;
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return false;
}

void read_targets(LaunchReading& r, const AdapterKeys& keys) {
  constexpr const char* into = "workload.adapters.matrices";
  if (!keys.every.empty() && r.toggle(keys.every).value_or(false)) {
    r.set(keys.every, into, "[\"all\"]");
    r.without_effect({keys.targets}, "all matrices of layers have adapters");
    return;
  }
  const LaunchValue* list = r.value(keys.targets);
  if (list == nullptr) {
    if (!keys.usual_targets_all) {
      r.error(keys.targets.empty() ? keys.rank : keys.targets, "adapters need the names of their matrices",
              {"For all matrices of layers: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj."});
    } else {
      r.assume(into, "[\"all\"]", "the program's default: all matrices of layers");
    }
    return;
  }
  if (list->items.empty() && list->text.find_first_of("(|[*\\^$") != std::string::npos) {
    r.error(keys.targets, "patterns of names are not read",
            {fmt::format("It is {}.", list->text.substr(0, 80)), "List the matrices: q_proj, v_proj."});
    return;
  }
  std::string matrices, unknown;
  bool single_layers = false;
  for (const std::string& name : names_of(*list)) {
    single_layers = single_layers || has_number(name);
    const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
    const auto known = std::find_if(targets.begin(), targets.end(), [&](const Target& t) { return t.name == last; });
    if (known == targets.end()) {
      unknown += (unknown.empty() ? "" : ", ") + name.substr(0, 40);
      continue;
    }
    if (known->matrices.find(',') != std::string_view::npos) {
      r.refuse(keys.targets, fmt::format("one adapter of {}, a packed product, is not in plans", known->name),
               "an adapter for each of its matrices");
    }
    std::string_view rest = known->matrices;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string word = fmt::format("\"{}\"", rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (matrices.find(word) == std::string::npos) matrices += (matrices.empty() ? "" : ", ") + word;
    }
  }
  if (matrices.empty()) {
    r.error(keys.targets, "no matrix of a layer is known by these names",
            {fmt::format("They are {}.", unknown.empty() ? "none" : unknown),
             "Known: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, and all-linear."});
    return;
  }
  r.set(keys.targets, into, fmt::format("[{}]", matrices));
  if (single_layers) r.refuse(keys.targets, "adapters of single layers are not in plans", "those of all layers");
  if (unknown.empty()) return;
  r.refuse(keys.targets, fmt::format("adapters of {} are not in plans", unknown), "those of the layers' matrices");
}

}  // namespace

void read_trainer_base(LaunchReading& r, const BaseKeys& keys) {
  constexpr const char* into = "workload.adapters.base";
  if (keys.bits == 8) {
    r.set(keys.key, into, "\"int8\"");
    r.without_effect({keys.type, keys.twice}, "of 4 bits");
    return;
  }
  r.set(keys.key, into, "\"nf4\"");
  if (r.word(keys.type, {"nf4", "fp4"}) == "fp4") {
    r.refuse(keys.type, "FP4 is not in plans", "NF4, of as many bytes");
  } else if (r.value(keys.type) != nullptr) {
    r.take(keys.type, "the format of frozen matrices");
  }
  if (const std::optional<bool> twice = r.toggle(keys.twice)) {
    r.set(keys.twice, "workload.adapters.double_quantization", *twice ? "true" : "false");
  } else {
    r.assume("workload.adapters.double_quantization", "true", "the program's default");
  }
}

void read_trainer_adapters(LaunchReading& r, const AdapterKeys& keys) {
  std::uint64_t rank = keys.usual_rank;
  if (const auto given = r.whole(keys.rank, 1, max_adapter_rank)) {
    rank = *given;
    r.set(keys.rank, "workload.adapters.rank", std::to_string(rank));
  } else if (rank > 0) {
    r.assume("workload.adapters.rank", std::to_string(rank), "the program's default");
  } else {
    r.error(keys.rank, "adapters need a rank");
    return;
  }
  if (const auto alpha = r.real(keys.alpha))
    r.set(keys.alpha, "workload.adapters.alpha", fmt::format("{:.17g}", *alpha));
  if (!keys.rank_stabilized.empty() && r.toggle(keys.rank_stabilized).value_or(false))
    r.set(keys.rank_stabilized, "workload.adapters.rank_stabilized", "true");
  if (r.real(keys.dropout).value_or(0.0) > 0.0) {
    r.refuse(keys.dropout, "dropout in front of adapters is not in plans", "adapters without dropout");
  }
  r.without_effect({keys.dropout}, "it is off");
  read_targets(r, keys);
}

}  // namespace orrery
