#include "core/program/verify.hpp"

#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

#include "core/program/program_text.hpp"
#include "tests/unit/core/program/sample.hpp"

using namespace orrery;
using Changes = std::vector<std::pair<std::string, std::string>>;

namespace {

std::vector<Violation> after(const Changes& changes) {
  return verify(test::parsed(test::replaced(test::sample_text(), changes)));
}

/// The code of the first violation, empty when there is none.
std::string code(const Changes& changes) {
  const auto found = after(changes);
  return found.empty() ? std::string() : found[0].code;
}

}  // namespace

TEST_CASE("the sample breaks no rule", "[verify]") {
  const auto found = after({});
  INFO(render(found));
  CHECK(found.empty());
}

TEST_CASE("a violation shows the ops around it", "[verify]") {
  const auto found = after({{"accumulate gradient) after 1", "accumulate gradient)"}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == Rank{2});
  CHECK(found[0].rank_class == 1);
  CHECK(render(found) ==
        "error: elements 0 to 32 of gradient of layer 1 of microbatch 0 are written without waiting for op 1 of block "
        "backward (layer 1, microbatch 0), which writes them (rank 2, class 1, block backward, op 2, layer 1, "
        "microbatch 0) [program.hazard]\n"
        "  block backward input_gradient\n"
        "      0: alloc gradient\n"
        "      1: compute gemm input_gradient f32 rows=4 columns=8 depth=4 transpose_b (read gradient[0:16]@1, read "
        "weights, write gradient)\n"
        "      2: tensor all_reduce sum tensor (accumulate gradient)   <-- here\n"
        "      3: compute gemm weight_gradient f32 rows=8 columns=4 depth=4 transpose_a (read hidden, read "
        "gradient[16:32]@1, accumulate gradients)\n"
        "      4: free hidden\n"
        "      5: free gradient@1\n");
}

TEST_CASE("layout: what everything else indexes by must hold", "[verify]") {
  const auto broken = [](auto change) {
    Program p = test::parsed(test::sample_text());
    change(p);
    const auto found = verify(p);
    return found.empty() ? std::string() : found[0].message;
  };
  CHECK(broken([](Program& p) { p.classes.pop_back(); }) == "1 classes for class axes of size 2");
  CHECK(broken([](Program& p) { p.mesh.axes.push_back({Axis::tensor, 2}); }) == "mesh axis tensor is listed twice");
  CHECK(broken([](Program& p) { p.mesh.axes[0].size = 0; }) == "mesh axis pipeline has size 0");
  CHECK(broken([](Program& p) { p.groups[0].members = {0, 2}; }) == "group 0 has member 2 of 2");
  CHECK(broken([](Program& p) { p.groups[0].members = {1, 1}; }) == "group 0 has member 1 twice");
  CHECK(broken([](Program& p) { p.buffers[0].parameters = 7; }) == "buffer weights: there is no parameter table 7");
  CHECK(broken([](Program& p) { p.buffers[0].count = 31; }) ==
        "buffer weights: holds 31 elements, but table layer cut 1 ways has 32");
  CHECK(broken([](Program& p) { p.buffers[3].count = 31; }) ==
        "buffer hidden: holds 31 elements, but its shard has 32");
  CHECK(broken([](Program& p) { p.parameter_tables[0].slices[0].offset = 1; }) ==
        "parameter weight of table layer lies outside: 32 elements at 1 of 32");
  CHECK(broken([](Program& p) { p.parameter_tables[0].segments[0].count = 31; }) ==
        "segments of table layer cover 31 of 32 elements");
  CHECK(broken([](Program& p) { p.blocks[0].ops[1].views.first = 1; }) ==
        "its views begin at 1 and number 1 of 2; those of the op before end at 0 (block setup, op 1)");
  CHECK(broken([](Program& p) { p.blocks[0].views.push_back({}); }) ==
        "block setup has views, waits or transfers that belong to no op");
  CHECK(broken([](Program& p) { p.blocks[0].ops[1].action = Compute{5}; }) ==
        "there is no kernel 5 (block setup, op 1)");
  CHECK(broken([](Program& p) {
          p.blocks[0].ops[0].action = Alloc{BufferId{99}, 0};
        }) == "there is no buffer 99 (block setup, op 0)");
  CHECK(broken([](Program& p) { p.blocks[0].ops[1].lane.index = 1; }) == "its lane does not exist (block setup, op 1)");
  CHECK(broken([](Program& p) { std::get<Collective>(p.blocks[1].ops[3].action).group = GroupId{9}; }) ==
        "there is no group 9 (block forward, op 3)");
  CHECK(broken([](Program& p) { p.blocks[3].transfers[0].peer = Peer{2}; }) ==
        "there is no peer 2 in a group of 2 (block send, op 0)");
  CHECK(broken([](Program& p) { p.classes[0].step[0].block = BlockId{77}; }) ==
        "class 0, step run 0: there is no block 77");
  CHECK(broken([](Program& p) { p.classes[0].step[0].repeat = 4294967295U; }) ==
        "class 0, step run 0: more than 67108864 ops on one rank");
  CHECK(broken([](Program& p) { p.classes[0].step[0].microbatch = 1; }) ==
        "class 0, step run 0: it takes microbatch 1, which is not below 1");
  CHECK(broken([](Program& p) { p.classes[0].step[2].layer = 2; }) ==
        "class 0, step run 2: block forward reaches layers 2 to 3; layers are 0 to 2");
  CHECK(broken([](Program& p) { p.classes[0].step[2].layer_step = -2147483647, p.classes[0].step[2].repeat = 2; }) ==
        "class 0, step run 2: block forward reaches layers -2147483647 to 1; layers are 0 to 2");
}

TEST_CASE("waits name earlier timed ops of their block", "[verify]") {
  CHECK(after({{"(read half, write hidden@1) after 1", "(read half, write hidden@1) after 3"}})[0].message ==
        "it waits for op 3, which is not before it (block forward, op 3)");
  CHECK(after({{"(read half, write hidden@1) after 1", "(read half, write hidden@1) after 2"}})[0].message ==
        "it waits for op 2, which takes no time (block forward, op 3)");
  CHECK(after({{"4: free half", "4: free half after 1"}})[0].message ==
        "memory ops wait for nothing (block forward, op 4)");
}

TEST_CASE("views lie inside their buffers on every rank", "[verify]") {
  CHECK(after({{"read gradient[0:16]@1", "read gradient[17:33]@1"}})[0].message ==
        "view 0 takes 16 elements at 17 of the 32 of gradient (block backward, op 1)");
  // Two members of 16 fill the 32 elements; from 1 on the last would not fit.
  CHECK(code({{"read gradient[0:16]@1", "read gradient[0:16]@1 part tensor"}}).empty());
  CHECK(after({{"read gradient[0:16]@1", "read gradient[1:17]@1 part tensor"}})[0].message ==
        "view 0 takes 16 elements at 1, 2 parts, of the 32 of gradient (block backward, op 1)");
  CHECK(code({{"read gradient[0:16]@1", "read gradient[3:3]@1"}}) == "program.view");
}

TEST_CASE("operands match the kernel's table and shape", "[verify]") {
  CHECK(after({{"(read hidden, read weights, write half)", "(read hidden, read weights)"}})[0].message ==
        "gemm takes 3 operands, but has 2 (block forward, op 1)");
  CHECK(after({{"(read hidden, read weights, write half)", "(read hidden, write weights, write half)"}})[0].message ==
        "operand 1 (B) is write, not read (block forward, op 1)");
  CHECK(after({{"rows=4 columns=4 depth=8", "rows=4 columns=4 depth=9"}})[0].message ==
        "operand 0 (A) of gemm has 32 elements, but its shape has 36 (block forward, op 1)");
  CHECK(after({{"depth=8 (read hidden, read weights, write half)",
                "depth=8 bias (read hidden, read weights, write half, read weights)"}})[0]
            .message == "operand 3 (bias) of gemm has 32 elements, but its shape has 4 (block forward, op 1)");
  // C may be written or added to.
  CHECK(code({{"write half)", "accumulate half)"}}) == "program.uninitialized");
}

TEST_CASE("a window needs a causal mask, and chunks a length", "[verify]") {
  const auto attends = [](const std::string& how) {
    return after({{"gemm forward f32 rows=4 columns=4 depth=8 (read hidden, read weights, write half)",
                   "attention_flash_forward forward f32 rows=4 batch=1 heads=1 kv_heads=1 head_dim=2 " + how +
                       " (read hidden[0:24], write half[0:8], write half[8:12])"}})[0]
        .message;
  };
  CHECK(attends("window=2") == "a window of 2 needs a causal mask (block forward, op 1)");
  CHECK(attends("causal chunked") == "chunks have no length (block forward, op 1)");
}

TEST_CASE("heads are shared out evenly", "[verify]") {
  const auto shares = [](const std::string& how) {
    return after({{"gemm forward f32 rows=4 columns=4 depth=8 (read hidden, read weights, write half)",
                   "share_heads_forward forward f32 rows=4 " + how +
                       " batch=1 heads=2 kv_heads=1 head_dim=1 (read hidden, write half)"}})[0]
        .message;
  };
  CHECK(shares("columns=4 depth=2").find("shared out") == std::string::npos);
  CHECK(shares("columns=8 depth=1") ==
        "rows of 1 x 8 columns are not shared out evenly as 2 heads and 1 key (block forward, op 1)");
}

TEST_CASE("attention of a layer makes the same scores in all its kernels", "[verify]") {
  const std::string fill = "  1: compute fill forward f32 rows=4 columns=8 (write hidden)\n";
  const std::string attend =
      "compute attention_flash_forward forward f32 rows=4 batch=1 heads=1 kv_heads=1 head_dim=2 ";
  CHECK(after({{fill, fill + "  2: alloc scratch\n  3: " + attend +
                          "window=2 scale=0.5 causal (read hidden[0:24], write scratch[0:8], write scratch[8:12])\n" +
                          "  4: " + attend +
                          "softcap=50 causal alibi (read hidden[0:24], write scratch[12:20], write scratch[20:24])\n" +
                          "  5: free scratch\n"}})[0]
            .message ==
        "attention_flash_forward makes other scores (causal, window of 0, scale 0, cap 50, slopes) than another kernel "
        "of its layer (causal, window of 2, scale 0.5, cap 0) (rank 0, class 0, block first, op 4, layer 0, microbatch "
        "0)");
}

TEST_CASE("rope turns pairs of features that a head has, by a table of as many angles", "[verify]") {
  const auto rope = [](const std::string& fields, const std::string& table) {
    const std::string fill = "  1: compute fill forward f32 rows=4 columns=8 (write hidden)\n";
    return after({{"buffer weights", table + "buffer weights"},
                  {fill, fill +
                             "  2: compute rope_forward forward f32 rows=4 columns=8 batch=1 heads=1 kv_heads=1 "
                             "head_dim=2 value_dim=4 " +
                             fields + " (accumulate hidden)\n"}})[0]
        .message;
  };
  CHECK(rope("rotation=1", "") == "there is no rotation 1 among 0 (block first, op 2)");
  CHECK(rope("rotation=1", "rotation 1 [0.5, 0.1]\n") ==
        "rotation 1 has 2 frequencies for 2 features (block first, op 2)");
  CHECK(rope("depth=3", "") == "3 of a head's 2 features cannot turn in pairs (block first, op 2)");
}

TEST_CASE("collectives, exchanges and copies have the operands of their kind", "[verify]") {
  CHECK(after({{"all_gather tensor (read half, write hidden@1)", "all_gather tensor (read half, write half)"}})[0]
            .message == "16 elements are not 2 parts of 16 (block forward, op 3)");
  CHECK(after({{"all_gather tensor (read half, write hidden@1)", "all_gather tensor (read half)"}})[0].message ==
        "all_gather takes pairs of operands, but has 1 (block forward, op 3)");
  CHECK(after({{"(accumulate gradient)", "(write gradient)"}})[0].message ==
        "operand 0 (operand) is write, not accumulate (block backward, op 2)");
  CHECK(after({{"exchange (read hidden)", "exchange (write hidden)"}})[0].message ==
        "operand 0 (sent) is write, not read (block send, op 0)");
  CHECK(
      after({{"exchange (read hidden) send 0 to 1", "exchange (read hidden, read weights) send 0 to 1"}})[0].message ==
      "operand 1 belongs to no transfer (block send, op 0)");
  CHECK(after({{"tensor all_gather tensor", "compute all_gather tensor"}})[0].message ==
        "a Collective does not queue on the compute lane (block forward, op 3)");
  CHECK(code({{"tensor all_gather tensor (read half, write hidden@1)", "tensor barrier tensor (read half)"}}) ==
        "program.operands");
}

TEST_CASE("ops work on device memory and copies go where they say", "[verify]") {
  CHECK(after({{"buffer half activation layer_microbatch f32 16",
                "buffer half activation layer_microbatch f32 16 tier host"}})[0]
            .message == "half lives in host memory, but the op works on device memory (block forward, op 1)");
  const Changes copy = {{"buffer scratch workspace stage f32 32", "buffer scratch workspace stage f32 32 tier host"},
                        {"  1: free hidden\n",
                         "  1: alloc scratch\n  2: copy-0 copy device host (read hidden, write "
                         "scratch) after tail tensor\n  3: free scratch\n  4: free hidden\n"}};
  CHECK(code(copy).empty());
  Changes wrong = copy;
  wrong.push_back({"copy device host", "copy host device"});
  CHECK(after(wrong)[0].message ==
        "hidden lives in device memory and scratch in host memory, but the copy goes from host to device memory (block "
        "send, op 2)");
}

TEST_CASE("buffers live from Alloc to Free, once", "[verify]") {
  CHECK(after({{"  2: free hidden\nblock backward", "  2: free hidden@-1\nblock backward"}})[0].message ==
        "hidden of layer 1 of microbatch 0 is used while it is not live (rank 2, class 1, block backward, op 3, layer "
        "1, microbatch 0)");
  CHECK(after({{"block first forward\n  0: alloc hidden", "block first forward\n  0: alloc gradients"}})[0].message ==
        "gradients of layer 0 is live already (rank 0, class 0, block first, op 0, layer 0, microbatch 0)");
  CHECK(after({{"  4: free half\n", "  4: free half\n  5: free half\n"}})[0].message ==
        "half of layer 0 of microbatch 0 is not live (rank 0, class 0, block forward, op 5, layer 0, microbatch 0)");
  CHECK(after({{"  4: free half\n", ""}})[0].message ==
        "half of layer 0 of microbatch 0 is still live after the step, but was not before (class 0)");
  CHECK(after({{"  1: compute sgd_update", "  1: free gradients\n  2: compute sgd_update"}})[0].code ==
        "program.lifetime");
}

TEST_CASE("nothing is read before it was written", "[verify]") {
  CHECK(after({{"  4: compute fill setup f32 rows=1 columns=1 (write steps)\n", ""}})[0].message ==
        "elements 0 to 1 of steps are read, but not all were ever written (rank 0, class 0, block update, op 0, layer "
        "0, microbatch 0)");
  // Half of the buffer is not enough.
  CHECK(after({{"1: compute fill forward f32 rows=4 columns=8 (write hidden)",
                "1: compute fill forward f32 rows=4 columns=8 (write hidden[0:31])"}})[0]
            .code == "program.uninitialized");
}

TEST_CASE("conflicting ops of a rank are ordered by lanes and waits", "[verify]") {
  // This is a read after a write: the gather takes what the product makes.
  CHECK(code({{"(read half, write hidden@1) after 1", "(read half, write hidden@1)"}}) == "program.hazard");
  // A wait for the wrong lane is no wait.
  CHECK(code({{"channel 0 after tail tensor", "channel 0 after tail compute"}}) == "program.hazard");
  // The receive must have ended, not only been issued.
  CHECK(code({{" after tail forward-receive", ""}}) == "program.hazard");
  CHECK(code({{" after tail backward-receive", ""}}) == "program.hazard");
  // Order may come through a third op: forward waits for `wait`, which waited for the receive.
  CHECK(code({}).empty());
}

TEST_CASE("parts that differ by rank are checked on every rank", "[verify]") {
  // Rank 0 of the tensor axis writes elements 0..16 of its part, rank 1 16..32:
  // an unordered read of 16..32 is a hazard on tensor rank 1 only.
  const std::string text = R"(orrery-program 1
mesh tensor=2
layers 0
microbatches 1
classes none
buffer x workspace stage f32 32
buffer y workspace stage f32 32
group tensor
block a forward
  0: alloc x
  1: alloc y
  2: compute fill forward f32 rows=1 columns=32 (write x)
  3: compute fill forward f32 rows=1 columns=32 (write y)
block b forward
  0: tensor reduce_scatter sum tensor (read y, write x[0:16] part tensor) after tail compute
  1: compute gemm forward f32 rows=1 columns=1 depth=8 (read x[16:24], read x[24:32], write y[0:1])
class 0
  setup
    run a
  step
    run b
)";
  const auto found = verify(test::parsed(text));
  REQUIRE(found.size() >= 1);
  CHECK(found[0].code == "program.hazard");
  CHECK(found[0].rank == Rank{0});  // writing y while the reduction reads it is a fault on every rank
  const auto moved = verify(test::parsed(
      test::replaced(text, {{"write y[0:1])", "write x[15:16])"}, {"write x[0:16] part tensor", "write x[16:32]"}})));
  CHECK(moved.size() >= 1);
  const auto second = verify(test::parsed(test::replaced(
      text, {{"f32 rows=1 columns=1 depth=8 (read x[16:24], read x[24:32], write y[0:1])",
              "f32 rows=1 columns=1 depth=8 (read x[16:24], read x[24:32], write z)"},
             {"buffer y workspace stage f32 32\n", "buffer y workspace stage f32 32\nbuffer z workspace stage f32 1\n"},
             {"  1: alloc y\n", "  1: alloc y\n  2: alloc z\n"},
             {"  2: compute fill forward f32 rows=1 columns=32 (write x)\n  3:",
              "  3: compute fill forward f32 rows=1 columns=32 (write x)\n  4:"}})));
  REQUIRE(second.size() == 2);  // both operands of the product
  for (const Violation& v : second) {
    CHECK(v.code == "program.hazard");
    CHECK(v.rank == Rank{1});
  }
}

TEST_CASE("every microbatch adds to every gradient once", "[verify]") {
  CHECK(after({{"transpose_a (read hidden, read gradient[16:32]@1, accumulate gradients)\n  4:",
                "transpose_a (read hidden, read gradient[16:32]@1, write half)\n  4:"},
               {"  4: free half\n", ""}})[0]
            .code != "");
  CHECK(after({{"    run backward.first\n", "    run backward.first\n    run backward.first\n"}})[0].code ==
        "program.lifetime");
  const auto twice = after({{"accumulate gradients)\n  4: free hidden\n  5: free gradient@1",
                             "accumulate gradients)\n  4: compute gemm weight_gradient f32 rows=8 columns=4 depth=4 "
                             "transpose_a (read hidden, read gradient[16:32]@1, accumulate gradients)\n  5: free "
                             "hidden\n  6: free gradient@1"}});
  REQUIRE(twice.size() == 1);
  CHECK(twice[0].message ==
        "gradients is added to twice with the same operands (rank 2, class 1, block backward, op 4, layer 1, "
        "microbatch 0)");
}

TEST_CASE("members of a group issue the same collectives", "[verify]") {
  // An all-reduce over all four ranks, which stage 1 issues and stage 0 may not.
  const Changes alone = {
      {"group pipeline\n", "group pipeline\ngroup pipeline*tensor\n"},
      {"workspace stage f32 32\n", "workspace stage f32 32\nbuffer wide workspace stage f64 32\n"},
      {"block send.back input_gradient\n  0: backward-send",
       "block send.back input_gradient\n  0: alloc scratch\n  1: compute fill forward f32 rows=1 columns=32 (write "
       "scratch)\n  2: all all_reduce sum pipeline*tensor (accumulate scratch[0:1]) after 1\n  3: free scratch\n"
       "  4: backward-send"},
      {"  1: free gradient\nblock receive.back", "  5: free gradient\nblock receive.back"}};
  CHECK(after(alone)[0].message ==
        "rank 0 issues 0 collectives on this group, this rank 1 (rank 2, class 1, block send.back, op 2, layer 1, "
        "microbatch 0)");
  // A partner has another kind, count, reduction or type.
  const auto partner = [&](const std::string& op) {
    Changes both = alone;
    both.push_back({"block receive.back input_gradient\n  0: alloc gradient\n  1: backward-receive",
                    "block receive.back input_gradient\n  0: alloc scratch\n  1: alloc wide\n  2: compute fill "
                    "forward f32 rows=1 columns=32 (write scratch, write wide)\n  3: all " +
                        op +
                        " after 2\n  4: free scratch\n  5: free wide\n  6: alloc gradient\n  7: backward-receive"});
    const auto found = after(both);
    return found.empty() ? std::string() : found[0].message.substr(0, found[0].message.find(':'));
  };
  // Stage 1 sends its gradient after the sum, and stage 0 takes it after the sum, so all meet.
  CHECK(partner("all_reduce sum pipeline*tensor (accumulate scratch[0:1])").empty());
  CHECK(partner("all_reduce max pipeline*tensor (accumulate scratch[0:1])") == "max meets sum");
  CHECK(partner("all_reduce sum pipeline*tensor (accumulate scratch[0:2])") == "2 elements meet 1 in operand 0");
  CHECK(partner("all_reduce sum pipeline*tensor (accumulate scratch[0:1], accumulate scratch[1:2])") ==
        "2 operands meet 1");
  CHECK(partner("all_reduce sum pipeline*tensor (accumulate wide[0:1])") == "f64 meets f32 in operand 0");
  CHECK(partner("reduce sum pipeline*tensor root 0 (accumulate scratch[0:1])") == "reduce meets all_reduce");
}

TEST_CASE("every send has its receive with as many bytes", "[verify]") {
  CHECK(after({{"exchange (read hidden) send", "exchange (read hidden[0:31]) send"}})[0].message ==
        "message 0 from rank 0 to 2 on channel 0 is sent with 124 bytes and received with 128 (rank 0, class 0, block "
        "send, op 0, layer 1, microbatch 0)");
  CHECK(after({{"in pipeline channel 0 after tail tensor", "in pipeline channel 1 after tail tensor"}})[0].message ==
        "rank 0 sends 0 messages to rank 2 on channel 0, which receives 1 (rank 2, class 1, block receive, op 1, layer "
        "1, microbatch 0)");
  CHECK(after({{"send 0 to 1 in pipeline", "send 0 to 0 in pipeline"}})[0].message ==
        "the rank sends to itself (rank 0, class 0, block send, op 0, layer 1, microbatch 0)");
}

TEST_CASE("ranks that wait for each other are shown as a cycle", "[verify]") {
  // Stage 0 takes the gradient before it sends the tensor that the gradient is made from.
  const auto found = after({{"    run send layer=1\n    run receive.back layer=1\n",
                             "    run receive.back layer=1\n    run send layer=1\n"}});
  REQUIRE(found.size() == 1);
  // With lanes side by side it would work, because the send does not wait for the receive.
  CHECK(found[0].code == "program.deadlock-serial");
  CHECK(found[0].message ==
        "one op at a time, the ranks wait for each other: rank 0 stands at 'backward-receive exchange (write gradient) "
        "receive 0 from 1 in pipeline channel 1' (block receive.back, op 1, layer 1, microbatch 0) and waits for rank "
        "2; rank 2 stands at 'forward-receive exchange (write hidden) receive 0 from 0 in pipeline channel 0' (block "
        "receive, op 1, layer 1, microbatch 0) and waits for rank 0 (rank 0, class 0, block receive.back, op 1, layer "
        "1, microbatch 0)");
  // On one lane it does not work.
  CHECK(after({{"    run send layer=1\n    run receive.back layer=1\n",
                "    run receive.back layer=1\n    run send layer=1\n"},
               {"forward-send exchange", "backward-receive exchange"}})[0]
            .code == "program.deadlock");
}

TEST_CASE("no op runs twice on what has not changed", "[verify]") {
  CHECK(after({{"after tail forward-receive\n",
                "after tail forward-receive\n  1: compute fill forward f32 rows=1 "
                "columns=32 (write gradients)\n"}})[0]
            .message ==
        "the op runs twice on the same elements, and nothing changed them in between (rank 0, class 0, "
        "block wait, op 1, layer 0, microbatch 0)");
  // A repeated sum is another sum; a repeated gather is not, but nobody used the first.
  const std::string sum = "  2: tensor all_reduce sum tensor (accumulate gradient) after 1\n  3:";
  CHECK(code({{sum,
               "  2: tensor all_reduce sum tensor (accumulate gradient) after 1\n  3: tensor all_reduce sum tensor "
               "(accumulate gradient)\n  4:"},
              {"  4: free hidden\n  5: free gradient@1", "  5: free hidden\n  6: free gradient@1"}}) ==
        "program.repeated");
}

TEST_CASE("what a step makes anew is not taken from the step before", "[verify]") {
  CHECK(after({{"block wait forward\n  0: compute fill forward f32 rows=1 columns=32 (write gradients)",
                "block wait forward\n  0: compute fill forward f32 rows=1 columns=32 (write scratch)"},
               {"  2: alloc gradients\n",
                "  2: alloc gradients\n  3: alloc scratch\n  4: compute fill setup f32 rows=1 "
                "columns=32 (write gradients)\n"},
               {"  3: alloc steps\n  4:", "  5: alloc steps\n  6:"}})[0]
            .message ==
        "gradients still holds its value of the step before (rank 0, class 0, block backward.first, op 0, layer 0, "
        "microbatch 0)");
}

TEST_CASE("partial products are summed before they are used", "[verify]") {
  CHECK(after({{"  2: tensor all_reduce sum tensor (accumulate gradient) after 1\n  3:", "  2:"},
               {"  4: free hidden\n  5: free gradient@1", "  3: free hidden\n  4: free gradient@1"},
               {"send 0 to 0 in pipeline channel 1 after tail tensor",
                "send 0 to 0 in pipeline channel 1 after tail "
                "compute"}})[0]
            .message ==
        "gradient is used while it is a partial sum over tensor that is not added up yet (rank 2, class 1, block "
        "send.back, op 0, layer 1, microbatch 0)");
}

TEST_CASE("gradients end in updates, and forward products in backward ones", "[verify]") {
  CHECK(after({{"    run update\nclass 1", "class 1"}})[0].message ==
        "elements 0 to 32 of gradients of layer 0 are never used by an update (class 0)");
  const std::string advance = "compute advance_step optimizer f32 rows=1 columns=1 (accumulate steps)\n";
  const std::string update =
      "compute sgd_update optimizer f32 rows=1 columns=32 decay (read gradients, read steps, accumulate weights)\n";
  CHECK(after({{"  0: " + advance + "  1: " + update, "  0: " + update + "  1: " + advance}})[0].message ==
        "parameters are updated before the step is counted (class 0)");
}

namespace {

/// w is written, copied to the host and read; then g takes over its memory, one half after the other.
const char* const shared_memory = R"(orrery-program 1
mesh data=1
layers 1
microbatches 1
classes none
buffer w workspace stage f32 4
buffer g workspace stage f32 4 reuses w
buffer s workspace stage f32 4
buffer h workspace stage f32 4 tier host
block all forward
  0: alloc w
  1: alloc s
  2: alloc h
  3: compute fill forward f32 rows=1 columns=4 (write w)
  4: copy-1 copy device host (read w, write h) after 3
  5: compute convert forward f32 rows=1 columns=4 (read w, write s)
  6: alloc g
  7: compute fill forward f32 rows=1 columns=2 (write g[0:2]) after 4
  8: compute convert forward f32 rows=1 columns=2 (read w[2:4], write s[2:4])
  9: compute fill forward f32 rows=1 columns=2 (write g[2:4])
  10: compute add_to forward f32 rows=1 columns=4 (read g, accumulate s)
  11: free g
  12: free w
  13: free s
  14: free h
class 0
  setup
  step
    run all
)";

std::string first_after(const Changes& changes) {
  const auto found = verify(test::parsed(test::replaced(shared_memory, changes)));
  return found.empty() ? std::string()
                       : found[0].message.substr(0, found[0].message.find(" (rank")) + " [" + found[0].code + "]";
}

}  // namespace

TEST_CASE("what reuses memory takes it over element by element", "[verify]") {
  CHECK(first_after({}).empty());
  CHECK(first_after({{"read w[2:4]", "read w[0:2]"}}) ==
        "elements 0 to 2 of w are read, but not all were ever written [program.uninitialized]");
  CHECK(first_after({{"(read g, ", "(read w, "}}) ==
        "elements 0 to 4 of w are read, but not all were ever written [program.uninitialized]");
  CHECK(first_after({{"(write g[0:2]) after 4", "(write g[0:2])"}}) ==
        "elements 0 to 2 of g are written without waiting for op 4 of block all (layer 0, microbatch 0), which reads "
        "them [program.hazard]");
  CHECK(first_after({{"11: free g", "11: free w"}, {"12: free w", "12: free g"}}) ==
        "g still lives in the memory of w [program.lifetime]");
  CHECK(first_after({{"0: alloc w", "0: alloc g"}, {"6: alloc g", "6: alloc w"}}) ==
        "g lives in the memory of w, which is not live [program.lifetime]");
}

TEST_CASE("what reuses memory is as large as what it reuses", "[verify]") {
  CHECK(first_after({{"f32 4 reuses w", "f32 2 reuses w"}}) ==
        "buffer g: 2 elements of f32 cannot take the place of 4 elements of f32 in w [program.layout]");
  CHECK(first_after({{"f32 4 reuses w", "f64 4 reuses w"}}) ==
        "buffer g: 4 elements of f64 cannot take the place of 4 elements of f32 in w [program.layout]");
  CHECK(first_after({{"f32 4 reuses w", "f32 4 tier host reuses w"}}) ==
        "buffer g: w has another scope or another tier [program.layout]");
  CHECK(first_after({{"buffer s workspace stage f32 4", "buffer s workspace stage f32 4 reuses w"}}) ==
        "buffer g: 2 buffers reuse w [program.layout]");
  CHECK(first_after({{"buffer s workspace stage f32 4", "buffer s workspace stage f32 4 reuses g"}}) ==
        "buffer s: reuses g, which has no memory of its own [program.layout]");
  Program p = test::parsed(shared_memory);
  p.buffers[1].reuses = BufferId{9};
  CHECK(verify(p)[0].message == "buffer g: there is no buffer 9");
}

TEST_CASE("moments with scales are codes in blocks of 256, or f8 and f16 in blocks of 128", "[verify]") {
  const std::string steps = "buffer steps scalar stage f64 1\n";
  const std::string sgd =
      "compute sgd_update optimizer f32 rows=1 columns=32 decay (read gradients, read steps, accumulate weights)";
  const auto found = [&](const std::string& first, const std::string& second, const std::string& depth) {
    const std::string moments = "buffer moment1 moment layer " + first + " 32\nbuffer moment2 moment layer " + second +
                                " 32\nbuffer scales moment layer f32 2\n";
    std::string all;
    for (const Violation& v :
         after({{steps, moments + steps},
                {"  2: alloc gradients\n  3: alloc steps\n  4:",
                 "  2: alloc gradients\n  3: alloc steps\n  4: alloc moment1\n  5: alloc moment2\n  6: alloc scales\n"
                 "  7: compute fill setup f32 rows=1 columns=32 (write moment1)\n"
                 "  8: compute fill setup f32 rows=1 columns=32 (write moment2)\n"
                 "  9: compute fill setup f32 rows=1 columns=2 (write scales)\n  10:"},
                {sgd, "compute adam_update optimizer f32 rows=1 columns=32 depth=" + depth +
                          " scaled decay (read gradients, read steps, accumulate weights, accumulate moment1, "
                          "accumulate moment2, accumulate scales)"}})) {
      all += v.message + "\n";
    }
    return all;
  };
  CHECK(found("u8", "u8", "256").empty());
  CHECK(found("f8", "f16", "128").empty());
  CHECK(found("u8", "u8", "128").starts_with("256 moments in u8 share a scale, not 128 (block update, op 1"));
  CHECK(found("f8", "f16", "256").starts_with("128 moments in f8 share a scale, not 256 (block update, op 1"));
  CHECK(found("u8", "f16", "256").starts_with("moments in u8 and f16 have no scales (block update, op 1"));
}
