#include "exec/device/host_device.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "exec/kernels/device/reduction.hpp"

namespace orrery {
namespace {

constexpr std::align_val_t alignment{256};
/// Room before each block, for its size.
constexpr std::uint64_t head = 256;

std::byte* take(std::uint64_t bytes) {
  auto* p = static_cast<std::byte*>(::operator new[](bytes + head, alignment, std::nothrow));
  if (p == nullptr) return nullptr;
  std::memcpy(p, &bytes, sizeof bytes);
  std::memset(p + head, 0xff, bytes);  // a NaN of every floating type, so that too early reads show
  return p + head;
}

std::uint64_t give_back(std::byte* p) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, p - head, sizeof bytes);
  ::operator delete[](p - head, alignment);
  return bytes;
}

}  // namespace

class HostDevice::Event final : public DeviceEvent {
 public:
  /// One recording.
  struct Mark {
    std::mutex mutex;
    std::condition_variable reached;
    bool done = false;
    std::chrono::steady_clock::time_point at;
  };
  /// The recording that done() and seconds_between() see. It outlives the event where gathered work will set it.
  struct Seen {
    std::mutex mutex;
    std::shared_ptr<Mark> mark;
    void set(std::shared_ptr<Mark> m) {
      const std::lock_guard lock(mutex);
      mark = std::move(m);
    }
    [[nodiscard]] std::shared_ptr<Mark> get() {
      const std::lock_guard lock(mutex);
      return mark;
    }
  };
  [[nodiscard]] std::shared_ptr<Mark> mark() const { return seen_->get(); }
  [[nodiscard]] const std::shared_ptr<Seen>& seen() const { return seen_; }
  /// The recording for which streams wait when their work is gathered.
  [[nodiscard]] const std::shared_ptr<Mark>& within() const { return within_; }
  std::shared_ptr<Mark> record() {
    auto m = std::make_shared<Mark>();
    seen_->set(m);
    return m;
  }
  std::shared_ptr<Mark> record_within() { return within_ = std::make_shared<Mark>(); }

 private:
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::shared_ptr<Mark> within_;
};

class HostDevice::Stream final : public DeviceStream {
 public:
  explicit Stream(bool fp8) : launcher_(1, device::most_blocks, fp8), thread_([this] { work(); }) {}
  ~Stream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_.store(true);
      works_.clear();
    }
    changed_.notify_all();
    thread_.join();
  }

  void record(DeviceEvent& event) override {
    auto& e = static_cast<Event&>(event);
    if (gathered_ == nullptr) {
      push([mark = e.record()] { reach(*mark); });
      return;
    }
    // This follows a GPU: until the device comes to it, the event tells of its last recording.
    push([mark = e.record_within(), seen = e.seen()] {
      reach(*mark);
      seen->set(mark);
    });
  }
  void wait(const DeviceEvent& event) override {
    const auto& e = static_cast<const Event&>(event);
    push([this, mark = gathered_ != nullptr ? e.within() : e.mark()] {
      if (!mark) return;
      std::unique_lock lock(mark->mutex);
      while (!mark->done && !stop_.load()) mark->reached.wait_for(lock, std::chrono::milliseconds(20));
    });
  }
  void copy(void* to, const void* from, std::uint64_t bytes) override {
    push([this, to, from, bytes] {
      kept_ = {};
      std::memmove(to, from, bytes);
    });
  }
  void call(std::function<void()> w) override {
    push([this, work = std::move(w)] {
      kept_ = {};
      work();
    });
  }
  void run(const Kernel& kernel, std::span<const Operand> operands, const KernelContext& context) override {
    push([this, kernel, context, all = std::vector<Operand>(operands.begin(), operands.end())] {
      if (kernel.compute == DType::f64) {
        device::launch_kernel<double>(launcher_, kept_, kernel, all, context);
      } else {
        device::launch_kernel<float>(launcher_, kept_, kernel, all, context);
      }
    });
  }
  void reduce(const ReductionShare& share) override {
    push([this, share] {
      kept_ = {};
      device::launch_reduction(launcher_, share);
    });
  }
  /// Work that the stream gets goes into this list instead, in order; null: the stream does it.
  void gather_in(std::vector<std::pair<Stream*, std::function<void()>>>* gathered) { gathered_ = gathered; }
  void push(std::function<void()> w) {
    if (gathered_ != nullptr) {
      gathered_->emplace_back(this, std::move(w));
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(w));
    }
    changed_.notify_all();
  }
  [[nodiscard]] void* native() override { return &handle_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const override { return 0; }

 private:
  static void reach(Event::Mark& mark) {
    const std::lock_guard lock(mark.mutex);
    mark.done = true;
    mark.at = std::chrono::steady_clock::now();
    mark.reached.notify_all();
  }
  void work() {
    for (;;) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_.load() || !works_.empty(); });
        if (stop_.load()) return;
        next = std::move(works_.front());
        works_.pop_front();
      }
      next();
    }
  }

  HostStreamHandle handle_{this, [](void* stream, void (*task)(void*), void* argument) {
                             static_cast<Stream*>(stream)->push([=] { task(argument); });
                           }};
  device::HostLauncher launcher_;
  device::KeptSums kept_;
  std::vector<std::pair<Stream*, std::function<void()>>>* gathered_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  std::atomic<bool> stop_{false};
  std::thread thread_;  ///< last: it uses the others
};

class HostDevice::Graph final : public DeviceGraph {
 public:
  void begin(std::span<DeviceStream* const> streams) override {
    for (DeviceStream* s : streams) {
      streams_.push_back(static_cast<Stream*>(s));
      streams_.back()->gather_in(&gathered_);
    }
  }
  bool launch() override {
    for (Stream* s : streams_) s->gather_in(nullptr);
    // The shape of a list of works is the list of the streams that they are for.
    std::vector<Stream*> shape;
    for (auto& [stream, work] : gathered_) {
      shape.push_back(stream);
      stream->push(std::move(work));
    }
    // As in a graph, later work in the first stream comes after all of it.
    for (Stream* s : streams_) {
      if (s == streams_.front()) continue;
      Event end;
      s->record(end);
      streams_.front()->wait(end);
    }
    gathered_.clear();
    streams_.clear();
    const bool anew = shape != shape_;
    shape_ = std::move(shape);
    return anew;
  }
  void drop() noexcept override {
    for (Stream* s : streams_) s->gather_in(nullptr);
    gathered_.clear();
    streams_.clear();
  }

 private:
  std::vector<Stream*> streams_, shape_;
  std::vector<std::pair<Stream*, std::function<void()>>> gathered_;
};

HostDevice::HostDevice(std::uint64_t memory_bytes, bool fp8)
    : info_{"this host, as a device", "threads", memory_bytes, memory_bytes, fp8} {}
HostDevice::~HostDevice() = default;

std::byte* HostDevice::allocate(std::uint64_t bytes) {
  if (taken_.fetch_add(bytes) + bytes <= info_.memory_bytes) {
    if (std::byte* p = take(bytes)) return p;
  }
  taken_.fetch_sub(bytes);
  return nullptr;
}
void HostDevice::release(std::byte* p) { taken_.fetch_sub(give_back(p)); }
std::byte* HostDevice::allocate_host(std::uint64_t bytes) { return take(bytes); }
void HostDevice::release_host(std::byte* p) { static_cast<void>(give_back(p)); }
std::unique_ptr<DeviceStream> HostDevice::make_stream(bool) { return std::make_unique<Stream>(info_.fp8); }
std::unique_ptr<DeviceGraph> HostDevice::make_graph() { return std::make_unique<Graph>(); }
std::unique_ptr<DeviceEvent> HostDevice::make_event() { return std::make_unique<Event>(); }

bool HostDevice::done(const DeviceEvent& event) {
  const auto mark = static_cast<const Event&>(event).mark();
  if (!mark) return true;
  const std::lock_guard lock(mark->mutex);
  return mark->done;
}

double HostDevice::seconds_between(const DeviceEvent& begin, const DeviceEvent& end) {
  const auto at = [](const DeviceEvent& e) {
    const auto mark = static_cast<const Event&>(e).mark();
    const std::lock_guard lock(mark->mutex);
    return mark->at;
  };
  return std::chrono::duration<double>(at(end) - at(begin)).count();
}

bool HostDevice::runs(const Kernel& kernel, std::span<const Operand> operands) const {
  return device::has_kernel(kernel, operands);
}

}  // namespace orrery
