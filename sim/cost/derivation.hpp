#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"

namespace orrery {

/// Says where a number of a price comes from.
enum class NumberSource : std::uint8_t {
  program,      ///< shapes and bytes of the Program
  placement,    ///< how the plan's ranks lie on the cluster
  device,       ///< models/device: datasheet figures
  cluster,      ///< models/cluster
  calibration,  ///< models/calibration, or what `orrery calibrate` measured
  software,     ///< models/software: costs of the program that trains
  nccl,         ///< tables of NCCL's own tuning model
  formula       ///< a constant of the formula, or what it gives
};
[[nodiscard]] std::string_view name_of(NumberSource);

/// Says how a number follows from others.
enum class NumberBy : std::uint8_t {
  given,
  sum,
  product,
  quotient,  ///< the first over all others
  largest,
  least,
  saturation  ///< 1 - exp(-x)
};
[[nodiscard]] std::string_view name_of(NumberBy);

/// One number of a price with everything that it was computed from, down to figures of files.
struct DerivedNumber {
  std::string name;
  double value = 0.0;                             ///< base units: bytes, flops, seconds and their ratios
  std::int8_t bytes = 0, flops = 0, seconds = 0;  ///< powers in its unit
  NumberBy by = NumberBy::given;
  NumberSource source = NumberSource::formula;
  std::string where;                ///< of a given number: key in the file or what it counts; of others: the formula's
                                    ///< source
  std::vector<DerivedNumber> from;  ///< empty for a given one
};

/// Recomputes the number from the given ones that it rests on.
[[nodiscard]] double evaluate(const DerivedNumber&);
/// "1.98 PFLOP/s", "12.3 us", "0.76".
[[nodiscard]] std::string value_text(const DerivedNumber&);

/// Records how a price is computed, while it is computed. Functions of sim/cost write to their last parameter `why`
/// where it is not null. It is a stack: each of these functions leaves one more number, its result.
class Derivation {
 public:
  template <int B, int F, int S>
  void given(std::string name, Quantity<B, F, S> value, NumberSource source, std::string where = {}) {
    push(std::move(name), value.base(), B, F, S, NumberBy::given, 0, source, std::move(where));
  }
  void given(std::string name, double value, NumberSource source, std::string where = {}) {
    push(std::move(name), value, 0, 0, 0, NumberBy::given, 0, source, std::move(where));
  }
  /// Takes the last `parts` numbers and puts one in their place.
  template <int B, int F, int S>
  void made(NumberBy by, std::size_t parts, std::string name, Quantity<B, F, S> value, std::string where = {}) {
    push(std::move(name), value.base(), B, F, S, by, parts, NumberSource::formula, std::move(where));
  }
  void made(NumberBy by, std::size_t parts, std::string name, double value, std::string where = {}) {
    push(std::move(name), value, 0, 0, 0, by, parts, NumberSource::formula, std::move(where));
  }
  /// Returns the last number and removes it.
  [[nodiscard]] DerivedNumber take();
  void put(DerivedNumber number) { stack_.push_back(std::move(number)); }
  [[nodiscard]] std::size_t size() const { return stack_.size(); }

 private:
  void push(std::string name, double value, int bytes, int flops, int seconds, NumberBy, std::size_t parts,
            NumberSource, std::string where);
  std::vector<DerivedNumber> stack_;
};

}  // namespace orrery
