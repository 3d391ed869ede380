#include "sweep/sweep_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/base/nearest.hpp"
#include "core/base/toml_document.hpp"
#include "core/base/toml_reader.hpp"

namespace orrery {
namespace {

constexpr std::array<std::string_view, 8> settings = {"plan",     "objective",     "only",       "all",
                                                      "software", "memory_margin", "keep_below", "tokens"};

/// A value as a word of a list; false for tables, dates and lists.
bool word_of(const TomlNode& node, std::string& into) {
  if (const auto* text = std::get_if<std::string>(&node.value)) {
    into = *text;
  } else if (const auto* whole = std::get_if<std::int64_t>(&node.value)) {
    into = fmt::format("{}", *whole);
  } else if (const auto* number = std::get_if<double>(&node.value)) {
    into = fmt::format("{}", *number);
  } else if (const auto* truth = std::get_if<bool>(&node.value)) {
    into = *truth ? "true" : "false";
  } else {
    return false;
  }
  return true;
}

/// Reads the tables of one file.
class Reader {
 public:
  Reader(const TomlDocument& document, Diagnostics& d) : origin_(document.origin), d_(d) {}

  void sweep(const TomlNode::Table& table, SweepFile& into) {
    for (const TomlNode::Entry& entry : table) {
      if (entry.key == "case") {
        cases(entry.value, into);
      } else if (entry.key == "all" && !std::holds_alternative<bool>(entry.value.value)) {
        refuse(entry.value, "file.type", "all is true or false");
      } else if (entry.key == "name") {
        setting(entry, into.name);
      } else if (std::find(settings.begin(), settings.end(), entry.key) != settings.end()) {
        setting(entry, into.settings[entry.key]);
      } else {
        axis(entry, into.base);
      }
    }
  }

  void refuse(const TomlNode& at, std::string code, std::string message, std::vector<std::string> details = {}) {
    d_.error_at(origin_, at.position, std::move(code), std::move(message), std::move(details));
  }

 private:
  void cases(const TomlNode& node, SweepFile& into) {
    const auto* list = std::get_if<TomlNode::Array>(&node.value);
    if (list == nullptr) return refuse(node, "file.type", "case is a list of tables", {"Write [[sweep.case]]."});
    for (const TomlNode& one : *list) {
      const auto* table = std::get_if<TomlNode::Table>(&one.value);
      if (table == nullptr) {
        refuse(one, "file.type", "a case is a table", {"Write [[sweep.case]]."});
        continue;
      }
      into.cases.emplace_back();
      for (const TomlNode::Entry& entry : *table) axis(entry, into.cases.back());
    }
  }

  void setting(const TomlNode::Entry& entry, std::string& into) {
    if (word_of(entry.value, into)) return;
    refuse(entry.value, "file.type", fmt::format("{} has one value", entry.key));
  }

  void axis(const TomlNode::Entry& entry, std::vector<SweepAxis>& into) {
    const std::optional<SweepKey> key = sweep_key_named(entry.key);
    if (!key) {
      const std::vector<std::string> near = nearest_sweep_keys(entry.key);
      d_.error_at(origin_, entry.value.key_position, "file.unknown-key", fmt::format("unknown key \"{}\"", entry.key),
                  {near.empty() ? "A sweep varies model, cluster, for and the keys of plan files."
                                : fmt::format("Nearest: {}.", fmt::join(near, ", "))});
      return;
    }
    std::string list;
    if (const auto* values = std::get_if<TomlNode::Array>(&entry.value.value)) {
      for (const TomlNode& one : *values) {
        std::string word;
        if (!word_of(one, word))
          return refuse(one, "file.type", fmt::format("a value of {} is a text, a number, true or false", entry.key));
        list += (list.empty() ? "" : ",") + word;
      }
    } else if (!word_of(entry.value, list)) {
      return refuse(entry.value, "file.type", fmt::format("{} has a value, or a list of values", entry.key));
    }
    std::string why;
    std::optional<SweepAxis> read = sweep_axis(*key, list, why);
    if (!read) return refuse(entry.value, "sweep.value", fmt::format("{}: {}", entry.key, why));
    const bool twice = std::any_of(into.begin(), into.end(), [&](const SweepAxis& a) { return a.key == *key; });
    if (twice) return refuse(entry.value, "sweep.value", fmt::format("{} is given twice", key->name()));
    into.push_back(std::move(*read));
  }

  const Origin& origin_;
  Diagnostics& d_;
};

}  // namespace

std::optional<SweepFile> parse_sweep(std::string text, const std::string& file, Diagnostics& d) {
  const std::size_t before = d.size();
  const std::shared_ptr<const TomlDocument> document = parse_document(std::move(text), file, d);
  if (document == nullptr) return std::nullopt;
  TomlTable root(document, &document->root, "", d);
  static_cast<void>(read_schema(root, "sweep", sweep_schema));  // the mistakes are in d
  Reader reader(*document, d);
  SweepFile out;
  bool found = false;
  for (const TomlNode::Entry& entry : std::get<TomlNode::Table>(document->root.value)) {
    if (entry.key == "schema") continue;
    const auto* table = std::get_if<TomlNode::Table>(&entry.value.value);
    if (entry.key == "sweep" && table != nullptr) {
      found = true;
      reader.sweep(*table, out);
    } else {
      d.error_at(document->origin, entry.value.key_position, "file.unknown-key",
                 fmt::format("unknown key \"{}\"", entry.key), {"All keys of a sweep stand in [sweep]."});
    }
  }
  if (!found && d.size() == before) {
    d.error_at(document->origin, {1, 1}, "file.missing-key", "the file has no [sweep]");
  }
  if (d.size() != before) return std::nullopt;
  return out;
}

std::vector<std::vector<SweepAxis>> grids_of(const std::vector<SweepAxis>& base,
                                             const std::vector<std::vector<SweepAxis>>& cases) {
  if (cases.empty()) return {base};
  std::vector<std::vector<SweepAxis>> out;
  for (const std::vector<SweepAxis>& own : cases) {
    std::vector<SweepAxis> grid = own;
    for (const SweepAxis& axis : base) {
      const bool replaced = std::any_of(own.begin(), own.end(), [&](const SweepAxis& a) { return a.key == axis.key; });
      if (!replaced) grid.push_back(axis);
    }
    out.push_back(std::move(grid));
  }
  return out;
}

}  // namespace orrery
