#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>

namespace orrery {

// Every id is its own type, so that a stage cannot be passed as a rank.
enum class Rank : std::uint32_t {};      ///< position in the mesh, 0 .. world size - 1
enum class Peer : std::uint32_t {};      ///< position of a rank inside a group
enum class BufferId : std::uint32_t {};  ///< index into Program::buffers (a declaration, see buffer.hpp)
enum class BlockId : std::uint32_t {};   ///< index into Program::blocks
enum class GroupId : std::uint32_t {};   ///< index into Program::groups
enum class OpId : std::uint32_t {};      ///< running number of an op in one rank's expanded list

/// The number inside an id (or any enumeration).
template <class Id>
[[nodiscard]] constexpr auto index(Id id) {
  static_assert(std::is_enum_v<Id>);
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace orrery
