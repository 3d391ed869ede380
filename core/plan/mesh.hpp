#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"

namespace orrery {

/// The ways ranks can differ from each other.
enum class Axis : std::uint8_t {
  pipeline,  ///< holds other layers
  replica,   ///< other sequences; with hybrid sharding each replica holds the whole states
  data,      ///< other sequences; ZeRO shards states along it, and along context and expert
  context,   ///< other positions of the same sequences
  expert,    ///< other sequences; mixture layers: other experts
  tensor,    ///< 1D: other columns or rows of every matrix
  depth,     ///< 2.5D and 3D tensor parallelism
  row,       ///< 2D, 2.5D, 3D
  column,    ///< 2D, 2.5D, 3D
};
inline constexpr std::size_t axis_count = 9;

[[nodiscard]] std::string_view name_of(Axis);
/// The axis with that name or shorthand.
[[nodiscard]] std::optional<Axis> axis_named(std::string_view);
/// "tp" for tensor, "dp" for data, "pp", "cp", "ep"; empty where an axis has none.
[[nodiscard]] std::string_view shorthand_of(Axis);

struct MeshAxis {
  Axis axis;
  std::uint32_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

/// Ranks as an N-dimensional array with an explicit order of axes.
///
/// `axes` runs from the outermost (slowest) to the innermost: with
/// {pipeline 2, data 2, tensor 4}, ranks 0..3 form one tensor group.  An axis
/// that is not listed has size 1.  Each axis is listed at most once.
struct Mesh {
  std::vector<MeshAxis> axes;

  [[nodiscard]] std::uint64_t size() const;  ///< number of ranks
  [[nodiscard]] std::uint32_t size(Axis) const;
  [[nodiscard]] std::uint64_t stride(Axis) const;  ///< distance of neighbours; size() of the inner axes
  [[nodiscard]] std::uint32_t coordinate(Rank, Axis) const;
  /// The rank that differs from `rank` in `axis` only, where it has `coordinate`.
  [[nodiscard]] Rank moved(Rank rank, Axis axis, std::uint32_t coordinate) const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// A few axes in order, outermost first; small enough to copy freely.
struct AxisList {
  Axis axis[axis_count] = {};
  std::uint8_t count = 0;

  constexpr AxisList() = default;
  constexpr AxisList(std::initializer_list<Axis> list) {
    for (const Axis a : list) axis[count++] = a;
  }
  [[nodiscard]] constexpr const Axis* begin() const { return axis; }
  [[nodiscard]] constexpr const Axis* end() const { return axis + count; }
  [[nodiscard]] constexpr bool empty() const { return count == 0; }
  friend constexpr bool operator==(const AxisList& a, const AxisList& b) {
    if (a.count != b.count) return false;
    for (std::uint8_t i = 0; i < a.count; ++i) {
      if (a.axis[i] != b.axis[i]) return false;
    }
    return true;
  }
};

/// The axes that plans have today.
inline constexpr AxisList plan_axes{Axis::pipeline, Axis::replica, Axis::data, Axis::context, Axis::expert,
                                    Axis::tensor,   Axis::depth,   Axis::row,  Axis::column};
/// The axes that cut the sequences of the global batch, outermost first; sequence_axes (plan.hpp) adds the axes of
/// tensor parallelism.
inline constexpr AxisList batch_axes{Axis::replica, Axis::data, Axis::expert};
/// The names of plan_axes for messages: "pipeline, replica, data, context, expert and tensor".
[[nodiscard]] std::string plan_axes_text();

/// Product of the sizes of `axes`.
[[nodiscard]] std::uint64_t size(const Mesh&, const AxisList& axes);
/// Row-major index of `rank` over `axes`.
[[nodiscard]] std::uint64_t coordinate(const Mesh&, Rank rank, const AxisList& axes);
/// The rank that differs from `rank` in `axes` only, where it has the row-major index `at`.
[[nodiscard]] Rank moved(const Mesh&, Rank rank, const AxisList& axes, std::uint64_t at);
[[nodiscard]] bool contains(const AxisList& axes, Axis axis);
[[nodiscard]] AxisList without(const AxisList& axes, Axis axis);
/// Whether these are axes along which ranks hold other experts (expert_axes in plan.hpp): expert, then context, tensor.
[[nodiscard]] bool cut_experts(const AxisList& axes);

}  // namespace orrery
