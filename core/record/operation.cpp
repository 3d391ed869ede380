#include "core/record/operation.hpp"

#include <type_traits>

#include "core/base/diagnostics.hpp"

namespace orrery {

namespace {

constexpr std::size_t first_collective = kernel_kind_count;
constexpr std::size_t exchange_number = index(exchange_operation);
constexpr std::size_t copy_number = index(copy_operation);
static_assert(exchange_number == first_collective + collective_kind_count * axis_set_count);
static_assert(operation_count <= 256);

std::size_t axis_set(const AxisList& axes) {
  std::size_t set = 0;
  for (const Axis a : axes) set |= std::size_t{1} << index(a);
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

std::string name_of(Operation operation) {
  const std::size_t number = index(operation);
  if (number < first_collective) return std::string(name_of(static_cast<KernelKind>(number)));
  if (number == exchange_number) return "exchange";
  if (number == copy_number) return "copy";
  const std::size_t at = number - first_collective;
  std::string name(name_of(static_cast<Collective::Kind>(at / axis_set_count)));
  char separator = ' ';
  for (std::size_t i = 0; i < axis_count; ++i) {
    if ((at % axis_set_count >> i & 1U) == 0) continue;
    name += separator;
    name += name_of(static_cast<Axis>(i));
    separator = '+';
  }
  return name;
}

}  // namespace orrery
