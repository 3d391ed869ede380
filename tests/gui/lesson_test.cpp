#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <set>

#include <QTemporaryDir>

#include "gui/model/lesson_check.hpp"
#include "gui/model/moves.hpp"
#include "gui/model/plan_document.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

using Kind = LessonQuestion::Kind;

std::filesystem::path data() { return std::filesystem::path(ORRERY_SOURCE_DIR) / "models"; }

/// All lessons of the data, with a document that prices their plans.
struct Course {
  Course() : document(Library(data()), {}, 2) {
    for (const auto& file : lesson_files(data())) {
      Diagnostics d;
      auto lesson = read_lesson(file, d);
      INFO(render(d));
      REQUIRE(lesson);
      lessons.push_back(std::move(*lesson));
    }
    price = [this](PlannedRun run) {
      Diagnostics d;
      return document.price(std::move(run), d);
    };
  }
  PlannedRun plan_of(const Lesson& lesson, const LessonStep& step) {
    Diagnostics d;
    auto run = document.read(lesson.plan, d);
    INFO(render(d));
    REQUIRE(run);
    std::string why;
    auto changed = with_changes(std::move(*run), step.changes, why);
    INFO(why);
    REQUIRE(changed);
    return std::move(*changed);
  }
  PlanDocument document;
  std::vector<Lesson> lessons;
  Pricer price;
};

std::optional<Lesson> lesson_of(const std::string& text, Diagnostics& d) {
  const QTemporaryDir folder;
  const std::filesystem::path file = folder.filePath(QStringLiteral("lesson.toml")).toStdString();
  std::ofstream(file) << text;
  return read_lesson(file, d);
}

}  // namespace

TEST_CASE("every lesson can be played to its end: right answers are accepted, others are not", "[gui]") {
  Course course;
  REQUIRE(course.lessons.size() >= 8);
  for (const Lesson& lesson : course.lessons) {
    std::size_t questions = 0;
    CHECK_FALSE(lesson.goal.empty());
    CHECK(lesson.source.find_first_of("0123456789") != std::string::npos);  // a paper has a year
    for (std::size_t s = 0; s < lesson.steps.size(); ++s) {
      const LessonStep& step = lesson.steps[s];
      const PlannedRun base = course.plan_of(lesson, step);
      if (!step.question) continue;
      ++questions;
      const LessonQuestion& q = *step.question;
      CAPTURE(lesson.name, s, q.text);
      const std::vector<double> values = measured_answers(q, base, course.price);
      const auto verdict = [&](const LessonAnswer& answer) { return judged(q, base, answer, course.price); };
      switch (q.kind) {
        case Kind::which: {
          std::size_t right = 0;
          for (std::size_t i = 0; i < values.size(); ++i) {
            // The law is that no option beats the accepted one.
            const bool accepted = verdict(i).right;
            right += accepted ? 1 : 0;
            for (const double other : values) {
              if (accepted) CHECK((q.most ? values[i] >= other : values[i] <= other));
            }
          }
          CHECK(right == 1);
          break;
        }
        case Kind::number: {
          const double value = values.front();
          CHECK(value > 0.0);
          CHECK(verdict(value).right);
          CHECK(verdict(value * (1.0 + 0.9 * q.tolerance)).right);
          CHECK_FALSE(verdict(value * (1.0 + 1.1 * q.tolerance)).right);
          CHECK_FALSE(verdict(value * (1.0 - 1.1 * q.tolerance)).right);
          CHECK_FALSE(verdict(0.0).right);
          break;
        }
        case Kind::reach: {
          std::string why;
          const auto solved = with_changes(base, q.solution, why);
          INFO(why);
          REQUIRE(solved);
          CHECK(verdict(course.price(*solved)).right);
          const Verdict plain = verdict(course.price(base));
          CHECK_FALSE(plain.right);
          CHECK_FALSE(plain.text.empty());
          CHECK_FALSE(verdict(std::shared_ptr<const PricedRun>()).right);
          // Half the batch is another question.
          PlannedRun other = *solved;
          other.workload.global_batch /= 2;
          CHECK_FALSE(verdict(course.price(other)).right);
          break;
        }
      }
    }
    CAPTURE(lesson.name);
    CHECK(questions >= 1);
  }
}

TEST_CASE("a lesson that is wrong says where, and what would be right", "[gui][error]") {
  const std::string head = "schema = 1\ntitle = \"t\"\ngoal = \"g\"\nsource = \"s 2020\"\nplan = \"p.toml\"\n";
  const auto refused = [&](const std::string& rest, const std::string& code, const std::string& says) {
    Diagnostics d;
    CHECK_FALSE(lesson_of(head + rest, d));
    CAPTURE(rest, render(d));
    REQUIRE_FALSE(d.empty());
    CHECK(d.list().front().code == code);
    CHECK(d.list().front().position.line > 0);
    CHECK(render(d).find(says) != std::string::npos);
  };
  const std::string step = "[[step]]\ntext = \"x\"\n";
  const std::string question = step + "[step.question]\ntext = \"?\"\nmeasure = \"bubble\"\n";
  refused(step + "set = [\"mesh.tenso 2\"]\n", "lesson.change", "mesh.tensor");
  refused(step + "set = [\"mesh.tensor\"]\n", "lesson.change", "key and its value");
  refused(step + "set = [\"plan.schedule gpip\"]\n", "lesson.change", "gpipe");
  refused(step + "set = [\"mesh.tensor two\"]\n", "lesson.change", "whole number");
  refused(step + "set = [\"mesh.order data tens\"]\n", "lesson.change", "pipeline");
  refused(question + "kind = \"which\"\nwanted = \"least\"\n[[step.question.option]]\ntext = \"one\"\n",
          "lesson.question", "two options");
  refused(question + "kind = \"reach\"\n", "lesson.question", "at_most");
  refused(question + "kind = \"reach\"\nat_most = 1.0\nat_least = 2.0\n", "lesson.question", "at_most");
  refused(step + "views = \"memory\"\n", "file.unknown-key", "view");
  refused(step + "view = \"nothing\"\n", "file.choice", "timeline");
}

TEST_CASE("SUMMA on a q x q grid sends q blocks of each operand for every product", "[gui][oracle]") {
  // van de Geijn and Watts, 1997: C = A B takes q steps of one broadcast along rows and one along columns.
  Course course;
  Diagnostics d;
  auto run = course.document.read(data() / "lesson/plan/summa.toml", d);
  REQUIRE(run);
  const Prediction p = predict_live(course.price(std::move(*run)));
  const RankMoves grid = moves_of(*p.program, "");
  CHECK(grid.block == "layer.forward");
  REQUIRE(grid.ranks.size() == 4);
  CHECK((grid.rows == 2 && grid.columns == 2 && grid.layers == 1));
  std::size_t products = 0, along_rows = 0, along_columns = 0;
  for (const RankMove& m : grid.moves) {
    if (m.motion == RankMove::Motion::product) ++products;
    if (m.motion != RankMove::Motion::broadcast) continue;
    (m.along == "column" ? along_columns : along_rows) += 1;
    // Each line of the grid has one sender and one receiver, so there are 2 arrows, along the line only.
    REQUIRE(m.arrows.size() == 2);
    std::set<std::uint32_t> receivers;
    for (const RankMove::Arrow& a : m.arrows) {
      receivers.insert(a.to);
      const bool same_row = a.from / 2 == a.to / 2, same_column = a.from % 2 == a.to % 2;
      CHECK(same_row == (m.along == "column"));
      CHECK(same_column == (m.along == "row"));
    }
    CHECK(receivers.size() == 2);
  }
  CHECK(products == 8);  // qkv, out, up, down, two steps each
  CHECK(along_rows == products);
  CHECK(along_columns == products);
}

TEST_CASE("a ring passes every block on p - 1 times, each to its neighbour", "[gui][oracle]") {
  Course course;
  Diagnostics d;
  auto run = course.document.read(data() / "lesson/plan/ring.toml", d);
  REQUIRE(run);
  const Prediction p = predict_live(course.price(std::move(*run)));
  const RankMoves line = moves_of(*p.program, "layer.forward");
  REQUIRE(line.ranks.size() == 8);
  std::size_t permutes = 0;
  for (const RankMove& m : line.moves) {
    if (m.motion != RankMove::Motion::permute) continue;
    ++permutes;
    REQUIRE(m.arrows.size() == 8);
    for (const RankMove::Arrow& a : m.arrows) CHECK(a.to == (a.from + 1) % 8);
  }
  CHECK(permutes == 7);
  CHECK(moves_of(*p.program, "no-such-block").moves.empty());
}

TEST_CASE("ranks of two devices change places, and back", "[gui][property]") {
  Course course;
  Diagnostics d;
  const auto run = course.document.read(data() / "lesson/plan/topology.toml", d);
  REQUIRE(run);
  std::string why;
  const auto once = with_swapped_devices(*run, 3, 40, why);
  REQUIRE(once);
  CHECK(once->plan.placement[3] == 40);
  CHECK(once->plan.placement[40] == 3);
  CHECK(std::set<std::uint32_t>(once->plan.placement.begin(), once->plan.placement.end()).size() == 64);
  const auto twice = with_swapped_devices(*once, 3, 40, why);
  REQUIRE(twice);
  CHECK(twice->plan == run->plan);
  CHECK_FALSE(with_swapped_devices(*run, 3, 64, why));
  CHECK(why.find("64") != std::string::npos);
  // Another order of axes keeps their sizes, and leaves no placement behind.
  const PlannedRun turned = in_order(*once, {Axis::tensor, Axis::pipeline});
  CHECK(turned.plan.placement.empty());
  REQUIRE(turned.plan.mesh.axes.size() == 3);
  CHECK(turned.plan.mesh.axes[0] == MeshAxis{Axis::tensor, 8});
  CHECK(turned.plan.mesh.axes[1] == MeshAxis{Axis::pipeline, 4});
  CHECK(turned.plan.mesh.axes[2] == MeshAxis{Axis::data, 2});
}
