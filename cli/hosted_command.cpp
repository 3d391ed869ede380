#include "cli/hosted_command.hpp"

#include <chrono>
#include <memory>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/cut_off.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"

namespace orrery {
namespace {

std::timed_mutex turn;
std::atomic<HostedCommand*> running{nullptr};

/// The process's turn of a command, for as long as it takes.
class Turn {
 public:
  Turn(HostedCommand& command, const std::atomic<bool>& stopped) {
    while (!turn.try_lock_for(std::chrono::milliseconds(50))) {
      if (stopped) throw Error("interrupted");
    }
    if (stopped) {
      turn.unlock();
      throw Error("interrupted");
    }
    running = &command;
  }
  ~Turn() {
    running = nullptr;
    turn.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

std::filesystem::path& folder() {
  static std::filesystem::path path;
  return path;
}

}  // namespace

HostedCommand* HostedCommand::here() { return running; }

void refuse_hosted(const std::string& what, const std::string& right) {
  if (HostedCommand::here() == nullptr) return;
  refuse("cli.hosted", what + " starts processes, which it cannot do inside another program", {right});
}

HostedAnswer HostedCommand::run(const std::vector<std::string>& arguments) {
  std::vector<const char*> values{"orrery"};
  for (const std::string& a : arguments) values.push_back(a.c_str());
  try {
    const Turn mine(*this, stop_);
    // Made within the turn: a verb's bar of progress asks whether a command is hosted.
    const std::vector<std::unique_ptr<Verb>> verbs = all_verbs();
    answer_.status = dispatch(static_cast<int>(values.size()), values.data(), verbs);
  } catch (const CutOff& cut) {
    answer_.status = status_input;
    answer_.diagnostics = diagnosed(cut);
  } catch (const InputError& wrong) {
    answer_.status = status_input;
    answer_.diagnostics = wrong.diagnostics;
  } catch (const std::exception& failed) {
    answer_.status = status_world;
    answer_.failure = failed.what();
  } catch (...) {
    answer_.status = status_world;
    answer_.failure = "an error without a message";
  }
  return std::move(answer_);
}

void HostedCommand::print(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  answer_.output += text;
}

void HostedCommand::say(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  answer_.messages += text;
}

std::optional<HostedProgress> HostedCommand::progress() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(progress_, std::nullopt);
}

void HostedCommand::show(HostedProgress p) {
  const std::scoped_lock lock(mutex_);
  progress_ = std::move(p);
}

void set_data_folder(const std::filesystem::path& path) { folder() = path; }
const std::filesystem::path& data_folder() { return folder(); }

}  // namespace orrery
