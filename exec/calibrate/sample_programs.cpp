#include "exec/calibrate/sample_programs.hpp"

#include "core/program/lower/lower.hpp"

namespace orrery {

SampleProgram sample_program(const SampleShape& shape, Precision precision) {
  ModelSpec m;
  m.name = "sample";
  m.layers = shape.layers;
  m.heads = shape.heads;
  m.kv_heads = shape.heads;
  m.head_dim = shape.head_dim;
  m.hidden = shape.heads * shape.head_dim;
  m.ffn = 4 * m.hidden;
  m.vocabulary = 256;
  m.max_positions = shape.length;
  if (shape.llama) {
    m.norm = Norm::rms_norm;
    m.activation = Activation::swiglu;
    m.positions = PositionEncoding::rotary;
    m.biases = Biases::of_layers(false);
    m.tied_embeddings = false;
  }
  Workload w;
  w.global_batch = shape.sequences * shape.microbatches;
  w.sequence_length = shape.length;
  w.precision = precision;
  w.clip_norm = 1.0;
  if (shape.sgd) w.optimizer.kind = OptimizerKind::sgd;
  if (shape.dropout) {
    w.hidden_dropout = 0.1;
    w.attention_dropout = 0.1;
  }
  Plan p;
  p.name = "sample";
  p.mesh = Mesh{{{Axis::data, 1}}};
  p.microbatch_size = static_cast<std::uint32_t>(shape.sequences);
  p.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(shape.layers)};
  p.gradient_bucket = Bytes::of(1e6);
  p.overlap_gradients = false;
  p.attention = shape.flash ? AttentionKernel::flash : AttentionKernel::unfused;
  return {m, w, p, lower(m, w, p)};
}

}  // namespace orrery
