#include "cli/run_checkpoints.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/interrupt.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "exec/checkpoint/restore.hpp"
#include "exec/run/op_runner.hpp"

namespace orrery {

void declare_checkpoints(Command& c, CheckpointFlags& flags) {
  c.option("--checkpoint", flags.folder,
           "save the training state in this folder after the last step; the two newest stay");
  c.option("--every", flags.every, "save it every so many steps, too", {1, 1'000'000'000});
  c.flag("--resume", flags.resume, "go on from the newest checkpoint in the folder, whatever plan saved it");
}

RunCheckpoints::RunCheckpoints(const CheckpointFlags& flags, const PlannedRun& run, const Program& program)
    : flags_(flags), run_(run), program_(program) {
  if (!flags.folder) {
    if (flags.resume) refuse("cli.checkpoint", "--resume needs the folder: --checkpoint DIR");
    if (flags.every) refuse("cli.checkpoint", "--every needs a folder: --checkpoint DIR");
    return;
  }
  if (flags.every && *flags.every < 1) refuse("cli.checkpoint", "--every must be at least 1");
  const std::filesystem::path folder = *flags.folder;
  const std::vector<std::string> there = generations(*files_, folder);
  if (!flags.resume) {
    if (there.empty()) return;
    refuse("cli.checkpoint", fmt::format("{} has checkpoints already, the newest {}", *flags.folder, there.front()),
           {"--resume goes on from it; a new training needs a folder of its own."});
  }
  if (there.empty()) {
    refuse(
        "cli.checkpoint", fmt::format("{} has no checkpoint to go on from", *flags.folder),
        {"Leave --resume out to begin; a run saves its first checkpoint with its last step, or after --every steps."});
  }
  NewestWhole found = newest_whole(*files_, folder);
  damaged_ = std::move(found.damaged);
  if (!found.checkpoint) {
    std::string text = fmt::format("no checkpoint in {} is whole", *flags.folder);
    for (const std::string& damage : damaged_) text += "\n  " + damage;
    throw Error(text);
  }
  from_ = std::move(found.checkpoint);
  Diagnostics d;
  check_resume(from_->manifest, run, (from_->folder / manifest_name).string(), d);
  require_none(d);
  changes_ = workload_changes(from_->manifest, run);
  resumed_ = newest_ = from_->name;
  first_step_ = from_->manifest.step + 1;
}

void RunCheckpoints::attach(RunOptions& options) {
  if (!flags_.folder) return;
  options.first_step = first_step_;
  hooks_ = options.hooks;
  last_step_ = options.warmup_steps + options.steps;
  options.cancel = &stop_;
  auto show = std::move(options.on_event);
  options.on_event = [this, show = std::move(show)](const RunEvent& event) {
    on_event(event);
    if (show) show(event);
  };
}

void RunCheckpoints::begin(const RunEvent& event) {
  if (from_) {
    for (const std::string& damage : damaged_) {
      say(fmt::format("warning: {}; {} is used instead\n", damage, from_->name));
    }
    std::vector<Rank> ranks;
    for (std::uint32_t r = 0; r < program_.mesh.size(); ++r) ranks.push_back(Rank{r});
    restore(*from_, program_, ranks, *event.buffers);
    if (hooks_ != nullptr) {
      hooks_->recovery({first_step_ - 1, (std::filesystem::path(*flags_.folder) / from_->name).string()});
    }
    from_.reset();
  }
  if (supervision_ != nullptr) supervision_->began(first_step_ - 1);
}

void RunCheckpoints::on_event(const RunEvent& event) {
  const std::int64_t ended = now_ns();
  if (event.step == 0) {
    begin(event);
  } else {
    if (interrupted()) stop_ = true;
    const std::uint64_t step = first_step_ + event.step - 1;
    if (supervision_ != nullptr) supervision_->step_ended(step, ended - last_end_, event.loss);
    const bool due = flags_.every ? step % *flags_.every == 0 : supervision_ != nullptr && supervision_->save_is_due();
    if (due || stop_ || event.step == last_step_) save(event, step);
  }
  last_end_ = now_ns();
}

void RunCheckpoints::save(const RunEvent& event, std::uint64_t step) {
  const std::filesystem::path folder = *flags_.folder;
  const std::int64_t began = now_ns();
  saved_.push_back(save_checkpoint(*files_, folder, program_, *event.buffers, manifest_of(run_, step), newest_));
  newest_ = saved_.back().name;
  if (supervision_ != nullptr) supervision_->saved(step, now_ns() - began);
  if (hooks_ != nullptr) hooks_->checkpoint({step, (folder / *newest_).string()});
}

std::string RunCheckpoints::text() const {
  std::string out;
  if (!flags_.folder) return out;
  const auto path = [&](const std::string& name) {
    return escaped((std::filesystem::path(*flags_.folder) / name).string());
  };
  if (resumed_) out += fmt::format("  resumed from {}, after step {}\n", path(*resumed_), first_step_ - 1);
  for (const std::string& change : changes_)
    out += fmt::format("  different from the checkpoint: {}\n", escaped(change));
  if (!saved_.empty()) {
    const SavedCheckpoint& last = saved_.back();
    out += fmt::format("  {} saved, the last in {} after step {}, {} in {}\n", counted(saved_.size(), "checkpoint"),
                       path(last.name), last.step, short_text(Bytes::of(static_cast<double>(last.bytes))),
                       counted(program_.mesh.size(), "file"));
  }
  return out;
}

nlohmann::ordered_json RunCheckpoints::json() const {
  if (!flags_.folder) return nullptr;
  nlohmann::ordered_json out;
  out["folder"] = *flags_.folder;
  out["first_step"] = first_step_;
  out["resumed_from"] = nullptr;
  if (resumed_) out["resumed_from"] = *resumed_;
  out["workload_changes"] = changes_;
  out["damaged"] = damaged_;
  out["saved"] = nlohmann::ordered_json::array();
  for (const SavedCheckpoint& s : saved_) {
    out["saved"].push_back({{"name", s.name}, {"step", s.step}, {"bytes", s.bytes}});
  }
  return out;
}

}  // namespace orrery
