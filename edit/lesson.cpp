#include "edit/lesson.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/toml_reader.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t newest_schema = 1;
constexpr std::size_t most_text = 8192;
const std::vector<std::string_view> kind_names{"which", "number", "reach"};
const std::vector<std::string_view> ends{"least", "most"};
const std::vector<std::string_view> view_names{"timeline", "memory", "topology", "graph", "moves"};

bool read_changes(TomlTable& table, const char* key, std::vector<LessonChange>& into) {
  std::vector<std::string> texts;
  if (!table.has(key)) return true;
  if (!table.read(key, texts, 32)) return false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Position where = table.origin().position(fmt::format("{}.{}", table.path(key), i));
    std::string why;
    if (auto change = plan_change(texts[i], why)) {
      change->where = where;
      into.push_back(std::move(*change));
    } else {
      table.diagnostics().error_at(table.origin(), where, "lesson.change", std::move(why));
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
    table.error("option", "lesson.question", "a question of kind \"which\" needs at least two options",
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
    table.error("kind", "lesson.question", "a question of kind \"reach\" needs exactly one bound",
                {"Write at_most or at_least."});
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

std::optional<Lesson> parse_lesson(std::string text, const std::filesystem::path& file, Diagnostics& d) {
  auto root = parse_toml(std::move(text), file.string(), d);
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
  out.origin = root->origin();
  for (TomlTable& table : root->tables("step", 32)) {
    LessonStep& step = out.steps.emplace_back();
    table.read("text", step.text, Need::required, most_text);
    read_changes(table, "set", step.changes);
    table.read_enum("view", view_names, step.view, Need::optional);
    table.read("block", step.block, Need::optional);
    if (auto question = table.table("question", Need::optional)) step.question = read_question(*question);
    table.finish();
  }
  if (out.steps.empty())
    root->error("step", "lesson.question", "a lesson needs at least one step", {"Write [[step]]."});
  root->finish();
  return d.size() == before ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<Lesson> read_lesson(const std::filesystem::path& file, Diagnostics& d) {
  auto text = read_text(file, d);
  return text ? parse_lesson(std::move(*text), file, d) : std::nullopt;
}

}  // namespace orrery
