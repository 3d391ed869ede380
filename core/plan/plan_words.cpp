#include "core/plan/plan_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/nearest.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

struct Word {
  std::string key, value;
};

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const std::size_t equals = std::min(word.find('='), word.size());
    out.push_back({std::string(word.substr(0, equals)),
                   equals < word.size() ? std::string(word.substr(equals + 1)) : std::string()});
  }
  return out;
}

bool is_put(const Dimension& d) { return d.kind != DimensionKind::written; }

bool is_meant(const Dimension& d, std::string_view word) { return is_put(d) && is_called(d, word); }

/// The value of a word; "off" is an axis of one rank, and elsewhere the first value.
std::optional<std::uint64_t> value_of(const Dimension& d, const std::string& text, std::string& why) {
  std::optional<std::uint64_t> value = value_named(d, text, why);
  if (!value && text == "off") value = is_named(d) ? 0 : d.kind == DimensionKind::axis ? 1 : 0;
  if (value && !is_named(d) && *value != d.usual && (*value < d.least || *value > d.most)) {
    why = fmt::format("It is {}; from {} to {} is allowed.", *value, d.least, d.most);
    return std::nullopt;
  }
  return value;
}

void refuse_key(const std::string& key, Diagnostics& d) {
  std::vector<std::string> known;
  for (const Dimension& row : dimensions()) {
    if (!is_put(row)) continue;
    known.emplace_back(row.word());
    known.insert(known.end(), row.aliases.begin(), row.aliases.end());
  }
  const std::vector<std::string> near = nearest(key, known);
  d.error("plan.words", fmt::format("a plan in one line has no key \"{}\"", key),
          {near.empty() ? "Keys are those of plan files: tp=8 dp=2 mbs=2 zero=1 recompute=full."
                        : fmt::format("Nearest: {}.", fmt::join(near, ", "))});
}

/// Gives data what the other axes leave.
bool fill_data(PlannedRun& run, Diagnostics& d) {
  set_size(run.plan.mesh, Axis::data, 1);
  const std::uint64_t devices = run.cluster->devices(), others = run.plan.mesh.size();
  if (others == 0 || devices % others != 0) {
    d.error("plan.words", fmt::format("{} devices are no multiple of the sizes", devices),
            {fmt::format("They multiply to {}.", others)});
    return false;
  }
  set_size(run.plan.mesh, Axis::data, static_cast<std::uint32_t>(devices / others));
  return true;
}

}  // namespace

bool is_plan_words(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '.'; });
}

bool put_words(PlannedRun& run, std::string_view text, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  const PlannedRun from = run;
  bool data_named = false, mesh_named = false;
  const std::vector<Word> words = words_of(text);
  for (const Word& word : words) {
    for (const Dimension& d : dimensions()) {
      if (!is_meant(d, word.key) || d.kind != DimensionKind::axis) continue;
      std::string why;
      if (!value_of(d, word.value, why)) continue;  // another dimension of that word: tensor=2d
      mesh_named = true;
      data_named = data_named || d.key == "mesh.data";
    }
  }
  if (mesh_named) {
    for (const MeshAxis& axis : from.plan.mesh.axes) set_size(run.plan.mesh, axis.axis, 1);
  }
  std::map<std::string_view, const Word*> said;  // by the dimension's key
  for (const Word& word : words) {
    bool known = false, good = false;
    std::string why, kept;
    for (const Dimension& d : dimensions()) {
      if (!is_meant(d, word.key)) continue;
      known = true;
      why.clear();
      const std::optional<std::uint64_t> value = value_of(d, word.value, why);
      good = value && put(run, d, *value, why);
      if (!good) {
        if (kept.empty()) kept = why;
        continue;
      }
      const auto [other, first] = said.emplace(d.key, &word);
      if (!first) {
        diagnostics.error("plan.words", fmt::format("{} is given twice", d.word()),
                          {fmt::format("{}={} and {}={}: leave one out.", other->second->key, other->second->value,
                                       word.key, word.value)});
      }
      break;
    }
    if (!known) {
      refuse_key(word.key, diagnostics);
    } else if (!good) {
      diagnostics.error("plan.words", fmt::format("{} has no value \"{}\"", word.key, word.value), {kept});
    }
  }
  if (diagnostics.size() != before) return false;
  if (mesh_named && !data_named && !fill_data(run, diagnostics)) return false;
  for (const Dimension& d : dimensions()) {
    std::string ignored;
    if (d.outlived != nullptr && d.outlived(from, run)) static_cast<void>(put(run, d, d.usual, ignored));
  }
  run.plan.origin = {};
  run.workload.origin = {};
  return true;
}

}  // namespace orrery
