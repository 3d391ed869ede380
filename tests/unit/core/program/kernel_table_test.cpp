#include "core/program/kernel_table.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string_view>

using namespace orrery;

namespace {

Kernel kernel(KernelKind kind) {
  Kernel k;
  k.kind = kind;
  return k;
}

/// Calls visit with every kind under every choice of the options that decide which operands there are.
template <class Visit>
void for_each_kernel(Visit visit) {
  for (std::size_t kind = 0; kind < kernel_kind_count; ++kind) {
    for (unsigned chosen = 0; chosen < 1U << 12; ++chosen) {
      Kernel k = kernel(static_cast<KernelKind>(kind));
      const auto is = [&](unsigned option) { return (chosen >> option & 1U) != 0; };
      k.options.bias = is(0);
      k.options.dropout = is(1);
      k.options.factor = is(2);
      k.options.master = is(3);
      k.options.momentum = is(4);
      k.options.scaled = is(5);
      k.options.cut = is(6);
      k.options.loads = is(7);
      k.options.residual = is(8);
      k.options.unbiased = is(9);
      k.depth = is(10) ? 3 : 0;
      k.options.sinks = is(11);
      visit(k);
    }
  }
}

}  // namespace

TEST_CASE("names of operands are distinct", "[kernel]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < operand_name_count; ++i) names.insert(name_of(static_cast<OperandName>(i)));
  CHECK(names.size() == operand_name_count);
  CHECK(!names.contains(""));
}

TEST_CASE("a name is one operand's of a kernel, whatever its options", "[kernel]") {
  bool once = true, in_order = true, first_repeats = true;
  for_each_kernel([&](const Kernel& k) {
    const OperandList operands = operands_of(k);
    const OperandPlaces places(k, operands.size());
    std::set<OperandName> names;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      once = once && names.insert(operands[i].name).second;
      in_order = in_order && places[operands[i].name] == i;
      first_repeats = first_repeats && (i == 0 || !operands[i].repeats);
    }
  });
  CHECK(once);
  CHECK(in_order);
  CHECK(first_repeats);
}

TEST_CASE("operands stand where the options put them", "[kernel]") {
  // [dy, x, gamma, stats, (cut: gradient sums), (residual: residual), dx]
  Kernel k = kernel(KernelKind::rms_norm_backward_input);
  CHECK(OperandPlaces(k, 5)[OperandName::dx] == 4);
  CHECK(operands_of(k)[4].use == View::Use::accumulate);
  k.options.cut = true;
  CHECK(OperandPlaces(k, 6)[OperandName::dx] == 5);
  k.options.residual = true;
  CHECK(OperandPlaces(k, 7)[OperandName::gradient_sums] == 4);
  CHECK(OperandPlaces(k, 7)[OperandName::residual] == 5);
  CHECK(OperandPlaces(k, 7)[OperandName::dx] == 6);
  CHECK(operands_of(k)[6].use == View::Use::write);
  // RMS norm has no beta and no sums of x; layer norm has both.
  CHECK(OperandPlaces(kernel(KernelKind::rms_norm_forward), 4)[OperandName::beta] == OperandPlaces::absent);
  CHECK(OperandPlaces(kernel(KernelKind::layer_norm_forward), 5)[OperandName::beta] == 2);
}

TEST_CASE("an operand that repeats moves those behind it", "[kernel]") {
  const OperandPlaces places(kernel(KernelKind::sum_squares), 5);
  CHECK(places.extra() == 3);
  CHECK(places[OperandName::gradient] == 0);
  CHECK(places[OperandName::norm] == 4);
}

TEST_CASE("attention looks at places where dropout or slopes make it", "[kernel]") {
  // What dropout keeps follows from an element's global place, and a slope from the model's head.
  Kernel k = kernel(KernelKind::attention_flash_forward);
  CHECK(!holds(row_of(k.kind).traits.placed, k));
  k.options.dropout = true;
  CHECK(holds(row_of(k.kind).traits.placed, k));
  k.options.dropout = false;
  k.options.alibi = true;
  CHECK(holds(row_of(k.kind).traits.placed, k));
}
