#include "core/program/lower/tensor.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {

const TensorSharding& tensor_sharding(TensorAlgorithm algorithm) {
  switch (algorithm) {
    case TensorAlgorithm::one_d: return tensor_1d();
    case TensorAlgorithm::two_d: return tensor_2d();
    case TensorAlgorithm::two_half_d: return tensor_2_5d();
    case TensorAlgorithm::three_d: return tensor_3d();
  }
  ORRERY_ASSERT(false, algorithm);
  return tensor_1d();
}

Operand weight_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  return {module.whole_weights, View::Use::read, 0, p.offset, p.count, {}};
}

Operand gradient_of(const State& c, const Module& module, std::string_view slice) {
  const auto p = c.parameter(module, slice);
  const BufferId first = module.first_gradients;
  const bool in_first = p.offset + p.count <= c.program[first].count;
  return {in_first ? first : module.whole_gradients, View::Use::accumulate, 0, p.offset, p.count, {}};
}

BufferId flat_buffer(State& c, std::string name, Role role, Scope scope, DType dtype, std::uint64_t count) {
  Buffer b;
  b.name = std::move(name);
  b.role = role;
  b.scope = scope;
  b.dtype = dtype;
  b.count = count;
  return c.declare(std::move(b));
}

std::string stem(const Product& p) {
  const std::string name = p.weight;
  return name.substr(0, name.rfind('.'));
}

}  // namespace orrery::lowering
