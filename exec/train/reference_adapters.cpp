#include "exec/train/reference_adapters.hpp"

#include <cmath>

#include "exec/train/parameters.hpp"

namespace orrery {
namespace {

/// Where a matrix's columns stand in the tensor that it is packed in, and where in the factors.
struct Place {
  AdaptedMatrix matrix;
  std::string tensor;                  ///< "attention.qkv"
  std::uint64_t number = 0;            ///< among the adapted matrices of the tensor
  std::vector<std::uint64_t> columns;  ///< of the tensor, in its order
  std::vector<std::uint64_t> factor;   ///< of B, for each of these
};

std::vector<Place> places_of(const ModelSpec& m, const Adapters& adapters) {
  using enum AdaptedMatrix;
  std::vector<Place> places;
  const auto pack = [&](const std::string& tensor, std::vector<AdaptedMatrix> of, auto&& matrix_of,
                        std::uint64_t width) {
    const std::size_t first = places.size();
    for (const AdaptedMatrix a : of) {
      if (adapters.has(a)) places.push_back({a, tensor, places.size() - first, {}, {}});
    }
    std::uint64_t at = 0;
    for (std::uint64_t c = 0; c < width; ++c) {
      for (std::size_t i = first; i < places.size(); ++i) {
        if (places[i].matrix != matrix_of(c)) continue;
        places[i].columns.push_back(c);
        places[i].factor.push_back(at++);
      }
    }
  };
  const std::uint64_t group = m.heads / m.kv_heads;
  pack(
      "attention.qkv", {q, k, v},
      [&](std::uint64_t c) {
        const std::uint64_t member = c / m.head_dim % (group + 2);
        return member < group ? q : member == group ? k : v;
      },
      (m.heads + 2 * m.kv_heads) * m.head_dim);
  pack(
      "attention.out", {o}, [](std::uint64_t) { return o; }, m.hidden);
  if (is_gated(m.activation)) {
    pack(
        "ffn.up", {gate, up}, [&](std::uint64_t c) { return c < m.ffn ? gate : up; }, 2 * m.ffn);
  } else {
    pack(
        "ffn.up", {up}, [](std::uint64_t) { return up; }, m.ffn);
  }
  pack(
      "ffn.down", {down}, [](std::uint64_t) { return down; }, m.hidden);
  return places;
}

std::string layer_prefix(std::uint64_t layer) { return "layers." + std::to_string(layer) + "."; }

}  // namespace

std::vector<ReferenceParameter> adapter_parameters_of(const ModelSpec& m, const Adapters& adapters) {
  std::vector<ReferenceParameter> list;
  const std::vector<Place> places = places_of(m, adapters);
  for (std::uint64_t layer = 0; layer < m.layers; ++layer) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].number > 0) continue;
      std::uint64_t matrices = 0, columns = 0;
      for (const Place& p : places) {
        if (p.tensor != places[i].tensor) continue;
        ++matrices;
        columns += p.columns.size();
      }
      const std::uint64_t in = size_of(m, places[i].matrix).in;
      const std::string name = layer_prefix(layer) + places[i].tensor + ".adapter.";
      list.push_back({name + "a", in, matrices * adapters.rank, ReferenceParameter::Start::normal,
                      1.0 / std::sqrt(3.0 * static_cast<double>(in)), true});
      list.push_back({name + "b", adapters.rank, columns, ReferenceParameter::Start::zeros, 0.0, true});
    }
  }
  return list;
}

namespace {

/// Calls visit(place, weight's name, A, B) for every adapter of every layer.
template <class Visit>
void for_each_adapter(const ModelSpec& m, const Adapters& adapters, Visit&& visit) {
  const std::vector<Place> places = places_of(m, adapters);
  for (std::uint64_t layer = 0; layer < m.layers; ++layer) {
    for (const Place& p : places) visit(p, layer_prefix(layer) + p.tensor);
  }
}

}  // namespace

ParameterSet with_adapters(const ModelSpec& m, const Adapters& adapters, const ParameterSet& weights) {
  ParameterSet sum;
  for (const auto& [name, tensor] : weights) {
    if (name.find(".adapter.") == std::string::npos) sum.emplace(name, tensor);
  }
  for_each_adapter(m, adapters, [&](const Place& p, const std::string& name) {
    const Matrix& a = weights.at(name + ".adapter.a");
    const Matrix& b = weights.at(name + ".adapter.b");
    Matrix& w = sum.at(name + ".weight");
    for (std::uint64_t i = 0; i < a.rows; ++i) {
      for (std::size_t c = 0; c < p.columns.size(); ++c) {
        for (std::uint64_t r = 0; r < adapters.rank; ++r) {
          w(i, p.columns[c]) += adapters.scale() * a(i, p.number * adapters.rank + r) * b(r, p.factor[c]);
        }
      }
    }
  });
  return sum;
}

ParameterSet adapter_gradients(const ModelSpec& m, const Adapters& adapters, const ParameterSet& weights,
                               const ParameterSet& of_sums) {
  ParameterSet gradients;
  for (const auto& [name, tensor] : weights) {
    if (name.find(".adapter.") != std::string::npos) gradients.emplace(name, Matrix(tensor.rows, tensor.columns));
  }
  for_each_adapter(m, adapters, [&](const Place& p, const std::string& name) {
    const Matrix& a = weights.at(name + ".adapter.a");
    const Matrix& b = weights.at(name + ".adapter.b");
    const Matrix& dw = of_sums.at(name + ".weight");
    Matrix& da = gradients.at(name + ".adapter.a");
    Matrix& db = gradients.at(name + ".adapter.b");
    for (std::uint64_t i = 0; i < a.rows; ++i) {
      for (std::size_t c = 0; c < p.columns.size(); ++c) {
        const double d = adapters.scale() * dw(i, p.columns[c]);
        for (std::uint64_t r = 0; r < adapters.rank; ++r) {
          da(i, p.number * adapters.rank + r) += d * b(r, p.factor[c]);
          db(r, p.factor[c]) += d * a(i, p.number * adapters.rank + r);
        }
      }
    }
  });
  return gradients;
}

}  // namespace orrery
