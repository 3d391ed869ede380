#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"

namespace orrery {

// Published claims about parallel training, each beside what Orrery's own
// model gives for the same setup, with the reason where the two differ.  A
// study computes by lowering and estimating a plan wherever a Program exists
// for it, and by documented closed forms (planner/study) where none does.

/// How far a published figure is known.  Printed beside every one.
enum class Evidence : std::uint8_t {
  announcement,  ///< in the announcement, paper summary or documentation that was read
  abstract_,     ///< in the abstract of the paper, which was read
  repository,    ///< in code, configuration or README of a public repository, which was read
  thread,        ///< reported in a public issue or pull request
  calculated,    ///< follows by arithmetic from figures that were read
  unverified,    ///< recalled or second-hand: check the source before quoting
};
[[nodiscard]] std::string_view name_of(Evidence);

/// What the model says to a claim.
enum class Verdict : std::uint8_t {
  follows,          ///< the figure follows from the model, within the tolerance given in the reason, or 0.5 %
  in_part,          ///< the direction or a part follows, the figure does not
  does_not_follow,  ///< the model says otherwise
  undecided,        ///< what the claim rests on is not known, or the model has no part for it
};
[[nodiscard]] std::string_view name_of(Verdict);
/// `follows` where computed is within the relative tolerance of published, else `in_part`.  0.5 % leaves room for a
/// figure printed with three digits.
[[nodiscard]] Verdict judged(double computed, double published, double tolerance = 0.005);

/// A figure as it is printed, and as a number where it is one.
struct Figure {
  std::string text;
  std::optional<double> value;
  friend bool operator==(const Figure&, const Figure&) = default;
};
[[nodiscard]] Figure plain(std::string text);
[[nodiscard]] Figure number(double value, int decimals, const std::string& unit = "");

/// One published figure beside the computed one.
struct Claim {
  std::string what;
  Figure published;
  Evidence evidence = Evidence::unverified;
  Figure computed;
  Verdict verdict = Verdict::undecided;
  std::string reason;  ///< of the difference, or of why there is none
  friend bool operator==(const Claim&, const Claim&) = default;
};

/// Figures in rows; every row has as many as there are columns.  Columns whose
/// name begins with '<' are left-aligned.
struct StudyTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Figure>> rows;
  friend bool operator==(const StudyTable&, const StudyTable&) = default;
};

struct Series {
  struct Point {
    double x = 0.0;
    double y = 0.0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  std::string name;
  std::vector<Point> points;  ///< lines: ascending x; bars: x is the index of the category
  bool line = true;           ///< lines: whether the points are joined
  friend bool operator==(const Series&, const Series&) = default;
};

/// Lines over a number, or bars over categories where there are any.
struct Chart {
  std::string title;
  std::string x_label, y_label;  ///< with units
  bool log_x = false, log_y = false;
  std::vector<std::string> categories;
  std::vector<Series> series;
  friend bool operator==(const Chart&, const Chart&) = default;
};

struct StudyResult {
  std::string name, title;
  std::vector<std::string> experiments;  ///< the entries of the list of experiments that it answers: "E1"
  std::vector<std::string> sources;      ///< of the published figures
  std::vector<std::string> inputs;       ///< shipped files and plans that it is computed from
  std::vector<std::string> formulas;     ///< entries of docs/formulas.md
  std::vector<std::string> assumptions;
  std::vector<Claim> claims;
  std::vector<StudyTable> tables;
  std::vector<Chart> charts;
  std::vector<std::string> conclusions;
  friend bool operator==(const StudyResult&, const StudyResult&) = default;
};

/// One study.  To add one: a file with its function, and a row of the table in
/// studies.cpp.
struct Study {
  const char* name = "";
  const char* summary = "";  ///< one line
  StudyResult (*run)(const Library&) = nullptr;
};

/// All studies, in the order in which they are listed.
[[nodiscard]] const std::vector<Study>& all_studies();

/// Runs a study: its function, and the name and summary from the table.
/// Deterministic.  Throws Error where the data directory lacks a file of it.
[[nodiscard]] StudyResult run_study(const Study&, const Library&);

}  // namespace orrery
