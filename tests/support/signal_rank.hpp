#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/run/recorder.hpp"

namespace orrery::test {

/// Sends a signal to a rank's process of a run with `--records folder`, as soon as its record there says that it is in
/// its second step. Waits up to a minute for that.
inline void signal_rank(const std::filesystem::path& folder, Rank rank, int signal) {
  for (int i = 0; i < 3000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const auto file = Recorder::file(entry.path(), rank);
      if (!std::filesystem::exists(file)) continue;
      try {
        const Recording r = Recorder(file).read();
        if (r.completed.empty() || r.completed.back().step < 2) continue;
        kill(r.process, signal);
        return;
      } catch (const Error&) {
        // Not all of the record is there yet.
      }
    }
  }
}

}  // namespace orrery::test
