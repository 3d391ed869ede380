#include "gui/model/lesson.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/nearest.hpp"
#include "core/base/toml_reader.hpp"

namespace orrery::gui {
namespace {

constexpr std::uint64_t newest_schema = 1;
constexpr std::size_t most_text = 8192;
const std::vector<std::string_view> kind_names{"which", "number", "reach"};
const std::vector<std::string_view> ends{"least", "most"};
const std::vector<std::string_view> view_names{"timeline", "memory", "topology", "graph", "moves"};

std::vector<std::string> keys_of_dimensions() {
  std::vector<std::string> out{"mesh.order"};
  for (std::size_t i = 0; i < dimension_count; ++i) out.emplace_back(info(static_cast<Dimension>(i)).key);
  return out;
}

/// A number, or the name of a choice.
std::optional<std::uint64_t> value_named(Dimension d, const std::string& text, std::string& why) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failure == std::errc{} && end == text.data() + text.size();
  if (info(d).form != DimensionForm::choice) {
    if (!is_number) why = fmt::format("{} takes a whole number, not \"{}\"", info(d).key, text);
    return is_number ? std::optional(number) : std::nullopt;
  }
  std::vector<std::string> names;
  for (std::uint64_t v = 0; v < info(d).names().size(); ++v) names.push_back(text_of(d, v));
  const auto at = std::find(names.begin(), names.end(), text);
  if (at != names.end()) return static_cast<std::uint64_t>(at - names.begin());
  why = fmt::format("{} is one of {}, not \"{}\"", info(d).key, fmt::join(names, ", "), text);
  return std::nullopt;
}

bool read_changes(TomlTable& table, const char* key, std::vector<PlanChange>& into) {
  std::vector<std::string> texts;
  if (!table.has(key)) return true;
  if (!table.read(key, texts, 32)) return false;
  for (const std::string& text : texts) {
    std::string why;
    if (auto change = plan_change(text, why)) {
      into.push_back(std::move(*change));
    } else {
      table.error(key, "lesson.change", std::move(why));
      return false;
    }
  }
  return true;
}

void read_which(TomlTable& table, LessonQuestion& q) {
  std::size_t end = 0;
  table.read_choice("wanted", ends, end);
  q.most = end == 1;
  for (TomlTable& option : table.tables("option", 8)) {
    LessonOption& o = q.options.emplace_back();
    option.read("text", o.text, Need::required, most_text);
    read_changes(option, "set", o.changes);
    option.finish();
  }
  if (q.options.size() < 2) {
    table.error("option", "lesson.question", "a question of which has two options at least",
                {fmt::format("It has {}.", q.options.size())});
  }
}

void read_number(TomlTable& table, LessonQuestion& q) {
  read_changes(table, "set", q.changes);
  if (table.has("over")) read_changes(table, "over", q.over.emplace());
  table.read("tolerance", q.tolerance, {0.0, 0.5, true}, Need::optional);
}

void read_reach(TomlTable& table, LessonQuestion& q) {
  const bool least = table.has("at_least"), most = table.has("at_most");
  if (least == most) {
    table.error("kind", "lesson.question", "a plan to be reached has one bound", {"Write at_most or at_least."});
    return;
  }
  q.most = least;
  table.read(least ? "at_least" : "at_most", q.bound, {0.0, 1e12});
  table.read("fits", q.fits, Need::optional);
  read_changes(table, "solution", q.solution);
}

LessonQuestion read_question(TomlTable& table) {
  LessonQuestion q;
  std::size_t kind = 0, measure = 0;
  table.read("text", q.text, Need::required, most_text);
  if (table.read_choice("measure", measure_names(), measure)) q.measure = static_cast<Measure>(measure);
  if (table.read_choice("kind", kind_names, kind)) {
    q.kind = static_cast<LessonQuestion::Kind>(kind);
    switch (q.kind) {
      case LessonQuestion::Kind::which: read_which(table, q); break;
      case LessonQuestion::Kind::number: read_number(table, q); break;
      case LessonQuestion::Kind::reach: read_reach(table, q); break;
    }
  }
  table.finish();
  return q;
}

}  // namespace

std::optional<PlanChange> plan_change(const std::string& text, std::string& why) {
  std::istringstream in(text);
  std::string key, word;
  std::vector<std::string> words;
  in >> key;
  while (in >> word) words.push_back(word);
  PlanChange out;
  if (key == "mesh.order") {
    for (const std::string& name : words) {
      const auto axis = axis_named(name);
      if (!axis) {
        why = fmt::format("no axis is named \"{}\": there are {}", name, plan_axes_text());
        return std::nullopt;
      }
      out.order.push_back(*axis);
    }
    if (out.order.empty()) why = "mesh.order names the axes, outermost first";
    return out.order.empty() ? std::nullopt : std::optional(std::move(out));
  }
  const std::vector<std::string> keys = keys_of_dimensions();
  const auto at = std::find(keys.begin() + 1, keys.end(), key);
  if (at == keys.end() || words.size() != 1) {
    why = at == keys.end() ? fmt::format("nothing that a lesson turns is named \"{}\"; nearest: {}", key,
                                         fmt::join(nearest(key, keys, 2), ", "))
                           : fmt::format("\"{}\" is not a key and its value, as in \"mesh.tensor 4\"", text);
    return std::nullopt;
  }
  out.dimension = static_cast<Dimension>(at - keys.begin() - 1);
  const auto value = value_named(*out.dimension, words.front(), why);
  if (!value) return std::nullopt;
  out.value = *value;
  return out;
}

std::vector<std::filesystem::path> lesson_files(const std::filesystem::path& data) {
  std::vector<std::filesystem::path> out;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(data / "lesson", failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().extension() == ".toml") out.push_back(at->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Lesson> read_lesson(const std::filesystem::path& file, Diagnostics& d) {
  auto root = open_toml(file, d);
  if (!root || !read_schema(*root, "lesson", newest_schema)) return std::nullopt;
  const std::size_t before = d.size();
  Lesson out;
  out.name = file.stem().string();
  root->read("title", out.title);
  root->read("goal", out.goal, Need::required, most_text);
  root->read("source", out.source, Need::required, most_text);
  std::string plan;
  root->read("plan", plan);
  out.plan = file.parent_path() / plan;
  for (TomlTable& table : root->tables("step", 32)) {
    LessonStep& step = out.steps.emplace_back();
    table.read("text", step.text, Need::required, most_text);
    read_changes(table, "set", step.changes);
    table.read_enum("view", view_names, step.view, Need::optional);
    table.read("block", step.block, Need::optional);
    if (auto question = table.table("question", Need::optional)) step.question = read_question(*question);
    table.finish();
  }
  if (out.steps.empty()) root->error("step", "lesson.question", "a lesson has a step at least", {"Write [[step]]."});
  root->finish();
  return d.size() == before ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace orrery::gui
