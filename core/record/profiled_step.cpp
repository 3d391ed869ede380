#include "core/record/profiled_step.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery {
namespace {

struct Window {
  std::int64_t start = 0, end = 0;  ///< nanoseconds
  [[nodiscard]] std::int64_t length() const { return end - start; }
};

/// Windows of the steps by number.
std::map<std::uint64_t, Window> windows_of(const ProfiledRank& r) {
  std::map<std::uint64_t, Window> out;
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const ProfiledMark& m = r.steps[i];
    const bool next = i + 1 < r.steps.size() && r.steps[i + 1].number == m.number + 1 && r.steps[i + 1].start > m.start;
    if (next) out[m.number] = {m.start, r.steps[i + 1].start};
  }
  // The last step has no next one; it counts only where no other step does.
  if (out.empty() && !r.steps.empty()) out[r.steps.back().number] = {r.steps.back().start, r.steps.back().end};
  return out;
}

void refuse(Diagnostics& diagnostics, const std::string& file, std::string message, std::string detail) {
  Diagnostic m;
  m.file = file;
  m.code = "profile.ranks";
  m.message = std::move(message);
  m.details.push_back(std::move(detail));
  diagnostics.add(std::move(m));
}

/// Numbers of the ranks. Empty, with a diagnostic, where two files are from one rank or from runs of unequal size.
std::vector<std::uint32_t> ranks_of(const std::vector<ProfiledRank>& files, Diagnostics& diagnostics,
                                    std::vector<std::string>& notes) {
  std::vector<std::uint32_t> out;
  const bool told = std::all_of(files.begin(), files.end(), [](const ProfiledRank& f) { return f.rank.has_value(); });
  if (!told) {
    notes.emplace_back(files.size() == 1
                           ? "the profile does not name its rank (distributedInfo): it is taken as rank 0"
                           : "not every profile names its rank (distributedInfo): they are taken in their order");
  }
  std::map<std::uint32_t, const ProfiledRank*> seen;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ProfiledRank& f = files[i];
    out.push_back(told ? *f.rank : static_cast<std::uint32_t>(i));
    if (const auto [at, fresh] = seen.emplace(out.back(), &f); !fresh) {
      refuse(diagnostics, f.file, "this is a second profile of rank " + std::to_string(out.back()),
             "The first is " + at->second->file + ".");
      return {};
    }
    if (f.ranks != files.front().ranks) {
      const auto text = [](const ProfiledRank& r) {
        return r.ranks ? std::to_string(*r.ranks) : "an unknown number of";
      };
      refuse(diagnostics, f.file, "this is a profile of a run of " + text(f) + " ranks",
             files.front().file + " is a profile of a run of " + text(files.front()) + ".");
      return {};
    }
  }
  return out;
}

/// Pieces of time that do not overlap, in order, each with the run that it belongs to.
struct Piece {
  Span span;
  const StepRun* run;
};
/// Runs one after the other, each from where those before it have ended.
std::vector<Piece> in_line(const StepOfRank& rank, const std::function<bool(const StepRun&)>& wanted) {
  std::vector<Piece> out;
  std::int64_t end = 0;
  for (const StepRun& r : rank.runs) {
    if (!wanted(r)) continue;
    const std::int64_t start = std::max(r.span.start, end);
    if (r.span.end <= start) continue;
    out.push_back({{start, r.span.end}, &r});
    end = r.span.end;
  }
  return out;
}

}  // namespace

std::optional<ProfiledStep> median_step(const std::vector<ProfiledRank>& files, Diagnostics& diagnostics) {
  ProfiledStep out;
  const std::vector<std::uint32_t> numbers = ranks_of(files, diagnostics, out.notes);
  if (numbers.empty()) return std::nullopt;
  out.of_ranks = files.front().ranks;

  std::vector<Window> windows;
  const bool marked = std::all_of(files.begin(), files.end(), [](const ProfiledRank& f) { return !f.steps.empty(); });
  if (marked) {
    std::vector<std::map<std::uint64_t, Window>> all;
    for (const ProfiledRank& f : files) all.push_back(windows_of(f));
    std::vector<std::pair<std::int64_t, std::uint64_t>> lengths;  // of the slowest rank; number
    for (const auto& [number, window] : all.front()) {
      std::int64_t longest = 0;
      const bool common = std::all_of(all.begin(), all.end(), [&, n = number](const auto& of_rank) {
        const auto at = of_rank.find(n);
        if (at != of_rank.end()) longest = std::max(longest, at->second.length());
        return at != of_rank.end();
      });
      if (common) lengths.emplace_back(longest, number);
    }
    if (lengths.empty()) {
      refuse(
          diagnostics, files.back().file, "this profile has no step in common with the others",
          "Every rank must profile the same steps: schedule=torch.profiler.schedule(...), and profiler.step() once a "
          "step.");
      return std::nullopt;
    }
    std::sort(lengths.begin(), lengths.end());
    const std::uint64_t number = lengths[(lengths.size() - 1) / 2].second;
    for (const auto& of_rank : all) windows.push_back(of_rank.at(number));
    out.origin = "PyTorch's profiler, step " + std::to_string(number);
    if (lengths.size() > 1) out.origin += " (the median of " + std::to_string(lengths.size()) + ")";
    if (!std::all_of(files.begin(), files.end(), [](const ProfiledRank& f) { return f.device_marks; })) {
      out.notes.emplace_back("steps are marked where they were launched, not where the device ran them");
    }
  } else {
    for (const ProfiledRank& f : files) {
      Window w{f.runs.front().start, f.runs.front().end};
      for (const ProfiledRun& r : f.runs) w.end = std::max(w.end, r.end);
      windows.push_back(w);
    }
    out.origin = "PyTorch's profiler";
    out.notes.emplace_back("no steps are marked (profiler.step()): the whole recording is taken as one step");
  }

  // The limit keeps sums of picoseconds far below 2^63.
  constexpr std::int64_t longest = 7'200'000'000'000;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].length() <= longest) continue;
    refuse(diagnostics, files[i].file, "the step takes more than two hours",
           "Steps are marked by profiler.step(), and times are microseconds of one clock.");
    return std::nullopt;
  }

  const auto [first, last] = std::minmax_element(windows.begin(), windows.end(),
                                                 [](const Window& a, const Window& b) { return a.start < b.start; });
  const bool one_clock =
      std::all_of(files.begin(), files.end(), [](const ProfiledRank& f) { return f.common_clock; }) &&
      last->start - first->start <= first->length() / 2;
  if (one_clock) {
    // One window for all: from the first rank's start to its next.
    const Window common = *first;
    std::fill(windows.begin(), windows.end(), common);
  } else if (files.size() > 1) {
    out.notes.emplace_back("the clocks of the ranks' files differ: each rank begins at 0");
  }
  std::map<std::tuple<std::string, WorkKind, std::uint32_t>, std::uint32_t> known;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ProfiledRank& f = files[i];
    const Window w = windows[i];
    out.duration = std::max(out.duration, w.length() * 1000);
    StepOfRank rank{Rank{numbers[i]}, f.streams, {}, f.peak_bytes};
    std::vector<std::uint32_t> kernel;
    for (const ProfiledKernel& k : f.kernels) {
      const auto [at, fresh] =
          known.emplace(std::tuple(k.name, k.kind, k.ranks), static_cast<std::uint32_t>(out.kernels.size()));
      if (fresh) out.kernels.push_back(k);
      kernel.push_back(at->second);
    }
    for (const ProfiledRun& r : f.runs) {
      if (r.start < w.start || r.start >= w.end) continue;
      const Span span{(r.start - w.start) * 1000, (std::min(r.end, w.end) - w.start) * 1000};
      rank.runs.push_back({span, kernel[r.kernel], r.stream});
    }
    if (rank.runs.empty()) {
      refuse(diagnostics, f.file, "no kernel of a device starts in the chosen step",
             "A device may lag behind the launches that mark a step: profile more steps.");
      return std::nullopt;
    }
    out.ranks.push_back(std::move(rank));
  }
  std::sort(out.ranks.begin(), out.ranks.end(),
            [](const StepOfRank& a, const StepOfRank& b) { return a.rank < b.rank; });
  return out;
}

std::vector<StepRun> computing(const ProfiledStep& step, const StepOfRank& rank) {
  std::vector<StepRun> out;
  for (const Piece& p : in_line(rank, [&](const StepRun& r) { return !is_transfer(step.kernels[r.kernel].kind); })) {
    out.push_back({p.span, p.run->kernel, p.run->stream});
  }
  return out;
}

ProfiledTimes account(const ProfiledStep& step, const StepOfRank& rank, const ProfiledIdleVisitor& visit) {
  const auto kind = [&](const StepRun& r) { return step.kernels[r.kernel].kind; };
  const std::vector<Piece> busy = in_line(rank, [&](const StepRun& r) { return !is_transfer(kind(r)); });
  const std::vector<Piece> waits =
      in_line(rank, [&](const StepRun& r) { return is_collective(kind(r)) || kind(r) == WorkKind::copy; });
  const std::vector<Piece> messages = in_line(rank, [&](const StepRun& r) { return kind(r) == WorkKind::exchange; });
  ProfiledTimes out;
  const auto tell = [&](Span span, IdlePart::Cause cause, const StepRun* run) {
    if (span.end <= span.start) return;
    (cause == IdlePart::Cause::collective ? out.collectives
     : cause == IdlePart::Cause::message  ? out.message
                                          : out.bubble) += span.end - span.start;
    if (visit) visit(span, cause, run);
  };
  /// Splits a stretch: `covered` gets the parts in which a piece lies, `rest` the others. `at` only goes forward.
  const auto split = [](const std::vector<Piece>& pieces, std::size_t& at, Span stretch, const auto& covered,
                        const auto& rest) {
    while (at < pieces.size() && pieces[at].span.end <= stretch.start) ++at;
    std::int64_t from = stretch.start;
    for (std::size_t i = at; i < pieces.size() && pieces[i].span.start < stretch.end; ++i) {
      const Span part{std::max(pieces[i].span.start, from), std::min(pieces[i].span.end, stretch.end)};
      if (part.start > from) rest(Span{from, part.start});
      covered(part, pieces[i].run);
      from = part.end;
    }
    if (from < stretch.end) rest(Span{from, stretch.end});
  };
  std::size_t wait = 0, message = 0;
  const auto idle = [&](Span gap) {
    split(
        waits, wait, gap, [&](Span s, const StepRun* r) { tell(s, IdlePart::Cause::collective, r); },
        [&](Span s) {
          split(
              messages, message, s, [&](Span m, const StepRun* r) { tell(m, IdlePart::Cause::message, r); },
              [&](Span b) { tell(b, IdlePart::Cause::bubble, nullptr); });
        });
  };
  std::int64_t end = 0;
  for (const Piece& p : busy) {
    if (p.span.start > end) idle({end, p.span.start});
    out.busy += p.span.end - p.span.start;
    end = p.span.end;
  }
  if (end < step.duration) idle({end, step.duration});
  return out;
}

}  // namespace orrery
