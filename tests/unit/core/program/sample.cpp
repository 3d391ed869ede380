#include "tests/unit/core/program/sample.hpp"

#include <catch2/catch.hpp>

#include "core/program/program_text.hpp"

namespace orrery::test {

std::string sample_text() {
  return R"(orrery-program 1
mesh pipeline=2 tensor=2
layers 2
microbatches 1
classes pipeline

table layer 32
  slice weight at 0 normal 0.02 shard [8, 8 by tensor]
  segment 0:32 decay

buffer weights weight layer f32 32 table layer
buffer gradients gradient layer f32 32 table layer
buffer steps scalar stage f64 1
buffer hidden activation layer_microbatch f32 32 shard [4, 8]
buffer gradient activation layer_microbatch f32 32
buffer half activation layer_microbatch f32 16
buffer scratch workspace stage f32 32

group tensor
group pipeline

block setup setup
  0: alloc weights
  1: compute initialize setup f32 rows=1 columns=32 (write weights)
  2: alloc gradients
  3: alloc steps
  4: compute fill setup f32 rows=1 columns=1 (write steps)
block forward forward
  0: alloc half
  1: compute gemm forward f32 rows=4 columns=4 depth=8 (read hidden, read weights, write half)
  2: alloc hidden@1
  3: tensor all_gather tensor (read half, write hidden@1) after 1
  4: free half
block first forward
  0: alloc hidden
  1: compute fill forward f32 rows=4 columns=8 (write hidden)
block send forward
  0: forward-send exchange (read hidden) send 0 to 1 in pipeline channel 0 after tail tensor
  1: free hidden
block receive forward
  0: alloc hidden
  1: forward-receive exchange (write hidden) receive 0 from 0 in pipeline channel 0
block wait forward
  0: compute fill forward f32 rows=1 columns=32 (write gradients) after tail forward-receive
block loss loss
  0: alloc gradient
  1: compute dropout_backward loss f32 rows=4 columns=8 (read hidden, read hidden, write gradient) after tail tensor
  2: free hidden
block backward input_gradient
  0: alloc gradient
  1: compute gemm input_gradient f32 rows=4 columns=8 depth=4 transpose_b (read gradient[0:16]@1, read weights, write gradient)
  2: tensor all_reduce sum tensor (accumulate gradient) after 1
  3: compute gemm weight_gradient f32 rows=8 columns=4 depth=4 transpose_a (read hidden, read gradient[16:32]@1, accumulate gradients)
  4: free hidden
  5: free gradient@1
block send.back input_gradient
  0: backward-send exchange (read gradient) send 0 to 0 in pipeline channel 1 after tail tensor
  1: free gradient
block receive.back input_gradient
  0: alloc gradient
  1: backward-receive exchange (write gradient) receive 0 from 1 in pipeline channel 1
block backward.first weight_gradient
  0: compute gemm weight_gradient f32 rows=8 columns=4 depth=4 transpose_a (read hidden, read gradient[16:32]@1, accumulate gradients) after tail backward-receive
  1: free hidden
  2: free gradient@1
block update optimizer
  0: compute advance_step optimizer f32 rows=1 columns=1 (accumulate steps)
  1: compute sgd_update optimizer f32 rows=1 columns=32 decay (read gradients, read steps, accumulate weights)

class 0
  setup
    run setup
  step
    run wait
    run first
    run forward
    run send layer=1
    run receive.back layer=1
    run backward.first
    run update
class 1
  setup
    run setup layer=1
  step
    run receive layer=1
    run wait layer=1
    run forward layer=1
    run loss layer=2
    run backward layer=1
    run send.back layer=1
    run update layer=1
)";
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& changes) {
  for (const auto& [from, to] : changes) {
    const auto at = text.find(from);
    INFO(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  return text;
}

Program parsed(const std::string& text) {
  Diagnostics diagnostics;
  auto program = read_program(text, "sample.program", diagnostics);
  INFO(render(diagnostics));
  REQUIRE(program.has_value());
  return *program;
}

}  // namespace orrery::test
