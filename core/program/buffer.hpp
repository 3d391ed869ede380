#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/ids.hpp"
#include "core/program/shard.hpp"

namespace orrery {

/// How a parameter starts.
enum class Init : std::uint8_t { zeros, ones, normal };

/// One parameter tensor inside a flat parameter buffer.
struct ParameterSlice {
  std::string name;      ///< "attention.qkv.weight"; layers add "layers.N." in front
  std::uint64_t offset;  ///< elements from the start of the (unsharded-over-data) flat buffer
  Shard shard;           ///< of the global tensor; weights are stored [in, out]
  Init init = Init::zeros;
  double init_scale = 0.0;  ///< standard deviation of Init::normal
  friend bool operator==(const ParameterSlice&, const ParameterSlice&) = default;
};

/// A run of slices that optimizer and norms treat alike. The segment is padded so that every flat split gets equal
/// parts; padding elements are zero and stay zero.
struct ParameterSegment {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  bool decay = false;       ///< weight decay applies (matrices, not norms or biases)
  bool replicated = false;  ///< every rank of the tensor axis holds the same values
  bool counted = true;      ///< false for a second copy (tied head): left out of the global norm
  bool summed = false;      ///< each rank of the tensor axis has a part of its gradient, however positions are cut
  friend bool operator==(const ParameterSegment&, const ParameterSegment&) = default;
};

/// Layout of one module's parameters as one flat array. The modules are "layer", "embedding" and "head"; models with
/// two kinds of layers have "layer.dense" beside "layer", and "prediction" brings the stream into a prediction module.
/// Where adapters are trained, "layer.adapters" has them, and the other modules have weights alone. Where
/// these are kept in few bits, each matrix of layers has a table of its own, "base.ffn.up" (of_base).
/// Weights, gradients, masters and moments share this layout.
struct ParameterTable {
  std::string module;
  std::uint64_t count = 0;  ///< elements with padding
  std::vector<ParameterSlice> slices;
  std::vector<ParameterSegment> segments;
  friend bool operator==(const ParameterTable&, const ParameterTable&) = default;
};

enum class Role : std::uint8_t {
  weight,
  gradient,
  master,
  moment,      // persistent
  activation,  ///< kept or passed between blocks
  statistic,   ///< row statistics: mean, 1/deviation, log-sum-exp
  workspace,   ///< lives inside one block
  data,        ///< tokens, targets
  scalar,      ///< counts, norms, factors
};

/// Says which instances of a declaration exist on a rank.
enum class Scope : std::uint8_t {
  stage,             ///< one
  layer,             ///< one per layer of the stage
  microbatch,        ///< one per microbatch
  layer_microbatch,  ///< one per layer and microbatch
};

/// The memory in which a buffer lives. Peaks are counted for each tier separately; every op but Copy works on device
/// buffers only.
enum class Tier : std::uint8_t { device, host, disk };

/// Declaration of a buffer; the slot that runs a block says which instance is
/// meant (slot layer + the view's layer shift, slot microbatch).
struct Buffer {
  std::string name;
  Role role = Role::workspace;
  Scope scope = Scope::stage;
  DType dtype = DType::f32;
  std::uint64_t count = 0;                  ///< elements on one rank
  std::optional<Shard> shard;               ///< part of the global activation or data tensor, where identity matters
  std::optional<std::uint32_t> parameters;  ///< index into Program::parameter_tables
  AxisList flat_split;  ///< each segment of the table is cut by those axes of this list that cut none of the segment's
                        ///< tensors (flat_parts.hpp)
  Tier tier = Tier::device;
  /// The buffer whose memory this one takes over, element by element: this one lives while that one does, and has no
  /// memory of its own. A write to either destroys the contents of the other.
  std::optional<BufferId> reuses;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

[[nodiscard]] std::string_view name_of(Init);
[[nodiscard]] std::string_view name_of(Role);
[[nodiscard]] std::string_view name_of(Scope);
[[nodiscard]] std::string_view name_of(Tier);
/// Size of its elements, in bytes.
[[nodiscard]] inline std::uint64_t size_of(const Buffer& b) { return b.count * size_of(b.dtype); }
/// Bytes of memory that it needs.
[[nodiscard]] inline std::uint64_t bytes_of(const Buffer& b) { return b.reuses ? 0 : size_of(b); }
[[nodiscard]] constexpr bool per_layer(Scope s) { return s == Scope::layer || s == Scope::layer_microbatch; }
[[nodiscard]] constexpr bool per_microbatch(Scope s) { return s == Scope::microbatch || s == Scope::layer_microbatch; }

/// Whether every layer, or every layer of one kind, has such a module.
[[nodiscard]] bool of_layers(const ParameterTable&);
/// Whether these are adapters' parameters, beside those of a layer that stay as they are.
[[nodiscard]] bool of_adapters(const ParameterTable&);

/// Whether this is one matrix of layers that is kept in few bits ("base.attention.qkv"). No buffer holds its weights
/// for longer than setup, or a product, needs them.
[[nodiscard]] bool of_base(const ParameterTable&);

/// Full name of a parameter: "layers.3.ffn.up.weight", "embedding.word.weight".
/// A slice of another module that begins with "embedding." is the last stage's
/// copy of the tied table and has the table's name.
[[nodiscard]] std::string parameter_name(const ParameterTable&, const ParameterSlice&, std::uint32_t layer);

}  // namespace orrery
