#include "exec/run/post_mortem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "exec/run/op_text.hpp"

namespace orrery {
namespace {

constexpr std::size_t completed_shown = 4;

/// The system's letter for the state of a process; ' ' where it has none.
char state_letter(int process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(in, text);
  const std::size_t after_name = text.rfind(')');
  return after_name != std::string::npos && after_name + 2 < text.size() ? text[after_name + 2] : ' ';
}

}  // namespace

std::string killed_text(Rank rank, int signal) {
  return fmt::format("rank {} was killed by signal {} ({})", index(rank), signal, strsignal(signal));
}

std::string left_text(Rank rank, int status) {
  return fmt::format("rank {} ended with status {} before the run was over", index(rank), status);
}

std::string gone_text(Rank rank, int process) {
  return fmt::format("rank {} is gone: process {} was killed, or ended before the run was over", index(rank), process);
}

bool process_is_gone(int process) {
  const char state = state_letter(process);
  return state == ' ' || state == 'Z' || state == 'X';
}

std::string silent_text(Rank rank, Seconds limit, int process) {
  const char state = state_letter(process);
  const char* what = state == 'T' || state == 't' ? "is stopped (SIGSTOP or a debugger)"
                     : state == 'D'               ? "waits for a device"
                                                  : "gets no processor time";
  return fmt::format("rank {} has given no sign of life for {:g} s: process {} {}", index(rank), limit.base(), process,
                     what);
}

RankFailure stalled_rank(const std::vector<Recording>& recordings) {
  const auto gave_up = std::find_if(recordings.begin(), recordings.end(),
                                    [](const Recording& r) { return r.state == RankState::gave_up; });
  if (gave_up == recordings.end()) {
    return {RankFailure::Kind::left, Rank{0}, "the run ended, but no rank reports the cause"};
  }
  const Recording* at = &*gave_up;
  std::set<Rank> seen;
  while (at->waits_for && seen.insert(at->rank).second && index(*at->waits_for) < recordings.size()) {
    at = &recordings[index(*at->waits_for)];
  }
  if (at->waits_for) at = &*gave_up;  // a circle
  return {RankFailure::Kind::stalled, at->rank,
          at == &*gave_up ? gave_up->message
                          : fmt::format("rank {} keeps the others waiting: {}", index(at->rank), gave_up->message)};
}

std::string recording_text(const Program& program, const Recording& r) {
  const auto op = [&](std::uint64_t step, OpId id) { return op_text(program, r.rank, step == 0, index(id)); };
  const auto step_text = [](std::uint64_t step) { return step == 0 ? "setup" : fmt::format("step {}", step); };
  std::string text = fmt::format("rank {}: ", index(r.rank));
  if (r.current.empty()) {
    text += r.state == RankState::starting ? "starting" : r.state == RankState::finished ? "finished" : "between ops";
  }
  for (std::size_t i = 0; i < r.current.size(); ++i) {
    text += fmt::format("{}{}, in {}", i > 0 ? "; " : "", step_text(r.current[i].step),
                        op(r.current[i].step, r.current[i].op));
  }
  if (r.waits_for) text += fmt::format(", waits for rank {}", index(*r.waits_for));
  if (r.completed.empty()) return text + "; completed nothing";
  const RecordedOp& last = r.completed.back();
  text += fmt::format("; completed {} of {}", op(last.step, last.op), step_text(last.step));
  for (std::size_t i = 1; i < std::min(completed_shown, r.completed.size()); ++i) {
    text += fmt::format(", op {}", index(r.completed[r.completed.size() - 1 - i].op));
  }
  return text;
}

std::string post_mortem_text(const Program& program, const RankFailure& failure,
                             const std::vector<Recording>& recordings) {
  std::string text = failure.what;
  for (const Recording& r : recordings) {
    if (r.rank != failure.rank || failure.kind == RankFailure::Kind::failed) continue;
    for (const CurrentOp& now : r.current) {
      text += fmt::format(", in {}{}", now.step == 0 ? "" : fmt::format("step {}, ", now.step),
                          op_text(program, r.rank, now.step == 0, index(now.op)));
    }
  }
  for (const Recording& r : recordings) text += "\n  " + recording_text(program, r);
  return text;
}

}  // namespace orrery
