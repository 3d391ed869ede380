#include "exec/run/heart.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/run/op_runner.hpp"

namespace orrery {

Seconds Heart::period(Seconds longest_silence) {
  return Seconds::of(std::clamp(longest_silence.base() / 10.0, 0.005, 0.5));
}

Heart::Heart(Recorder& recorder, Seconds longest_silence, std::function<void()> with_each_beat) {
  const std::chrono::duration<double> pause(period(longest_silence).base());
  thread_ = std::thread([this, &recorder, pause, each = std::move(with_each_beat)] {
    while (!stop_.load(std::memory_order_relaxed)) {
      recorder.beat(now_ns());
      if (each) each();
      std::this_thread::sleep_for(pause);
    }
  });
}

Heart::~Heart() {
  stop_ = true;
  thread_.join();
}

bool Silence::too_long(std::int64_t beat, Seconds passed) {
  silent_ = beat == last_ ? silent_ + passed : Seconds{};
  last_ = beat;
  return silent_ >= limit_;
}

}  // namespace orrery
