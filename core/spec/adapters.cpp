#include "core/spec/adapters.hpp"

#include <cmath>

#include "core/spec/model_spec.hpp"

namespace orrery {

std::string_view name_of(AdaptedMatrix m) {
  switch (m) {
    case AdaptedMatrix::q: return "q";
    case AdaptedMatrix::k: return "k";
    case AdaptedMatrix::v: return "v";
    case AdaptedMatrix::o: return "o";
    case AdaptedMatrix::gate: return "gate";
    case AdaptedMatrix::up: return "up";
    case AdaptedMatrix::down: return "down";
  }
  return "";
}

const std::vector<std::string_view>& base_weights_names() {
  static const std::vector<std::string_view> names{"unquantized", "nf4", "int8", "fp8"};  // as enumerated
  return names;
}

std::string_view name_of(BaseWeights base) { return base_weights_names()[static_cast<std::size_t>(base)]; }

double Adapters::scale() const { return alpha / (rank_stabilized ? std::sqrt(static_cast<double>(rank)) : rank); }

std::uint8_t matrices_of(const ModelSpec& m, const Adapters& a) {
  const auto without_gate = static_cast<std::uint8_t>(a.matrices & ~Adapters::bit(AdaptedMatrix::gate));
  return is_gated(m.activation) ? a.matrices : without_gate;
}

MatrixSize size_of(const ModelSpec& m, AdaptedMatrix matrix) {
  switch (matrix) {
    case AdaptedMatrix::q: return {m.hidden, m.heads * m.head_dim};
    case AdaptedMatrix::k:
    case AdaptedMatrix::v: return {m.hidden, m.kv_heads * m.head_dim};
    case AdaptedMatrix::o: return {m.heads * m.head_dim, m.hidden};
    case AdaptedMatrix::gate:
    case AdaptedMatrix::up: return {m.hidden, m.ffn};
    case AdaptedMatrix::down: return {m.ffn, m.hidden};
  }
  return {};
}

std::uint64_t adapter_parameter_count(const ModelSpec& m, const Adapters& a) {
  Adapters of = a;
  of.matrices = matrices_of(m, a);
  std::uint64_t in_a_layer = 0;
  for (const AdaptedMatrix matrix : adapted_matrices) {
    const MatrixSize size = size_of(m, matrix);
    if (of.has(matrix)) in_a_layer += a.rank * (size.in + size.out);
  }
  return m.layers * in_a_layer;
}

std::string matrices_text(const Adapters& a) {
  if (a.matrices == Adapters::all_matrices) return "all";
  std::string text;
  for (const AdaptedMatrix m : adapted_matrices) {
    if (a.has(m)) text += (text.empty() ? "" : ", ") + std::string(name_of(m));
  }
  return text;
}

}  // namespace orrery
