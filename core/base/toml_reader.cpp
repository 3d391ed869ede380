#include "core/base/toml_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/base/nearest.hpp"
#include "core/base/toml_document.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

std::string_view kind_of(const TomlNode& node) {
  constexpr std::string_view names[] = {
      "text", "a whole number", "a number with a fraction", "true or false", "a date", "an array", "a table"};
  return names[node.value.index()];
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string out;
  for (const std::string_view n : names) out += (out.empty() ? "" : ", ") + std::string(n);
  return out;
}

template <class T>
std::string number_text(T value) {
  return fmt::format("{}", value);
}

/// The text "from 0 to below 1 is", for limits whose ends are `least` and `most`.
template <class T>
std::string allowed(const Limits<T>& limits, const std::string& least, const std::string& most) {
  if (limits.least == limits.most) return fmt::format("only {} is", least);
  if (limits.least_open && !limits.most_open) return fmt::format("above {} and at most {} is", least, most);
  return fmt::format("{} {} to {}{} is", limits.least_open ? "above" : "from", least, limits.most_open ? "below " : "",
                     most);
}

template <class T>
std::string allowed(const Limits<T>& limits) {
  return allowed(limits, number_text(limits.least), number_text(limits.most));
}

}  // namespace

TomlTable::TomlTable(std::shared_ptr<const TomlDocument> document, const TomlNode* node, std::string path,
                     Diagnostics& diagnostics)
    : document_(std::move(document)), node_(node), path_(std::move(path)), diagnostics_(&diagnostics) {}

const TomlNode* TomlTable::peek(std::string_view key) const {
  const std::string_view written = as_written(key);
  for (const auto& [name, child] : std::get<TomlNode::Table>(node_->value)) {
    if (name == written) return &child;
  }
  return nullptr;
}

std::string_view TomlTable::as_written(std::string_view key) const {
  for (const auto& [shorthand, full] : shorthands_) {
    if (full == key) return shorthand;
  }
  return key;
}

void TomlTable::also(std::string_view key, std::string_view shorthand) {
  if (!has(shorthand)) return;
  known_.emplace_back(shorthand);
  if (has(key)) {
    error(shorthand, "file.twice", fmt::format("{} and {} are the same key", path(key), path(shorthand)),
          {"Give one of them."});
    return;
  }
  shorthands_.emplace_back(shorthand, key);
}

const TomlNode* TomlTable::find(std::string_view key, Need need) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const TomlNode* found = peek(key);
  if (found == nullptr && need == Need::required) {
    error(key, "file.missing-key",
          path_.empty() ? fmt::format("the key {} is missing", key)
                        : fmt::format("the key {} is missing from [{}]", key, path_));
  }
  return found;
}

bool TomlTable::has(std::string_view key) const { return peek(key) != nullptr; }

bool TomlTable::is_text(std::string_view key) const {
  const TomlNode* node = peek(key);
  return node != nullptr && std::holds_alternative<std::string>(node->value);
}

std::optional<std::int64_t> TomlTable::peek_whole(std::string_view key) const {
  const TomlNode* node = peek(key);
  const auto* value = node == nullptr ? nullptr : std::get_if<std::int64_t>(&node->value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::vector<std::string> TomlTable::keys() const {
  std::vector<std::string> out;
  for (const auto& [name, child] : std::get<TomlNode::Table>(node_->value)) out.push_back(name);
  return out;
}

std::string TomlTable::path(std::string_view key) const {
  const std::string written(as_written(key));
  if (path_.empty()) return written;
  return key.empty() ? path_ : path_ + "." + written;
}

const Origin& TomlTable::origin() const { return document_->origin; }

void TomlTable::error(std::string_view key, std::string code, std::string message, std::vector<std::string> details) {
  diagnostics_->error(origin(), path(key), std::move(code), std::move(message), std::move(details));
}

void TomlTable::wrong_type(std::string_view key, std::string_view wanted, const TomlNode& node) {
  error(key, "file.type", fmt::format("{} is {}, but must be {}", path(key), kind_of(node), wanted));
}

void TomlTable::out_of_range(std::string_view key, const std::string& value, const std::string& allowed) {
  error(key, "file.range", fmt::format("{} is out of range", path(key)),
        {fmt::format("It is {}; {} allowed.", value, allowed)});
}

void TomlTable::too_many(std::string_view key, std::size_t count, std::size_t most) {
  error(key, "file.range", fmt::format("{} is too long", path(key)),
        {fmt::format("It has {} items; at most {} are allowed.", count, most)});
}

bool TomlTable::read(std::string_view key, std::string& into, Need need, std::size_t most) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* text = std::get_if<std::string>(&node->value);
  if (text == nullptr) return wrong_type(key, "text in quotes", *node), false;
  if (text->size() > most) {
    error(key, "file.range", fmt::format("{} is too long", path(key)),
          {fmt::format("It has {} bytes; at most {} are allowed.", text->size(), most)});
    return false;
  }
  into = *text;
  return true;
}

bool TomlTable::read(std::string_view key, bool& into, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* value = std::get_if<bool>(&node->value);
  if (value == nullptr) return wrong_type(key, "true or false", *node), false;
  into = *value;
  return true;
}

bool TomlTable::read(std::string_view key, std::uint64_t& into, Limits<std::uint64_t> limits, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* value = std::get_if<std::int64_t>(&node->value);
  if (value == nullptr) return wrong_type(key, "a whole number", *node), false;
  if (*value < 0 || !limits.contain(static_cast<std::uint64_t>(*value))) {
    out_of_range(key, number_text(*value), allowed(limits));
    return false;
  }
  into = static_cast<std::uint64_t>(*value);
  return true;
}

bool TomlTable::read(std::string_view key, std::uint32_t& into, Limits<std::uint32_t> limits, Need need) {
  std::uint64_t value = 0;
  if (!read(key, value, Limits<std::uint64_t>{limits.least, limits.most, limits.least_open, limits.most_open}, need))
    return false;
  into = static_cast<std::uint32_t>(value);
  return true;
}

bool TomlTable::read(std::string_view key, double& into, Limits<double> limits, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  double value = 0.0;
  if (const auto* number = std::get_if<double>(&node->value)) {
    value = *number;
  } else if (const auto* whole = std::get_if<std::int64_t>(&node->value)) {
    value = static_cast<double>(*whole);
  } else {
    return wrong_type(key, "a number", *node), false;
  }
  if (!limits.contain(value)) {
    out_of_range(key, number_text(value), allowed(limits));
    return false;
  }
  into = value;
  return true;
}

template <class Q>
bool TomlTable::read_quantity(std::string_view key, Q& into, Limits<Q> limits, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  Q value;
  std::string problem;
  const auto* text = std::get_if<std::string>(&node->value);
  if (text == nullptr) {
    // Numbers without quotes have no unit: say what a good value looks like.
    parse_quantity("0", value, problem);
    const std::string example = problem.substr(problem.find('"'));
    error(key, "file.unit", fmt::format("{} is {}, but must be a quantity in quotes", path(key), kind_of(*node)),
          {fmt::format("Write for example {}.", example)});
    return false;
  }
  if (!parse_quantity(*text, value, problem)) {
    error(key, "file.unit", fmt::format("{} is not a quantity: {}", path(key), problem));
    return false;
  }
  if (!limits.contain(value)) {
    // The value is printed exactly: shortened, a value just beyond a limit would look like the limit.
    out_of_range(key, exact_text(value), allowed(limits, exact_text(limits.least), exact_text(limits.most)));
    return false;
  }
  into = value;
  return true;
}

bool TomlTable::read(std::string_view key, Bytes& into, Limits<Bytes> limits, Need need) {
  return read_quantity(key, into, limits, need);
}
bool TomlTable::read(std::string_view key, Bandwidth& into, Limits<Bandwidth> limits, Need need) {
  return read_quantity(key, into, limits, need);
}
bool TomlTable::read(std::string_view key, Seconds& into, Limits<Seconds> limits, Need need) {
  return read_quantity(key, into, limits, need);
}
bool TomlTable::read(std::string_view key, FlopRate& into, Limits<FlopRate> limits, Need need) {
  return read_quantity(key, into, limits, need);
}

bool TomlTable::read(std::string_view key, std::vector<std::uint32_t>& into, Limits<std::uint32_t> each,
                     std::size_t most, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* array = std::get_if<TomlNode::Array>(&node->value);
  if (array == nullptr) return wrong_type(key, "an array of whole numbers", *node), false;
  if (array->size() > most) {
    too_many(key, array->size(), most);
    return false;
  }
  std::vector<std::uint32_t> values;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string item = fmt::format("{}.{}", key, i);
    const auto* value = std::get_if<std::int64_t>(&(*array)[i].value);
    if (value == nullptr) return wrong_type(item, "a whole number", (*array)[i]), false;
    if (*value < 0 || *value > std::numeric_limits<std::uint32_t>::max() ||
        !each.contain(static_cast<std::uint32_t>(*value))) {
      out_of_range(item, number_text(*value), allowed(each));
      return false;
    }
    values.push_back(static_cast<std::uint32_t>(*value));
  }
  into = std::move(values);
  return true;
}

bool TomlTable::read(std::string_view key, std::vector<double>& into, Limits<double> each, std::size_t most,
                     Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* array = std::get_if<TomlNode::Array>(&node->value);
  if (array == nullptr) return wrong_type(key, "an array of numbers", *node), false;
  if (array->size() > most) {
    too_many(key, array->size(), most);
    return false;
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string item = fmt::format("{}.{}", key, i);
    const TomlNode& at = (*array)[i];
    double value = 0.0;
    if (const auto* number = std::get_if<double>(&at.value)) {
      value = *number;
    } else if (const auto* whole = std::get_if<std::int64_t>(&at.value)) {
      value = static_cast<double>(*whole);
    } else {
      return wrong_type(item, "a number", at), false;
    }
    if (!each.contain(value)) {
      out_of_range(item, number_text(value), allowed(each));
      return false;
    }
    values.push_back(value);
  }
  into = std::move(values);
  return true;
}

bool TomlTable::read(std::string_view key, std::vector<std::string>& into, std::size_t most, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return false;
  const auto* array = std::get_if<TomlNode::Array>(&node->value);
  if (array == nullptr) return wrong_type(key, "an array of texts", *node), false;
  if (array->size() > most) {
    too_many(key, array->size(), most);
    return false;
  }
  std::vector<std::string> values;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto* text = std::get_if<std::string>(&(*array)[i].value);
    if (text == nullptr) return wrong_type(fmt::format("{}.{}", key, i), "text in quotes", (*array)[i]), false;
    values.push_back(*text);
  }
  into = std::move(values);
  return true;
}

bool TomlTable::read_choice(std::string_view key, const std::vector<std::string_view>& names, std::size_t& into,
                            Need need) {
  std::string text;
  if (!read(key, text, need)) return false;
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    std::vector<std::string> details{fmt::format("Known: {}.", joined(names))};
    error(key, "file.choice", fmt::format("{} is \"{}\", which is not known", path(key), text), std::move(details));
    return false;
  }
  into = static_cast<std::size_t>(found - names.begin());
  return true;
}

bool TomlTable::read_auto(std::string_view key) {
  const TomlNode* node = find(key, Need::optional);
  const auto* text = node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return text != nullptr && *text == "auto";
}

std::optional<TomlTable> TomlTable::table(std::string_view key, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return std::nullopt;
  if (!std::holds_alternative<TomlNode::Table>(node->value)) return wrong_type(key, "a table", *node), std::nullopt;
  return TomlTable(document_, node, path(key), *diagnostics_);
}

std::vector<TomlTable> TomlTable::tables(std::string_view key, std::size_t most, Need need) {
  const TomlNode* node = find(key, need);
  if (node == nullptr) return {};
  const auto* array = std::get_if<TomlNode::Array>(&node->value);
  if (array == nullptr) return wrong_type(key, "an array of tables", *node), std::vector<TomlTable>{};
  if (array->size() > most) {
    too_many(key, array->size(), most);
    return {};
  }
  std::vector<TomlTable> out;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string item = fmt::format("{}.{}", key, i);
    if (!std::holds_alternative<TomlNode::Table>((*array)[i].value)) {
      wrong_type(item, "a table", (*array)[i]);
      return {};
    }
    out.emplace_back(document_, &(*array)[i], path(item), *diagnostics_);
  }
  return out;
}

void TomlTable::add_from(std::string_view key, const Diagnostics& found) {
  diagnostics_->add_from(origin(), path(key), found);
}

void TomlTable::finish() {
  for (const auto& [name, child] : std::get<TomlNode::Table>(node_->value)) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    std::vector<std::string> details;
    const std::vector<std::string> near = nearest(name, known_, 1);
    if (!near.empty()) {
      details.push_back(fmt::format("Did you mean {}?", near.front()));
    } else {
      std::string all;
      for (const std::string& k : known_) all += (all.empty() ? "" : ", ") + k;
      details.push_back(fmt::format("Known: {}.", all));
    }
    diagnostics_->error_at(origin(), child.key_position, "file.unknown-key",
                           fmt::format("{} is not a known key", path(name)), std::move(details));
  }
}

std::optional<std::string> read_text(const std::filesystem::path& file, Diagnostics& diagnostics, std::size_t most) {
  const auto refuse = [&](std::string why) {
    Diagnostic d;
    d.file = file.string();
    d.code = "file.open";
    d.message = std::move(why);
    diagnostics.add(std::move(d));
    return std::nullopt;
  };
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (!std::filesystem::exists(status)) return refuse("there is no such file");
  if (std::filesystem::is_directory(status)) return refuse("this is a folder, not a file");
  // A device may have no end.
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status)) {
    return refuse("this is a device, not a file");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return refuse("the file cannot be opened for reading");
  std::string text;
  char part[4096];
  while (in.read(part, sizeof part) || in.gcount() > 0) {
    text.append(part, static_cast<std::size_t>(in.gcount()));
    if (text.size() > most)
      return refuse(fmt::format("the file is larger than {}", short_text(Bytes::of(double(most)))));
  }
  if (in.bad()) return refuse("the file cannot be read to its end");
  return text;
}

std::optional<TomlTable> open_toml(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::optional<std::string> text = read_text(file, diagnostics);
  if (!text) return std::nullopt;
  return parse_toml(std::move(*text), file.string(), diagnostics);
}

bool read_schema(TomlTable& root, std::string_view what, std::uint64_t newest) {
  if (!root.has("schema")) {
    for (const std::string& key : root.keys()) {
      if (root.peek_whole(key) && edit_distance(key, "schema") <= 2) {
        static_cast<void>(root.read_auto("schema"));  // now known, so that finish() names it
        return true;
      }
    }
  }
  if (const std::optional<std::int64_t> version = root.peek_whole("schema");
      version && *version > 0 && static_cast<std::uint64_t>(*version) > newest) {
    root.error("schema", "file.schema", fmt::format("this {} file is newer than this program", what),
               {fmt::format("Its schema is {}; this program reads up to {}.", *version, newest)});
    return false;
  }
  std::uint64_t version = 0;
  return root.read("schema", version, {1, newest});
}

}  // namespace orrery
