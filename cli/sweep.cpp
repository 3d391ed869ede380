#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/amounts.hpp"
#include "cli/file_kind.hpp"
#include "cli/interrupt.hpp"
#include "cli/job.hpp"
#include "cli/plan_source.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/sweep_point.hpp"
#include "cli/sweep_text.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "planner/study/chart_svg.hpp"
#include "sweep/point_workers.hpp"
#include "sweep/sweep_charts.hpp"
#include "sweep/sweep_file.hpp"

namespace orrery {
namespace {

/// A key that has a flag of its own.
struct KeyFlag {
  const char* flag;
  const char* key;
  const char* help;
};
constexpr KeyFlag key_flags[] = {
    {"--model", "model", "models: names, .toml files, Hugging Face config.json"},
    {"--cluster", "cluster", "clusters: names, .toml files, or in a word: h200:8x4,l40s:8"},
    {"--gpus", "gpus", "numbers of devices: 8,16,32 or 8..64 (doublings) or 64..256+64"},
    {"--seq", "sequence", "tokens per sequence: 4096,8k,32k"},
    {"--batch", "batch", "sequences per optimizer step"},
    {"--precision", "precision", "precisions: bf16,fp8"},
    {"--for", "for", "programs that are to launch the plans (orrery show frameworks); any: every dimension"},
};

/// Points that are on disk already, and the file that takes the next ones: a line is written whole when a point ends.
class PointsLog {
 public:
  /// Without a file nothing is kept.
  PointsLog(std::optional<std::string> file, const SweepHeader& header, const std::vector<SweptPoint>& kept)
      : file_(std::move(file)), points_(header.points) {
    if (!file_) return;
    write_file(*file_, write_points(header, kept));
    out_.open(*file_, std::ios::binary | std::ios::app);
    require();
  }
  void add(const SweptPoint& p) {
    if (!file_) return;
    out_ << point_line(p, points_) << std::flush;
    require();
  }

 private:
  void require() {
    if (!out_) throw Error(fmt::format("cannot write {}", *file_));
  }
  std::optional<std::string> file_;
  const SweepPoints& points_;
  std::ofstream out_;
};

class SweepVerb final : public Verb {
 public:
  const char* name() const override { return "sweep"; }
  const char* summary() const override { return "search or estimate over a grid: curves, fronts, what does not fit"; }

  void declare(Command& c) override {
    c.positionals("FILE", files_, "a sweep file (docs/sweep.md); with --merge, the files of points of shards");
    for (std::size_t i = 0; i < std::size(key_flags); ++i) c.option(key_flags[i].flag, given_[i], key_flags[i].help);
    c.option("--over", over_, "any key of plan files and its values: \"zero=0,1 schedule=1f1b,zb-v\"");
    c.option("--plan", plan_, "estimate this plan, changed, at each point, in place of searches");
    c.option("--pareto", pareto_, "a front of these measures: step-time,cost (docs/sweep.md lists them)");
    c.option("--tokens", tokens_, "tokens of the whole run, for the measures days and run-cost: 15T, 300G");
    c.option("--keep-below", keep_below_, "leave out points whose step cannot be below this, by a bound: \"20 s\"");
    c.option("--csv", csv_, "write a table of all points here");
    c.option("--svg", svg_, "draw scaling curves, and the front, into this file");
    c.option("--shard", shard_, "compute one of n parts: 3/64");
    c.flag("--merge", merge_, "put the files of shards together");
    c.option("--threads", threads_, "number of threads; 0: all cores", {0, 4096});
    c.group("Searches");
    declare_search(c, question_);
    c.group("");
    declare_prices(c, question_.flags);
    declare_allocator(c, question_.flags);
    declare_output(c, question_.flags, "keep the points here; the same command goes on where it was cut off");
    c.examples(
        "  orrery sweep --model llama-3-8b --cluster dgx-h100 --gpus 8,16,32 --seq 8k,16k,32k\n"
        "    --batch 64..1024 -o points.jsonl --csv points.csv --svg curve.svg\n"
        "    --pareto tokens-per-s,cost-per-token\n"
        "  orrery sweep sweep.toml --shard 3/64 -o part-3.jsonl\n"
        "  orrery sweep --merge part-*.jsonl -o points.jsonl\n"
        "  orrery sweep --plan best.toml --over \"mbs=1,2,4 recompute=none,full\" --json");
  }

  int run() override;

 private:
  void read_outputs();
  void read_files();
  void read_flags();
  void read_settings(const SweepFile&);
  void read_plan();
  void read_view();
  [[nodiscard]] SweepHeader header() const;
  [[nodiscard]] std::vector<SweptPoint> kept(const SweepHeader&, const PointComputer&) const;
  [[nodiscard]] SweepRecord computed(const SweepHeader&);
  [[nodiscard]] SweepRecord merge() const;
  void show(const SweepRecord&) const;

  SearchQuestion question_;
  std::vector<std::string> files_, over_;
  std::optional<std::string> given_[std::size(key_flags)];
  std::optional<std::string> plan_, pareto_, tokens_, keep_below_, csv_, svg_, shard_;
  bool merge_ = false;
  std::uint32_t threads_ = 0;

  std::string name_;
  std::vector<SweepAxis> base_;
  std::vector<std::vector<SweepAxis>> cases_;
  SweepShard part_;
  SweepBase computes_;
  SweepView view_;
};

void put_axis(std::vector<SweepAxis>& axes, SweepAxis axis) {
  std::erase_if(axes, [&](const SweepAxis& a) { return a.key == axis.key; });
  axes.push_back(std::move(axis));
}

SweepAxis axis_of(const std::string& flag, const std::string& key, const std::string& list) {
  const std::optional<SweepKey> known = sweep_key_named(key);
  if (!known) {
    const std::vector<std::string> near = nearest_sweep_keys(key);
    refuse("sweep.value", fmt::format("{}: a sweep has no key \"{}\"", flag, key),
           {near.empty() ? "Keys are those of plan files." : fmt::format("Nearest: {}.", fmt::join(near, ", "))});
  }
  std::string why;
  std::optional<SweepAxis> axis = sweep_axis(*known, list, why);
  if (!axis) refuse("sweep.value", fmt::format("{}: {}", flag, why));
  return std::move(*axis);
}

void SweepVerb::read_outputs() {
  const std::optional<std::string>& output = question_.flags.output;
  refuse_standard_output("--csv", csv_);
  require_svg(svg_);
  for (const std::string& file : files_) keep_apart(file, {output, csv_, svg_});
  keep_apart("", {output, csv_, svg_});
  require_output(question_.flags);
  for (const auto& file : {csv_, svg_}) {
    if (file) require_folder(*file);
  }
}

void SweepVerb::read_settings(const SweepFile& file) {
  for (const auto& [key, value] : file.settings) {
    if (key == "plan" && !plan_) plan_ = value;
    if (key == "objective" && question_.objective == "step-time") question_.objective = value;
    if (key == "only" && !question_.only) question_.only = value;
    if (key == "all") question_.all = question_.all || value == "true";
    if (key == "software" && question_.flags.software == "auto") question_.flags.software = value;
    if (key == "memory_margin" && question_.margin == "auto") question_.margin = value;
    if (key == "keep_below" && !keep_below_) keep_below_ = value;
    if (key == "tokens" && !tokens_) tokens_ = value;
  }
  if (!objective_named(question_.objective)) {
    refuse("sweep.value", fmt::format("objective: \"{}\" is not known", question_.objective),
           {"Known: step-time, memory, cost."});
  }
}

void SweepVerb::read_files() {
  if (files_.size() > 1) {
    refuse("cli.arguments", fmt::format("\"{}\" is one argument too many", files_[1]),
           {"orrery sweep takes one sweep file, or with --merge files of points."});
  }
  if (files_.empty()) return;
  require_kind(files_[0], {FileKind::sweep});
  Diagnostics d;
  const std::optional<std::string> text = read_text(files_[0], d);
  require_none(d);
  std::optional<SweepFile> file = parse_sweep(*text, files_[0], d);
  require_none(d);
  name_ = file->name;
  // Paths count from the folder of the file that says them.
  const std::filesystem::path folder = std::filesystem::path(files_[0]).parent_path();
  const auto from_here = [&](std::vector<SweepAxis>& axes) {
    for (SweepAxis& axis : axes) {
      if (axis.key.word != "model" && axis.key.word != "cluster") continue;
      for (std::string& value : axis.values) {
        if (is_path(value)) value = (folder / value).lexically_normal().string();
      }
    }
  };
  from_here(file->base);
  for (std::vector<SweepAxis>& own : file->cases) from_here(own);
  if (const auto plan = file->settings.find("plan"); plan != file->settings.end() && is_path(plan->second)) {
    plan->second = (folder / plan->second).lexically_normal().string();
  }
  base_ = file->base;
  cases_ = file->cases;
  read_settings(*file);
}

void SweepVerb::read_flags() {
  // A flag counts for all cases.
  std::vector<SweepAxis> flags;
  for (std::size_t i = 0; i < std::size(key_flags); ++i) {
    if (given_[i]) put_axis(flags, axis_of(key_flags[i].flag, key_flags[i].key, *given_[i]));
  }
  for (const std::string& text : over_) {
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      const std::string word = text.substr(at, end - at);
      at = end + 1;
      if (word.empty()) continue;
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || equals == 0) {
        refuse("sweep.value", fmt::format("--over: \"{}\" is no KEY=VALUES", word), {"--over \"zero=0,1 mbs=1,2\""});
      }
      put_axis(flags, axis_of("--over", word.substr(0, equals), word.substr(equals + 1)));
    }
  }
  for (const SweepAxis& axis : flags) {
    put_axis(base_, axis);
    for (std::vector<SweepAxis>& own : cases_) {
      std::erase_if(own, [&](const SweepAxis& a) { return a.key == axis.key; });
    }
  }
  if (keep_below_) {
    Seconds limit;
    std::string problem;
    if (!parse_quantity(*keep_below_, limit, problem) || limit <= Seconds{}) {
      refuse("sweep.value", fmt::format("--keep-below: \"{}\" is no time above 0", *keep_below_),
             {"It takes a number and a unit: \"20 s\"."});
    }
    computes_.keep_below = limit;
  }
  if (shard_) {
    const std::optional<SweepShard> part = sweep_shard(*shard_);
    if (!part)
      refuse("cli.arguments", fmt::format("--shard: \"{}\" is no part", *shard_), {"3/64 is the third of 64."});
    part_ = *part;
    if (!question_.flags.output) {
      refuse("cli.flags", "--shard needs -o", {"orrery sweep --merge puts the files of all shards together."});
    }
  }
  if (threads_ == 0) threads_ = std::max(1U, std::thread::hardware_concurrency());
}

void SweepVerb::read_plan() {
  const auto varies = [&](const char* word) {
    const auto is = [&](const SweepAxis& a) { return a.key.word == word; };
    return std::any_of(base_.begin(), base_.end(), is) ||
           (!cases_.empty() && std::all_of(cases_.begin(), cases_.end(),
                                           [&](const auto& own) { return std::any_of(own.begin(), own.end(), is); }));
  };
  if (!plan_) {
    std::string missing;
    constexpr std::pair<const char*, const char*> needed[] = {
        {"model", "--model"}, {"cluster", "--cluster"}, {"workload.batch", "--batch"}, {"workload.sequence", "--seq"}};
    for (const auto& [word, flag] : needed) {
      if (!varies(word)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", flag);
    }
    if (!missing.empty()) {
      refuse("cli.arguments", fmt::format("orrery sweep needs {}", missing),
             {"They may stand in a sweep file; --plan PLAN has them all."});
    }
  } else {
    computes_.plan = read_plan_source(*plan_, question_.flags, std::nullopt);
    if (!computes_.plan->cluster)
      refuse("cli.cluster", "the plan names no cluster", {"Write cluster = \"...\" into it."});
    if (base_.empty() && cases_.empty()) {
      refuse("cli.arguments", "the sweep varies nothing",
             {"--over \"zero=0,1 mbs=1,2\" varies dimensions of the plan."});
    }
  }
}

void SweepVerb::read_view() {
  if (tokens_) view_.run.tokens = count_of(*tokens_, "--tokens");
  if (pareto_) view_.pareto = sweep_measures_of(*pareto_, view_.run);
}

SweepHeader SweepVerb::header() const {
  SweepHeader h;
  h.version = orrery_version();
  h.name = name_;
  h.answers = plan_ ? "estimate" : "search";
  h.settings =
      plan_ ? fmt::format("estimates of {}, changed", computes_.plan->plan.name)
            : fmt::format("searches for the least {}{}{}", question_.objective, question_.all ? ", all dimensions" : "",
                          question_.only ? ", only " + *question_.only : "");
  if (question_.flags.software != "auto") h.settings += fmt::format("; software {}", question_.flags.software);
  if (keep_below_) h.settings += fmt::format("; steps that may be below {}", exact_text(*computes_.keep_below));
  h.points = sweep_points(grids_of(base_, cases_));
  if (h.points.size() == 0) {
    refuse("sweep.value", "the sweep has too many points", {fmt::format("At most {} are allowed.", most_sweep_points)});
  }
  return h;
}

/// Points of an earlier run that are still right: the file's point has the values and the content that it would have
/// now.
std::vector<SweptPoint> SweepVerb::kept(const SweepHeader& h, const PointComputer& computer) const {
  std::error_code failure;
  const std::optional<std::string>& file = question_.flags.output;
  if (!file || *file == "-" || !std::filesystem::exists(*file, failure)) return {};
  Diagnostics d;
  const std::optional<std::string> text = read_text(*file, d, most_points_bytes);
  require_none(d);
  if (!looks_like_points(*text)) {
    refuse("cli.output", fmt::format("{} is there, and is no file of points", *file),
           {"Name another file, or remove it."});
  }
  const std::optional<SweepRecord> found = read_points(*text, *file, d);
  require_none(d);
  std::map<std::vector<std::string>, std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < h.points.size(); ++i) numbers.emplace(h.points.rows[i], i);
  std::vector<SweptPoint> out;
  std::vector<bool> has(h.points.size(), false);  // a point may stand twice in a file
  std::size_t strange = 0;
  for (const SweptPoint& old : found->points) {
    std::vector<std::string> values(h.points.keys.size());
    bool known = true;
    for (std::size_t k = 0; k < found->header.points.keys.size(); ++k) {
      const std::size_t at = h.points.place(found->header.points.keys[k].word);
      if (at < values.size()) {
        values[at] = old.values[k];
      } else if (!old.values[k].empty()) {
        known = false;
      }
    }
    const auto at = numbers.find(values);
    if (!known || at == numbers.end() || !part_.has(at->second) || found->header.answers != h.answers) {
      ++strange;
      continue;
    }
    const std::uint64_t number = at->second;
    if (!has[number] && computer.digest(number) == old.digest) {
      has[number] = true;
      out.push_back(old);
      out.back().number = number;
      out.back().values = std::move(values);
    }
  }
  if (strange > 0) {
    refuse("cli.output",
           fmt::format("{} has {} that {} not of this sweep", *file, counted(strange, "point"),
                       strange == 1 ? "is" : "are"),
           {"They would be lost. Name another file, or remove it."});
  }
  return out;
}

SweepRecord SweepVerb::computed(const SweepHeader& h) {
  computes_.question = question_;
  const PointComputer computer(computes_, h.points);
  computer.check_names();
  SweepRecord out{h, kept(h, computer), false};
  const std::size_t before = out.points.size();
  std::vector<bool> there(h.points.size(), false);
  for (const SweptPoint& p : out.points) there[p.number] = true;
  std::vector<std::uint64_t> missing;
  for (std::uint64_t i = 0; i < h.points.size(); ++i) {
    if (part_.has(i) && !there[i]) missing.push_back(i);
  }
  const bool on_disk = question_.flags.output && !prints_output(question_.flags);
  PointsLog log(on_disk ? question_.flags.output : std::nullopt, h, out.points);
  catch_end_signals(SecondSignal::ends);
  {
    Ticker ticker("points");
    const std::uint64_t all = before + missing.size();
    ticker.show("points", before, all);
    // Where there are fewer points than threads, a search takes several.
    const std::uint32_t each = std::max<std::uint32_t>(
        1, threads_ /
               static_cast<std::uint32_t>(std::max<std::size_t>(1, std::min<std::size_t>(missing.size(), threads_))));
    compute_points(
        missing, threads_, [&](std::uint64_t number) { return computer.compute(number, each, &interrupted()); },
        [&](const SweptPoint& p) {
          log.add(p);
          out.points.push_back(p);
          ticker.show("points", out.points.size(), all);
        },
        interrupted());
  }
  std::sort(out.points.begin(), out.points.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return out;
}

SweepRecord SweepVerb::merge() const {
  for (std::size_t i = 0; i < std::size(key_flags); ++i) {
    if (given_[i]) refuse("cli.flags", fmt::format("{} does not go with --merge", key_flags[i].flag));
  }
  if (shard_ || plan_ || !over_.empty()) refuse("cli.flags", "--shard, --plan and --over do not go with --merge");
  if (files_.empty()) refuse("cli.arguments", "--merge needs files of points", {"orrery sweep --merge part-*.jsonl"});
  Diagnostics d;
  std::vector<std::pair<std::string, SweepRecord>> records;
  for (const std::string& file : files_) {
    const std::optional<std::string> text = read_text(file, d, most_points_bytes);
    if (!text) continue;
    std::optional<SweepRecord> record = read_points(*text, file, d);
    if (record) records.emplace_back(file, std::move(*record));
  }
  require_none(d);
  std::optional<SweepRecord> out = merged(records, d);
  require_none(d);
  return std::move(*out);
}

void SweepVerb::show(const SweepRecord& sweep) const {
  if (csv_) write_file(*csv_, sweep_csv(sweep, view_));
  if (svg_) {
    const std::string title = sweep.header.name.empty() ? "orrery sweep" : "orrery sweep: " + sweep.header.name;
    write_file(*svg_, charts_svg(title, sweep.header.settings,
                                 sweep_charts(sweep.header.points, sweep.points, view_.pareto, view_.run)));
  }
  if (prints_output(question_.flags)) {
    print(write_points(sweep.header, sweep.points));
  } else if (question_.flags.json) {
    print_json(sweep_json(sweep, view_));
  } else {
    print_wrapped(sweep_text(sweep, view_));
  }
}

int SweepVerb::run() {
  read_outputs();
  SweepRecord sweep;
  if (merge_) {
    read_view();
    sweep = merge();
  } else {
    read_files();
    read_flags();
    read_plan();
    read_view();
    sweep = computed(header());
  }
  const std::optional<std::string>& output = question_.flags.output;
  std::uint64_t due = 0;
  for (std::uint64_t i = 0; i < sweep.header.points.size(); ++i) due += part_.has(i) ? 1 : 0;
  const bool complete = sweep.points.size() == due;
  // The order in which points ended is no part of the answer.
  if (output && *output != "-") write_file(*output, write_points(sweep.header, sweep.points));
  show(sweep);
  if (!complete) {
    say(fmt::format("interrupted: {} of {} are computed{}\n", sweep.points.size(), counted(due, "point"),
                    output ? "; the same command goes on from there" : ""));
    return interrupted_status();
  }
  const bool any = std::any_of(sweep.points.begin(), sweep.points.end(),
                               [](const SweptPoint& p) { return p.state == SweptPoint::State::found; });
  return any ? status_fine : status_no;
}

}  // namespace

std::unique_ptr<Verb> sweep_verb() { return std::make_unique<SweepVerb>(); }

}  // namespace orrery
