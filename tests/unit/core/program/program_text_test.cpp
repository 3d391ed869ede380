#include "core/program/program_text.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/core/program/sample.hpp"

using namespace orrery;

namespace {

/// What reading `text` complains about.
std::string complaint(const std::string& text) {
  Diagnostics diagnostics;
  const auto program = read_program(text, "x.program", diagnostics);
  CHECK(program.has_value() == diagnostics.empty());
  return render(diagnostics);
}

const std::string head = "orrery-program 1\nmesh tensor=2\n";

}  // namespace

TEST_CASE("the sample reads, writes and reads back equal", "[program_text]") {
  const Program program = test::parsed(test::sample_text());
  CHECK(program.mesh.size() == 4);
  CHECK(program.blocks.size() == 12);
  const std::string text = write_program(program);
  CHECK(test::parsed(text) == program);
  CHECK(write_program(test::parsed(text)) == text);
}

TEST_CASE("every field of a Program survives the text", "[program_text]") {
  Program p;
  p.mesh.axes = {{Axis::data, 3}, {Axis::tensor, 2}};
  p.layers = 7;
  p.microbatches = 5;
  p.class_axes = {Axis::data, Axis::tensor};
  ParameterTable table;
  table.module = "odd \"name\"\n#1";
  table.count = 12;
  table.slices = {{"a b", 3, Shard{{5, 4, {Axis::tensor, Axis::data}, false}, {6, 6, {}, true}}, Init::normal, 0.1}};
  table.slices.push_back({"c", 0, Shard{}, Init::ones, 0.0});
  table.segments = {{0, 5, true, false, false, false}, {5, 7, false, true, false, true}};
  p.parameter_tables = {table, table};  // the same name twice: referred to by number
  Buffer b;
  b.name = "x";
  b.role = Role::moment;
  b.scope = Scope::layer_microbatch;
  b.dtype = DType::u8;
  b.count = 1000000000000;
  b.parameters = 1;
  b.flat_split = {Axis::data};
  b.tier = Tier::disk;
  b.shard = Shard{{64, 64, {}, true}};
  p.buffers = {b, b};
  p.buffers[1].tier = Tier::device;
  p.buffers[1].reuses = BufferId{0};
  p.rotations = {{1.0 / 3.0, {1.0, 1e-300}}, {1.0, {0.1}}};
  p.groups = {{{}, {}}, {{Axis::tensor}, {1}}, {{Axis::data, Axis::tensor}, {5, 0, 3}}, {{}, {}}};
  Block block;
  block.name = "";
  block.pass = Pass::recompute;
  Kernel k;
  k.kind = KernelKind::adam_update;
  k.pass = Pass::optimizer;
  k.compute = DType::f16;
  k.options = {true, true, true, true, true, true, true, true, true, true,
               true, true, true, true, true, true, true, true, true};
  k.site = 255;
  k.batch = k.heads = k.kv_heads = k.head_dim = k.value_dim = k.ring = k.rotation = 4294967295U;
  k.rows = k.columns = k.depth = 18446744073709551615U;
  k.window = 18446744073709551615U;
  k.scale = 1.0 / 7.0;
  k.softcap = 1e-300;
  k.parameter = 1.0 / 3.0;  // shortest text that reads back to the same bits
  k.scale = -0.1;
  k.softcap = 1e300;
  block.kernels = {k, Kernel{}};
  block.views = {{BufferId{1}, 5, 7, View::Use::accumulate, -128, {Axis::tensor, Axis::data}},
                 {BufferId{0}, 0, 1000000000000, View::Use::write, 127, {}},
                 {BufferId{0}, 0, 3, View::Use::read, 0, {}}};
  block.waits = {{Wait::Kind::op, {}, 0}, {Wait::Kind::tail, {LaneKind::copy, 3}, 0}};
  block.transfers = {{true, Peer{9}, GroupId{3}, 255, 0}, {false, Peer{0}, GroupId{1}, 0, 0}};
  // Kernels are out of order of use and one is unused, so they are declared in front.
  block.ops = {
      {Compute{1}, {}, {}, {}},
      {Collective{Collective::Kind::broadcast, Collective::Reduction::max, GroupId{2}, Peer{2}},
       {LaneKind::collective, axis_count},
       {0, 2},
       {0, 1}},
      {Exchange{{0, 2}}, {LaneKind::transfer, 2}, {}, {1, 1}},
      {Copy{Tier::disk, Tier::host}, {LaneKind::copy, 0}, {}, {2, 1}},
      {Alloc{BufferId{1}, -1}, {}, {}, {}},
      {Free{BufferId{0}, 3}, {}, {}, {}},
      {Collective{Collective::Kind::barrier, {}, GroupId{0}, {}}, {LaneKind::collective, 1}, {}, {}},
      {Collective{Collective::Kind::permute, {}, GroupId{0}, Peer{1}, 2}, {LaneKind::collective, gather_lane}, {}, {}}};
  p.blocks = {block, block};
  p.blocks[1].name = "named";
  p.blocks[1].kernels = {k};
  p.blocks[1].ops[0] = {Compute{0}, {}, {}, {}};
  p.blocks.push_back(p.blocks[1]);
  p.classes.resize(2);
  p.classes[0].setup = {{BlockId{0}, 1, 2, 3, -4}};
  p.classes[1].step = {{BlockId{2}, 4294967295U, 4294967295U, 4294967295U, -2147483647 - 1}, {BlockId{1}, 0, 0, 1, 1}};
  const std::string text = write_program(p);
  CAPTURE(text);
  CHECK(test::parsed(text) == p);
}

TEST_CASE("the text form of every part is as documented", "[program_text]") {
  const Program program = test::parsed(test::sample_text());
  const Block& backward = program.blocks[7];
  CHECK(backward.name == "backward");
  CHECK(op_text(program, backward, backward.ops[2]) == "tensor all_reduce sum tensor (accumulate gradient) after 1");
  CHECK(op_text(program, backward, backward.ops[3]) ==
        "compute gemm weight_gradient f32 rows=8 columns=4 depth=4 transpose_a (read hidden, read "
        "gradient[16:32]@1, accumulate gradients)");
  CHECK(op_text(program, backward, backward.ops[5]) == "free gradient@1");
  const Block& send = program.blocks[3];
  CHECK(op_text(program, send, send.ops[0]) ==
        "forward-send exchange (read hidden) send 0 to 1 in pipeline channel 0 after tail tensor");
}

TEST_CASE("a rank's list shows every run with its op numbers", "[program_text]") {
  const Program program = test::parsed(test::sample_text());
  const std::string list = write_rank(program, Rank{2});
  // In class 1 the step is receive (2 ops), wait (1), forward (5), so its all_gather is op 3 + 3 = 6.
  CHECK(list.find("rank 2 (class 1)\n setup\n  setup layer 1 microbatch 0\n") == 0);
  CHECK(list.find("\n     6    3: tensor all_gather tensor (read half, write hidden@1) after 1\n") !=
        std::string::npos);
}

TEST_CASE("spaces and comments do not matter", "[program_text]") {
  const std::string plain = head + "layers 2\nblock a forward\n  0: compute fill forward f32 rows=3\n";
  const std::string spaced =
      "# a comment\n\n  orrery-program   1 # here\r\n\tmesh tensor = 2\nlayers 2\r\n"
      "block \"a\" forward#x\n0 :compute fill forward f32 rows = 3";
  CHECK(test::parsed(plain) == test::parsed(spaced));
}

TEST_CASE("a mistake is shown with its line, column and what would be right", "[program_text]") {
  CHECK(complaint("") == "x.program: error: a Program begins with the line 'orrery-program 1' [program.version]\n");
  CHECK(complaint("[model]\n") ==
        "x.program:1:1: error: a Program begins with the line 'orrery-program 1' [program.version]\n"
        "    1 | [model]\n"
        "      | ^\n");
  CHECK(complaint("orrery-program 2\nmesh\n") ==
        "x.program:1:16: error: schema version 2 is unknown [program.version]\n"
        "    1 | orrery-program 2\n"
        "      |                ^\n"
        "  This program reads version 1.\n");
  CHECK(complaint(head + "buffer x weight layer f31 4\n") ==
        "x.program:3:23: error: expected an element type, found 'f31' [program.syntax]\n"
        "    3 | buffer x weight layer f31 4\n"
        "      |                       ^\n"
        "  Known: f64, f32, bf16, f16, i32, u8, f8.\n");
  CHECK(complaint(head + "buffer x weight layer f32 18446744073709551616\n") ==
        "x.program:3:27: error: a number of elements is too large [program.number]\n"
        "    3 | buffer x weight layer f32 18446744073709551616\n"
        "      |                           ^\n"
        "  The largest is 18446744073709551615.\n");
  CHECK(complaint(head + "block a forward\n  0: alloc y\n") ==
        "x.program:4:12: error: no buffer 'y' is declared above [program.name]\n"
        "    4 |   0: alloc y\n"
        "      |            ^\n");
  CHECK(complaint(head + "mesh\n") ==
        "x.program:3:5: error: the mesh stands twice [program.syntax]\n"
        "    3 | mesh\n"
        "      |     ^\n");
  CHECK(complaint("orrery-program 1\nmesh tensor=70000 data=70000\n") ==
        "x.program:2:24: error: a mesh has 1 to 2147483648 ranks [program.size]\n"
        "    2 | mesh tensor=70000 data=70000\n"
        "      |                        ^\n");
}

TEST_CASE("all mistakes of a file are shown, each once", "[program_text]") {
  const std::string text = head +
                           "buffer x weight layer f32\n"  // no count; x is declared all the same
                           "block a forward\n"
                           "  0: alloc x\n"
                           "  1: compute gem forward f32\n"  // unknown kernel
                           "  2: free x\n"
                           "  4: free x\n"  // out of order
                           "class 1\n";     // must be 0
  Diagnostics diagnostics;
  CHECK(!read_program(text, "x", diagnostics));
  std::vector<std::pair<std::uint32_t, std::string>> seen;
  for (const Diagnostic& d : diagnostics.list()) seen.emplace_back(d.position.line, d.code);
  CHECK(seen == std::vector<std::pair<std::uint32_t, std::string>>{
                    {3, "program.syntax"}, {6, "program.syntax"}, {8, "program.number"}, {9, "program.number"}});
}

TEST_CASE("numbers out of range are mistakes, never other numbers", "[program_text]") {
  const auto code = [](const std::string& line) {
    Diagnostics diagnostics;
    CHECK(
        !read_program(head + "buffer x weight layer f32 4\ngroup tensor\nblock a forward\n" + line, "x", diagnostics));
    return diagnostics.empty() ? std::string() : diagnostics.list()[0].code;
  };
  CHECK(code("0: alloc x@128") == "program.number");
  CHECK(code("0: alloc x@-129") == "program.number");
  CHECK(code("0: compute fill forward f32 rows=-1") == "program.number");
  CHECK(code("0: compute fill forward f32 parameter=nan") == "program.number");
  CHECK(code("0: compute fill forward f32 parameter=inf") == "program.number");
  CHECK(code("0: compute fill forward f32 parameter=1e999") == "program.number");
  CHECK(code("0: compute fill forward f32 site=256") == "program.number");
  CHECK(code("0: compute fill forward f32 (write x[3:2])") == "program.number");
  CHECK(code("0: tensor exchange (read x) send 1 to 0 in tensor channel 0") == "program.number");
  CHECK(code("0: tensor exchange (read x) send 0 to 0 in tensor channel 256") == "program.number");
  CHECK(code("0: tensor all_reduce sum %1") == "program.name");
  CHECK(code("0: tensor all_reduce sum data") == "program.name");
  CHECK(code("0: compute kernel %0") == "program.name");
  CHECK(code("0: alloc \"x") == "program.syntax");
  CHECK(code("0: alloc \"\\q\"") == "program.syntax");
  CHECK(code("0: compute fill forward f32 rows=1 rows=2 extra") == "program.syntax");
  CHECK(code("0: alloc x free") == "program.syntax");
  CHECK(code("0: sideways fill forward f32") == "program.syntax");
}
