#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "core/base/units.hpp"
#include "exec/run/recorder.hpp"

namespace orrery {

/// Beats a rank's record from a thread of its own for as long as it lives, ten times within the silence that others
/// allow.
class Heart {
 public:
  /// `with_each_beat` is called on that thread too; it may be empty.
  Heart(Recorder&, Seconds longest_silence, std::function<void()> with_each_beat = {});
  ~Heart();
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  [[nodiscard]] static Seconds period(Seconds longest_silence);

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// For how long others have been silent.
///
/// Time counts only while the listener itself runs: when a machine stands still, nobody is at fault.
class Silence {
 public:
  explicit Silence(Seconds limit) : limit_(limit) {}
  /// Returns whether the limit is reached. `beat` is the last known one; `passed` is the time since the last call, of
  /// which at most twice the usual counts.
  [[nodiscard]] bool too_long(std::int64_t beat, Seconds passed);
  /// True if there was no beat between the last two calls.
  [[nodiscard]] bool begun() const { return silent_ > Seconds{}; }

 private:
  Seconds limit_, silent_;
  std::int64_t last_ = 0;
};

}  // namespace orrery
