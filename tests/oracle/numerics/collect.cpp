#include "tests/oracle/numerics/collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/base/diagnostics.hpp"
#include "core/program/flat_parts.hpp"
#include "exec/train/dynamic_codes.hpp"
#include "tests/oracle/numerics/few_bits.hpp"
#include "tests/support/shares.hpp"

namespace orrery::test {
namespace {

template <class T>
T raw(const std::byte* data, std::uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

/// E4M3 by its definition: an exponent field of 15 is an exponent like others, except for one NaN.
double e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15, fraction = bits & 7;
  const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(fraction, -9) : sign * std::ldexp(8 + fraction, exponent - 10);
}

/// A 16-bit float with `digits` fraction bits, by its definition.
double short_float(std::uint16_t bits, int digits) {
  const int exponent_bits = 15 - digits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> digits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << digits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - digits);
  return sign * std::ldexp((1 << digits) + fraction, exponent - bias - digits);
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || a == b; }

/// One tensor while it is put together from the ranks' parts.
struct Assembly {
  Matrix tensor;
  std::vector<bool> seen;
  std::uint64_t differing = 0;
  std::uint64_t bad_padding = 0;
  Rank last{};
};

std::string name_in(const ParameterTable& table, const ParameterSlice& slice, std::uint32_t layer) {
  // The head's copy of a tied table bears the name of the original.
  if (table.module == "head" && slice.name == "embedding.word.weight") return slice.name;
  if (table.module == "layer" || table.module.starts_with("base.") || table.module == "layer.adapters" ||
      table.module == "layer.dense" || table.module == "prediction")
    return fmt::format("layers.{}.{}", layer, slice.name);
  return table.module + "." + slice.name;
}

/// Where elements of a flat table lie in one rank's buffer.
class Holding {
 public:
  Holding(const Program& program, const ParameterTable& table, const Buffer& buffer, Held held, Rank rank) {
    std::uint64_t first = 0;
    for (const ParameterSegment& segment : table.segments) {
      const std::uint64_t shared = shares(program.mesh, table, segment);
      std::uint64_t mine = 0;
      for (const Axis axis : {Axis::data, Axis::context, Axis::expert}) {
        if (other_experts(table, segment, axis)) continue;
        mine = mine * program.mesh.size(axis) + program.mesh.coordinate(rank, axis);
      }
      const std::uint64_t share = segment.count / shared;
      const std::uint64_t part = buffer.flat_split.empty() ? segment.count : share;
      Part p{segment.offset, segment.offset + segment.count, first, part, 0, segment.count};
      if (held == Held::own_part || part < segment.count) {
        p.begin = mine * share;
        p.end = p.begin + share;
      }
      parts_.push_back(p);
      first += part;
    }
  }

  /// Place of element `at` of the table; empty when the rank does not hold it (or no current value of it).
  [[nodiscard]] std::optional<std::uint64_t> of(std::uint64_t at) const {
    for (const Part& p : parts_) {
      if (at < p.offset || at >= p.limit) continue;
      const std::uint64_t inside = at - p.offset;
      if (inside < p.begin || inside >= p.end) return std::nullopt;
      return p.first + inside % p.count;
    }
    return std::nullopt;
  }

 private:
  /// A segment: its elements in the table, where the buffer's part of it begins and how long that is, and which of its
  /// elements count as held.
  struct Part {
    std::uint64_t offset, limit, first, count, begin, end;
  };
  std::vector<Part> parts_;
};

/// The scales beside a rank's moments, if it has any.
class Scales {
 public:
  /// `moments`: a buffer "MODULE.moment1", or with ".host" or ".disk" behind it.
  Scales(const Program& program, const RunBuffers& buffers, const Buffer& moments, const std::string& what, Rank rank,
         std::uint32_t layer)
      : parts_(flat_parts(program.parameter_tables[*moments.parameters], program.mesh, moments.flat_split)) {
    if (what != "moment1" && what != "moment2") return;
    second_ = what == "moment2";
    if (moments.dtype == DType::u8) {
      block_ = 256;
      codes_ = dynamic_values(second_);
    }
    std::string name = moments.name;
    name.replace(name.find(what), what.size(), "scales");
    for (std::uint32_t id = 0; id < program.buffers.size(); ++id) {
      if (program.buffers[id].name == name) memory_ = buffers.find(rank, {BufferId{id}, layer, 0});
    }
  }
  /// What the number at `at` of the moments means; every segment has blocks of its own.
  [[nodiscard]] double value(double stored, std::uint64_t at) const {
    if (codes_.empty()) return stored * of(at);
    // Codes count from the place of 0.
    const auto zero = std::lower_bound(codes_.begin(), codes_.end(), 0.0) - codes_.begin();
    return codes_[(static_cast<std::size_t>(zero) + static_cast<std::size_t>(stored)) % 256] * of(at);
  }

 private:
  [[nodiscard]] double of(std::uint64_t at) const {
    if (memory_.empty()) return 1.0;
    std::uint64_t block = 0;
    for (const FlatPart& p : parts_) {
      if (at < p.first + p.count) {
        return element_at(memory_.data(), DType::f32, 2 * (block + (at - p.first) / block_) + second_);
      }
      block += (p.count + block_ - 1) / block_;
    }
    return 0.0;
  }

  std::vector<FlatPart> parts_;
  std::uint64_t block_ = 128;
  std::vector<double> codes_;  ///< of moments in u8: their values in order
  std::span<const std::byte> memory_;
  std::uint64_t second_ = 0;
};

}  // namespace

std::optional<std::uint64_t> place_of(const Shard& shard, const Box& box, std::uint64_t local) {
  std::array<std::uint64_t, Shard::max_dims> at{};
  for (std::size_t d = shard.rank; d-- > 0;) {
    at[d] = box.offset[d] + local % box.extent[d];
    local /= box.extent[d];
    if (at[d] >= shard.dims[d].valid) return std::nullopt;
  }
  std::uint64_t place = 0;
  for (std::size_t d = 0; d < shard.rank; ++d) place = place * shard.dims[d].valid + at[d];
  return place;
}

double element_at(const std::byte* data, DType dtype, std::uint64_t i) {
  switch (dtype) {
    case DType::f64: return raw<double>(data, i);
    case DType::f32: return static_cast<double>(raw<float>(data, i));
    case DType::bf16: return short_float(raw<std::uint16_t>(data, i), 7);
    case DType::f16: return short_float(raw<std::uint16_t>(data, i), 10);
    case DType::i32: return raw<std::int32_t>(data, i);
    case DType::u8: return raw<std::uint8_t>(data, i);
    case DType::f8: return e4m3(raw<std::uint8_t>(data, i));
  }
  return 0.0;
}

double scalar_on(const Program& program, const RunBuffers& buffers, Rank rank, const std::string& name,
                 std::uint64_t i) {
  for (std::uint32_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.role != Role::scalar || buffer.name != name) continue;
    const auto memory = buffers.find(rank, {BufferId{id}, 0, 0});
    ORRERY_ASSERT(!memory.empty(), name);
    return element_at(memory.data(), buffer.dtype, i);
  }
  ORRERY_ASSERT(false, name);
  return 0.0;
}

namespace {

/// The memory of a rank's buffer of this name; empty where it has none.
std::span<const std::byte> memory_of(const Program& program, const RunBuffers& buffers, const std::string& name,
                                     Rank rank, std::uint32_t layer) {
  for (std::uint32_t id = 0; id < program.buffers.size(); ++id) {
    if (program.buffers[id].name == name) return buffers.find(rank, {BufferId{id}, layer, 0});
  }
  return {};
}

/// Adds an element of a rank to its tensor.
void add(Assembly& a, std::uint64_t place, double value, Rank rank) {
  if (a.seen[place] && !same_bits(a.tensor.values[place], value)) {
    ++a.differing;
    a.last = rank;
  }
  a.seen[place] = true;
  a.tensor.values[place] = value;
}

/// Matrices in few bits, which no buffer holds in full between steps.
void collect_few_bits(const Program& program, const RunBuffers& buffers, const Adapters& adapters,
                      std::map<std::string, Assembly>& assemblies) {
  for (std::uint32_t t = 0; t < program.parameter_tables.size(); ++t) {
    const ParameterTable& table = program.parameter_tables[t];
    if (!table.module.starts_with("base.")) continue;
    const ParameterSlice& slice = table.slices.front();
    DType as = DType::f64;
    for (const Buffer& b : program.buffers) as = b.parameters == t ? b.dtype : as;
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      const Box box = box_of(slice.shard, program.mesh, Rank{r});
      for (std::uint32_t layer = 0; layer < program.layers; ++layer) {
        const auto memory = [&](const char* what) {
          return memory_of(program, buffers, table.module + what, Rank{r}, layer);
        };
        const FewBits stored{memory(".codes"), memory(".scales")};
        if (stored.codes.empty()) continue;
        const std::vector<double> values =
            values_of(stored, adapters, local_count(slice.shard, program.mesh), columns_of(program, table), as);
        Assembly& a = assemblies.at(name_in(table, slice, layer));
        for (std::uint64_t i = 0; i < values.size(); ++i) {
          add(a, *place_of(slice.shard, box, i), values[i], Rank{r});
        }
      }
    }
  }
}

}  // namespace

ParameterSet collect(const Program& program, const RunBuffers& buffers, const std::string& what, Held held,
                     const ParameterSet& shapes, std::vector<std::string>& failures,
                     const std::optional<Adapters>& adapters) {
  std::map<std::string, Assembly> assemblies;
  for (const auto& [name, shape] : shapes) {
    assemblies[name] = {Matrix(shape.rows, shape.columns), std::vector<bool>(shape.values.size()), 0, 0, {}};
  }
  for (std::uint32_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (!buffer.parameters) continue;
    const ParameterTable& table = program.parameter_tables[*buffer.parameters];
    const std::string of = table.module + "." + what;
    if (buffer.name != of && buffer.name != of + ".host" && buffer.name != of + ".disk") continue;
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      for (std::uint32_t layer = 0; layer < (per_layer(buffer.scope) ? program.layers : 1); ++layer) {
        const auto memory = buffers.find(Rank{r}, {BufferId{id}, layer, 0});
        if (memory.empty()) continue;
        const Scales scales(program, buffers, buffer, what, Rank{r}, layer);
        const Holding holding(program, table, buffer, held, Rank{r});
        for (const ParameterSlice& slice : table.slices) {
          const std::string name = name_in(table, slice, layer);
          const auto found = assemblies.find(name);
          if (found == assemblies.end()) {
            failures.push_back(fmt::format("{}: the model has no {}", what, name));
            continue;
          }
          Assembly& a = found->second;
          const Box box = box_of(slice.shard, program.mesh, Rank{r});
          const std::uint64_t count = local_count(slice.shard, program.mesh);
          for (std::uint64_t i = 0; i < count; ++i) {
            const auto at = holding.of(slice.offset + i);
            if (!at) continue;
            const double value = scales.value(element_at(memory.data(), buffer.dtype, *at), *at);
            const auto place = place_of(slice.shard, box, i);
            if (!place) {
              if (value != 0.0) ++a.bad_padding;
              continue;
            }
            add(a, *place, value, Rank{r});
          }
        }
      }
    }
  }
  if (adapters && what == "weights") collect_few_bits(program, buffers, *adapters, assemblies);
  ParameterSet result;
  for (auto& [name, a] : assemblies) {
    std::uint64_t missing = 0;
    for (const bool seen : a.seen) missing += seen ? 0 : 1;
    if (missing > 0) failures.push_back(fmt::format("{} {}: {} elements on no rank", what, name, missing));
    if (a.bad_padding > 0)
      failures.push_back(fmt::format("{} {}: {} padding elements not 0", what, name, a.bad_padding));
    if (a.differing > 0) {
      failures.push_back(fmt::format("{} {}: {} elements differ between holders, last on rank {}", what, name,
                                     a.differing, index(a.last)));
    }
    result.emplace(name, std::move(a.tensor));
  }
  return result;
}

}  // namespace orrery::test
