#pragma once

#include <cstdint>

#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery::test {

/// Sizes of a model made for a test. Sizes that are 0 follow from the rest.
struct Size {
  std::uint64_t layers = 2;
  std::uint64_t hidden = 16;
  std::uint64_t heads = 4;
  std::uint64_t kv_heads = 0;  ///< 0: heads
  std::uint64_t head_dim = 0;  ///< 0: hidden / heads
  std::uint64_t ffn = 0;       ///< 0: 4 hidden
  std::uint64_t vocabulary = 50;
  std::uint64_t positions = 32;
  bool tied = true;
};

/// The GPT family: layer norm, GELU, learned positions, biases.
inline ModelSpec tiny_gpt(const Size& size = {}) {
  ModelSpec m;
  m.name = "tiny-gpt";
  m.layers = size.layers;
  m.hidden = size.hidden;
  m.heads = size.heads;
  m.kv_heads = size.kv_heads == 0 ? size.heads : size.kv_heads;
  m.head_dim = size.head_dim == 0 ? size.hidden / size.heads : size.head_dim;
  m.ffn = size.ffn == 0 ? 4 * size.hidden : size.ffn;
  m.vocabulary = size.vocabulary;
  m.max_positions = size.positions;
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.positions = PositionEncoding::learned;
  m.biases = Biases::of_layers(true);
  m.tied_embeddings = size.tied;
  return m;
}

/// The LLaMA family: RMS norm, SwiGLU, rotary positions, no biases.
inline ModelSpec tiny_llama(const Size& size = {}) {
  ModelSpec m = tiny_gpt(size);
  m.name = "tiny-llama";
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.positions = PositionEncoding::rotary;
  m.biases = {};
  return m;
}

/// Nodes of slow devices with two network levels.  Kernels of tiny models take
/// microseconds there, so launches, latencies and bandwidths all weigh.
inline ClusterSpec small_cluster(std::uint32_t nodes, std::uint32_t per_node, Bytes memory) {
  ClusterSpec c;
  c.name = "small";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.device.name = "small";
  c.device.peak[Precision::bf16] = 20.0 * teraflop_per_second;
  c.device.memory = memory;
  c.device.memory_bandwidth = 500.0 * gigabyte_per_second;
  c.levels = {{"inner", per_node, 100.0 * gigabyte_per_second, microsecond},
              {"outer", nodes, 10.0 * gigabyte_per_second, 5.0 * microsecond}};
  c.price_per_gpu_hour = 2.0;
  return c;
}

}  // namespace orrery::test
