#include "core/record/operation.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "core/base/diagnostics.hpp"

namespace orrery {

namespace {

constexpr std::size_t first_collective = kernel_kind_count;
constexpr std::size_t exchange_number = index(exchange_operation);
constexpr std::size_t copy_number = index(copy_operation);
static_assert(exchange_number == first_collective + collective_kind_count * axis_set_count);
static_assert(operation_count <= 256);

/// Every set of these axes has a name of its own; other axes do not.
constexpr Axis combined[] = {Axis::pipeline, Axis::data, Axis::tensor};
constexpr Axis alone[] = {Axis::replica, Axis::context, Axis::expert, Axis::depth, Axis::row, Axis::column};
constexpr std::size_t sets = 1U << std::size(combined);
constexpr std::size_t several = axis_set_count - 1;
static_assert(sets + std::size(alone) == several);

/// The set of the expert axis, with or without other axes that cut experts.
constexpr std::size_t axis_set_of_experts =
    sets + static_cast<std::size_t>(std::find(std::begin(alone), std::end(alone), Axis::expert) - std::begin(alone));

std::size_t axis_set(const AxisList& axes) {
  if (cut_experts(axes)) return axis_set_of_experts;
  std::size_t set = 0;
  for (const Axis a : axes) {
    const auto* const at = std::find(std::begin(combined), std::end(combined), a);
    if (at != std::end(combined)) {
      set |= std::size_t{1} << (at - std::begin(combined));
      continue;
    }
    if (axes.count > 1) return several;
    return sets + static_cast<std::size_t>(std::find(std::begin(alone), std::end(alone), a) - std::begin(alone));
  }
  return set;
}

}  // namespace

Operation operation_of(const Program& program, const Block& block, const Op& op) {
  const std::size_t number = std::visit(
      [&](const auto& a) -> std::size_t {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Compute>) {
          return index(block.kernels[a.kernel].kind);
        } else if constexpr (std::is_same_v<T, Collective>) {
          return first_collective + index(a.kind) * axis_set_count + axis_set(program[a.group].axes);
        } else if constexpr (std::is_same_v<T, Exchange>) {
          return exchange_number;
        } else if constexpr (std::is_same_v<T, Copy>) {
          return copy_number;
        } else {
          static_assert(std::is_same_v<T, Alloc> || std::is_same_v<T, Free>);
          return operation_count;
        }
      },
      op.action);
  ORRERY_ASSERT(number < operation_count, number);
  return static_cast<Operation>(number);
}

bool is_timed(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

bool is_communication(Operation operation) {
  return index(operation) >= first_collective && index(operation) <= exchange_number;
}

bool is_communication(std::string_view name) {
  for (std::size_t i = first_collective; i <= exchange_number; ++i) {
    if (name == name_of(static_cast<Operation>(i))) return true;
  }
  return false;
}

std::string name_of(Operation operation) {
  const std::size_t number = index(operation);
  if (number < first_collective) return std::string(name_of(static_cast<KernelKind>(number)));
  if (number == exchange_number) return "exchange";
  if (number == copy_number) return "copy";
  const std::size_t at = number - first_collective;
  std::string name(name_of(static_cast<Collective::Kind>(at / axis_set_count)));
  const std::size_t set = at % axis_set_count;
  if (set == several) return name + " several axes";
  if (set >= sets) return name.append(" ").append(name_of(alone[set - sets]));
  char separator = ' ';
  for (std::size_t i = 0; i < std::size(combined); ++i) {
    if ((set >> i & 1U) == 0) continue;
    name += separator;
    name += name_of(combined[i]);
    separator = '+';
  }
  return name;
}

}  // namespace orrery
