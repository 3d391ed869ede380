#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "exec/device/host_device.hpp"
#include "tests/support/device_under_test.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

// Cross-entropy's two kernels one after the other on a stream, where the second need not read the logits again, beside
// the host's. It runs on threads that stand for a device, and in the program gpu_kernels on a GPU.
namespace {

constexpr std::uint64_t rows = 5;

/// Operands on the device.
class There {
 public:
  There(Device& device, DeviceStream& stream) : device_(device), stream_(stream) {}
  ~There() {
    for (const auto& [memory, at] : all_) device_.release(at);
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;
  Operand take(Memory& m) {
    Operand o = m.operand();
    std::byte* const at = device_.allocate(o.count * size_of(o.dtype));
    stream_.copy(at, o.data, o.count * size_of(o.dtype));
    all_.emplace_back(&m, at);
    o.data = at;
    return o;
  }
  void bring_back() {
    for (const auto& [memory, at] : all_) {
      const Operand o = memory->operand();
      stream_.copy(o.data, at, o.count * size_of(o.dtype));
    }
    const auto ended = device_.make_event();
    stream_.record(*ended);
    while (!device_.done(*ended)) {
    }
  }

 private:
  Device& device_;
  DeviceStream& stream_;
  std::vector<std::pair<Memory*, std::byte*>> all_;
};

enum class Between { nothing, larger_maximum, other_logits, other_kernel };

struct Results {
  Memory largest, sums, targets;
  friend bool operator==(const Results&, const Results&) = default;
};

/// Between the kernels another stream may bring another rank's larger maxima, or other logits, which no Program does;
/// or another kernel may run.
Results run_both(DType t, const Memory& logits, std::uint64_t columns, Between between, const Place& place) {
  HostDevice host;
  Device& device = gpu_under_test() != nullptr ? *gpu_under_test() : host;
  const auto stream = device.make_stream(false);
  const DType s = wide(t);
  Memory in = logits;
  Memory largest = zeros(s, rows), sums = zeros(s, rows), of_targets = zeros(s, rows);
  Memory others = zeros(s, rows), nothing = zeros(s, rows);
  Memory of_others = zeros(t, rows * columns);
  for (std::uint64_t r = 0; r < rows; ++r) {
    double most = logits[r * columns];
    for (std::uint64_t c = 0; c < columns; ++c) most = std::max(most, logits[r * columns + c]);
    others.set(r, most + 3.0);
  }
  Memory targets(DType::i32, rows);
  for (std::uint64_t r = 0; r < rows; ++r) targets.set(r, r == 2 ? -1.0 : static_cast<double>(r * columns / rows));
  There there(device, *stream);
  Operand l = there.take(in);
  l.place = place;
  const Operand most = there.take(largest), sum = there.take(sums), of = there.take(of_targets),
                none = there.take(nothing), target = there.take(targets);
  KernelContext context;
  const std::vector<Operand> first{l, most};
  stream->run(kernel(KernelKind::cross_entropy_max, t, rows, columns), first, context);
  const auto messages = device.make_stream(true);
  const auto made = device.make_event(), came = device.make_event();
  if (between == Between::larger_maximum) {
    stream->record(*made);
    messages->wait(*made);
    messages->copy(most.data, others.operand().data, rows * size_of(s));
    messages->record(*came);
    stream->wait(*came);
  } else if (between == Between::other_logits) {
    stream->record(*made);
    messages->wait(*made);
    messages->copy(l.data, of_others.operand().data, rows * columns * size_of(t));
    messages->record(*came);
    stream->wait(*came);
  } else if (between == Between::other_kernel) {
    Operand into = most;
    into.accumulate = true;
    const std::vector<Operand> two{none, into};
    stream->run(kernel(KernelKind::add_to, s, rows, 1), two, context);
  }
  const std::vector<Operand> second{l, most, target, sum, of};
  stream->run(kernel(KernelKind::cross_entropy_sum, t, rows, columns), second, context);
  there.bring_back();
  return {largest, sums, of_targets};
}

}  // namespace

// Sums that are counted from the largest so far differ from sums that are counted from the largest of all by a rounding
// for each time that a larger one came: by less than the error that is allowed of two orders of summing.
TEST_CASE("a row's largest logit and its sum of one reading are those of two", "[device]") {
  const auto [t, columns] = GENERATE(table<DType, std::uint64_t>(
      {{DType::f64, 130}, {DType::f32, 700}, {DType::bf16, 700}, {DType::f16, 130}, {DType::f32, 3}}));
  CAPTURE(name_of(t), columns);
  // In rising order, too, in which each logit is the largest so far; and so far apart that exp(x) would overflow.
  for (const int order : {0, 1, 2}) {
    Memory logits = values(t, rows * columns, 3);
    for (std::uint64_t i = 0; order > 0 && i < rows * columns; ++i) {
      const double x = static_cast<double>(i % columns) / static_cast<double>(columns);
      logits.set(i, order == 1 ? 20.0 * x : 1000.0 * (x - 0.5));
    }
    const Results once = run_both(t, logits, columns, Between::nothing, {});
    const Results twice = run_both(t, logits, columns, Between::other_kernel, {});
    CAPTURE(order);
    CHECK(once.largest == twice.largest);
    CHECK(error(once.sums, twice.sums) <= bound(wide(t)));
    CHECK(once.targets == twice.targets);
    CHECK(run_both(t, logits, columns, Between::nothing, {}) == once);  // bit for bit
    // The second kernel does not read the rows again; after another kernel it does, as it must.
    CHECK(run_both(t, logits, columns, Between::other_logits, {}).sums == once.sums);
    // By the definition, in double.
    for (std::uint64_t r = 0; r < rows; ++r) {
      double sum = 0.0;
      for (std::uint64_t c = 0; c < columns; ++c) sum += std::exp(logits[r * columns + c] - once.largest[r]);
      CHECK(once.sums[r] == Approx(sum).epsilon(1e-4));
    }
    // Another rank's larger maximum: all sums shrink by e^-3.
    const Results raised = run_both(t, logits, columns, Between::larger_maximum, {});
    for (std::uint64_t r = 0; r < rows; ++r) {
      CHECK(raised.sums[r] == Approx(once.sums[r] * std::exp(-3.0)).epsilon(1e-4));
    }
  }
}

// Rows: -infinity first, infinity, NaN first, NaN later, and -infinity everywhere but once. A second reading computes
// exp(x - largest), which is 0 for -infinity and NaN for infinity and NaN; so a run sees that its logits are no
// numbers.
TEST_CASE("logits that are infinite or no numbers give what two readings give", "[device]") {
  const auto [t, columns] = GENERATE(
      table<DType, std::uint64_t>({{DType::f64, 130}, {DType::f32, 700}, {DType::bf16, 700}, {DType::f16, 3}}));
  CAPTURE(name_of(t), columns);
  const double infinity = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  Memory logits = values(t, rows * columns, 4);
  logits.set(0, -infinity);
  logits.set(columns + 1, infinity);
  logits.set(2 * columns, none);
  logits.set(3 * columns + columns / 2, none);
  for (std::uint64_t c = 0; c < columns; ++c) {
    if (c != columns / 2) logits.set(4 * columns + c, -infinity);
  }
  const Results once = run_both(t, logits, columns, Between::nothing, {});
  const Results twice = run_both(t, logits, columns, Between::other_kernel, {});
  CHECK(once.largest == twice.largest);
  const Results raised = run_both(t, logits, columns, Between::larger_maximum, {});
  for (const std::uint64_t r : {0U, 4U}) {
    CAPTURE(r);
    double sum = 0.0;
    for (std::uint64_t c = 0; c < columns; ++c) sum += std::exp(logits[r * columns + c] - once.largest[r]);
    CHECK(once.sums[r] == Approx(sum).epsilon(1e-4));
    CHECK(twice.sums[r] == Approx(sum).epsilon(1e-4));
    CHECK(raised.sums[r] == Approx(sum * std::exp(-3.0)).epsilon(1e-4));
  }
  for (const std::uint64_t r : {1U, 2U, 3U}) {
    CAPTURE(r);
    CHECK(std::isnan(once.sums[r]));
    CHECK(std::isnan(twice.sums[r]));
    CHECK(std::isnan(raised.sums[r]));
  }
}
