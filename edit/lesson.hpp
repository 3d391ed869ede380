#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "edit/lesson_changes.hpp"
#include "edit/measure.hpp"

// Lessons are files (models/lesson/*.toml): texts, plans to try, and questions. No file holds an answer: the right
// answer is computed from predictions (lesson_check.hpp).

namespace orrery {

/// A plan that is one of the answers.
struct LessonOption {
  std::string text;
  std::vector<LessonChange> changes;  ///< of the step's plan
};

struct LessonQuestion {
  enum class Kind : std::uint8_t {
    which,   ///< among the options: the one with the least, or the most, of the measure
    number,  ///< the measure of the step's plan with `changes`, divided by that with `over` where it is given
    reach,   ///< the person makes a plan whose measure is at most, or at least, `bound`
  };
  Kind kind = Kind::which;
  std::string text;
  Measure measure = Measure::step_time;
  bool most = false;                  ///< which: the most; reach: at least
  std::vector<LessonOption> options;  ///< which
  std::vector<LessonChange> changes;  ///< number
  std::optional<std::vector<LessonChange>> over;
  double tolerance = 0.05;             ///< number: of the right one
  double bound = 0.0;                  ///< reach, in the unit of the measure
  bool fits = false;                   ///< reach: and it fits in memory
  std::vector<LessonChange> solution;  ///< reach: one way to get there, for a person who gives up; checked like any
                                       ///< other
};

/// What a step shows beside its text.
enum class LessonView : std::uint8_t { timeline, memory, topology, graph, moves };

struct LessonStep {
  std::string text;  ///< Markdown
  std::vector<LessonChange> changes;
  LessonView view = LessonView::timeline;
  std::string block;  ///< for the view of moves: the block whose collectives are shown; empty: the first layer's
                      ///< forward pass
  std::optional<LessonQuestion> question;
};

struct Lesson {
  std::string name, title, goal, source;
  std::filesystem::path plan;  ///< from which every step starts
  Origin origin;               ///< the file, for what is said of its plans
  std::vector<LessonStep> steps;
};

/// Files of the lessons in the folder `lesson` of the data, in the order of their names.
[[nodiscard]] std::vector<std::filesystem::path> lesson_files(const std::filesystem::path& data);
/// Reads a lesson; empty after a mistake, which is in the diagnostics. `file` is the place that the text comes from:
/// the lesson's plan lies relative to it. Codes: lesson.change lesson.question, and those of the reader.
[[nodiscard]] std::optional<Lesson> parse_lesson(std::string text, const std::filesystem::path& file, Diagnostics&);
[[nodiscard]] std::optional<Lesson> read_lesson(const std::filesystem::path& file, Diagnostics&);

}  // namespace orrery
