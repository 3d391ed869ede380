#pragma once

#include <cstdint>

namespace orrery {

/// Who made a tensor: each has names of its own.
enum class NameOwner : std::uint8_t { program, contiguous, fsdp, framework };

/// This bit is set in names of tensors that belong to one microbatch; its number is in the lowest 24 bits.
inline constexpr std::uint64_t of_microbatch = 1ULL << 61U;

/// `number` is below 2^61, and may have `of_microbatch` set.
[[nodiscard]] constexpr std::uint64_t tensor_name(NameOwner owner, std::uint64_t number) {
  return std::uint64_t{static_cast<std::uint8_t>(owner)} << 62U | number;
}

/// The name of the same tensor of the microbatch that is `later` ones later.
[[nodiscard]] constexpr std::uint64_t name_after(std::uint64_t name, std::uint64_t later) {
  return (name & of_microbatch) != 0 ? name + later : name;
}

}  // namespace orrery
