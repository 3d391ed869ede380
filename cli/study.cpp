#include "planner/study/study.hpp"
#include "core/base/source_excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/nearest.hpp"
#include "planner/study/chart_svg.hpp"
#include "planner/study/study_json.hpp"

namespace orrery {
namespace {

constexpr std::size_t line_width = 110;

/// `text` in lines of at most line_width characters behind `indent`.
std::string wrapped(const std::string& text, const std::string& first, const std::string& indent) {
  std::string out;
  std::string line = first;
  std::size_t words = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(begin, end - begin);
    if (words > 0 && display_width(line) + 1 + display_width(word) > line_width) {
      out += line + "\n";
      line = indent;
      words = 0;
    }
    line += (words > 0 ? " " : "") + word;
    ++words;
    begin = end + 1;
  }
  return out + line + "\n";
}

std::string list_text(const char* heading, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string out = fmt::format("\n{}\n", heading);
  for (const std::string& item : items) out += wrapped(item, "  * ", "    ");
  return out;
}

std::string table_text(const StudyTable& t) {
  Table table(t.columns);
  for (const std::vector<Figure>& row : t.rows) {
    std::vector<std::string> cells;
    for (const Figure& f : row) cells.push_back(f.text);
    table.row(std::move(cells));
  }
  return fmt::format("\n{}\n{}", t.title, table.str());
}

/// Published figures beside computed ones. The reasons stand below, because they are sentences, each once under the
/// numbers of its claims.
std::string claims_text(const std::vector<Claim>& claims) {
  if (claims.empty()) return "";
  Table table({"", "<claim", "published", "<known from", "computed", "<"});
  std::vector<std::pair<std::string, std::string>> reasons;  // numbers, reason
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const Claim& c = claims[i];
    table.row({fmt::format("{}", i + 1), c.what, c.published.text, std::string(name_of(c.evidence)), c.computed.text,
               std::string(name_of(c.verdict))});
    const auto same = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.second == c.reason; });
    if (same == reasons.end()) {
      reasons.emplace_back(fmt::format("{}", i + 1), c.reason);
    } else {
      same->first += fmt::format(", {}", i + 1);
    }
  }
  std::string out = "\nPublished and computed\n" + table.str() + "\nWhy\n";
  for (const auto& [numbers, reason] : reasons) out += wrapped(numbers + ": " + reason, "  ", "     ");
  return out;
}

std::string study_text(const StudyResult& r) {
  std::string out = fmt::format("{}: {}  ({})\n", r.name, r.title, fmt::join(r.experiments, ", "));
  out += claims_text(r.claims);
  for (const StudyTable& t : r.tables) out += table_text(t);
  out += list_text("What follows", r.conclusions);
  out += list_text("Assumptions", r.assumptions);
  out += list_text("Computed from", r.inputs);
  out += list_text("Published in", r.sources);
  return out + fmt::format("\nFormulas, in docs/formulas.md: {}\n", fmt::join(r.formulas, ", "));
}

class StudyVerb final : public Verb {
 public:
  const char* name() const override { return "study"; }
  const char* summary() const override { return "put published claims beside what the model gives, with the reason"; }

  void declare(Command& c) override {
    c.positional("NAME", name_, "a study; without it, the list of them");
    c.option("--svg", svg_, "draw its charts into this file");
    declare_output(c, flags_, "write the study here, as JSON");
    c.examples(
        "  orrery study                                  the list\n"
        "  orrery study tensor-scaling --svg scaling.svg\n"
        "  orrery study gpt3-gpus --json");
  }

  int run() override {
    require_output(flags_);
    if (!name_) return list();
    require_svg(svg_);
    std::optional<Ticker> ticker(std::in_place, "study");
    const StudyResult result = run_study(named(*name_), library_of(flags_));
    ticker.reset();
    const nlohmann::ordered_json json = to_json(result);
    if (svg_) write_file(*svg_, charts_svg("orrery study " + result.name, result.title, result.charts));
    answer(flags_, json, study_text(result));
    return status_fine;
  }

 private:
  static const Study& named(const std::string& wanted) {
    std::vector<std::string> names;
    for (const Study& s : all_studies()) {
      if (s.name == wanted) return s;
      names.emplace_back(s.name);
    }
    const std::vector<std::string> near = nearest(wanted, names);
    refuse("cli.study", fmt::format("there is no study \"{}\"", wanted),
           {fmt::format("{}: {}.", near.empty() ? "Known" : "Nearest", fmt::join(near.empty() ? names : near, ", "))});
  }

  int list() const {
    if (svg_)
      refuse("cli.flags", "--svg draws one study", {"orrery study NAME --svg FILE; orrery study lists the names."});
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    Table table({"study", "<"});
    for (const Study& s : all_studies()) {
      table.row({s.name, s.summary});
      json.push_back({{"study", s.name}, {"title", s.summary}});
    }
    answer(flags_, json, table.str(""));
    return status_fine;
  }

  CommonFlags flags_;
  std::optional<std::string> name_, svg_;
};

}  // namespace

std::unique_ptr<Verb> study_verb() { return std::make_unique<StudyVerb>(); }

}  // namespace orrery
