#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/hosted_command.hpp"
#include "cli/table.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

std::string clock_text(double seconds) {
  if (seconds < 90.0) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400.0) return fmt::format("{:.0f} min", seconds / 60.0);
  return fmt::format("{:.1f} h", seconds / 3600.0);
}

/// Columns of the terminal; 80 where it does not say.
std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The first `columns` characters of UTF-8 text: a longer line would wrap, and its beginning could not be removed.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Progress::Progress()
    : terminal_(HostedCommand::here() == nullptr && isatty(STDERR_FILENO) == 1),
      start_(steady_clock::now()),
      phase_start_(start_),
      last_(start_) {}

Progress::~Progress() { clear(); }

bool Progress::due(const std::string& phase) {
  if (!terminal_) return false;
  const auto now = steady_clock::now();
  if (phase != phase_) {
    if (!phase_.empty()) phase_start_ = now;  // the first phase began with the program
    phase_ = phase;
  }
  if (duration<double>(now - start_).count() < 1.0 || duration<double>(now - last_).count() < 0.1) return false;
  last_ = now;
  return true;
}

void Progress::draw(const std::string& line) {
  std::fprintf(stderr, "\r\x1b[2K%s", cut(escaped(line), terminal_columns() - 1).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::show(const std::string& phase, std::uint64_t done, std::uint64_t total, std::optional<double> eta_s,
                    const std::string& note) {
  const std::scoped_lock lock(mutex_);
  if (HostedCommand* hosted = HostedCommand::here()) hosted->show({phase, note, done, total});
  if (!due(phase)) return;
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
  if (!eta_s && share > 0.02) eta_s = duration<double>(last_ - phase_start_).count() * (1.0 - share) / share;
  std::string line = total > 0 ? fmt::format("{:<10} [{}] {:5.1f} %", phase, bar(share, 24), 100.0 * share)
                               : fmt::format("{:<10} {}", phase, clock_text(static_cast<double>(done)));
  if (eta_s) line += ", " + clock_text(*eta_s) + " left";
  if (!note.empty()) line += ", " + note;
  draw(line);
}

void Progress::settled(const std::string& phase, std::uint64_t done, std::uint64_t total, const std::string& note) {
  const std::scoped_lock lock(mutex_);
  if (HostedCommand* hosted = HostedCommand::here()) hosted->show({phase, note, done, total});
  if (!due(phase)) return;
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0.0;
  draw(fmt::format("{}: {:.1f} % of {} plans settled{}{}", phase, 100.0 * share, with_commas(total),
                   note.empty() ? "" : ", ", note));
}

void Progress::clear() {
  const std::scoped_lock lock(mutex_);
  if (drawn_) std::fprintf(stderr, "\r\x1b[2K");
  drawn_ = false;
}

Ticker::Ticker(std::string phase) : phase_(std::move(phase)) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    for (std::uint64_t halves = 1; !ended_.wait_for(lock, std::chrono::milliseconds(500), [this] { return end_; });
         ++halves) {
      progress_.show(phase_, total_ > 0 ? done_ : halves / 2, total_, {}, note_);
    }
  });
}

void Ticker::show(const std::string& phase, std::uint64_t done, std::uint64_t total, const std::string& note) {
  const std::scoped_lock lock(mutex_);
  if (phase != phase_) progress_.show(phase, done, total);  // its time begins here
  phase_ = phase;
  note_ = note;
  done_ = done;
  total_ = total;
}

Ticker::~Ticker() {
  {
    const std::scoped_lock lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace orrery
