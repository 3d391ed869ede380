#include <fmt/format.h>

#include "core/program/program_text_reader.hpp"

namespace orrery::program_text {

Kernel Reader::kernel(Line& line) const {
  Kernel k;
  k.kind = named<KernelKind>(line, "the kind of a kernel", kernel_kind_count);
  k.pass = named<Pass>(line, "a pass", static_cast<std::size_t>(Pass::optimizer) + 1);
  k.compute = named<DType>(line, "an element type", static_cast<std::size_t>(DType::f8) + 1);
  const auto option = [&](std::string_view name) { return line.take(name); };
  while (line.peek().kind == Token::Kind::word && line.peek().text != "after") {
    const Token token = line.peek();
    const auto field = [&](std::string_view name) {
      if (!line.take(name)) return false;
      line.expect("=");
      return true;
    };
    if (field("rows")) {
      k.rows = line.number("rows");
    } else if (field("columns")) {
      k.columns = line.number("columns");
    } else if (field("depth")) {
      k.depth = line.number("depth");
    } else if (field("batch")) {
      k.batch = u32(line, "batch");
    } else if (field("heads")) {
      k.heads = u32(line, "heads");
    } else if (field("kv_heads")) {
      k.kv_heads = u32(line, "kv_heads");
    } else if (field("head_dim")) {
      k.head_dim = u32(line, "head_dim");
    } else if (field("value_dim")) {
      k.value_dim = u32(line, "value_dim");
    } else if (field("ring")) {
      k.ring = u32(line, "ring");
    } else if (field("rotation")) {
      k.rotation = u32(line, "rotation");
    } else if (field("window")) {
      k.window = line.number("window");
    } else if (field("scale")) {
      k.scale = line.real("a scale");
    } else if (field("softcap")) {
      k.softcap = line.real("a soft cap");
    } else if (field("site")) {
      k.site = static_cast<std::uint8_t>(line.number("site", 255));
    } else if (field("parameter")) {
      k.parameter = line.real("a parameter");
    } else if (option("bias")) {
      k.options.bias = true;
    } else if (option("dropout")) {
      k.options.dropout = true;
    } else if (option("factor")) {
      k.options.factor = true;
    } else if (option("master")) {
      k.options.master = true;
    } else if (option("momentum")) {
      k.options.momentum = true;
    } else if (option("scaled")) {
      k.options.scaled = true;
    } else if (option("decay")) {
      k.options.decay = true;
    } else if (option("transpose_a")) {
      k.options.transpose_a = true;
    } else if (option("transpose_b")) {
      k.options.transpose_b = true;
    } else if (option("causal")) {
      k.options.causal = true;
    } else if (option("chunked")) {
      k.options.chunked = true;
    } else if (option("alibi")) {
      k.options.alibi = true;
    } else if (option("sinks")) {
      k.options.sinks = true;
    } else if (option("cut")) {
      k.options.cut = true;
    } else if (option("centered")) {
      k.options.centered = true;
    } else if (option("loads")) {
      k.options.loads = true;
    } else if (option("residual")) {
      k.options.residual = true;
    } else if (option("unbiased")) {
      k.options.unbiased = true;
    } else if (option("unweighted")) {
      k.options.unweighted = true;
    } else {
      line.fail_at(token, "program.syntax",
                   fmt::format("{} is neither a shape nor an option of a kernel", shown(token)));
    }
  }
  return k;
}

std::int8_t Reader::layer_shift(Line& line) const {
  return line.take("@") ? static_cast<std::int8_t>(line.signed_number("a layer shift", -128, 127)) : std::int8_t{0};
}

View Reader::view(Line& line) const {
  View v;
  if (line.take("read")) {
    v.use = View::Use::read;
  } else if (line.take("write")) {
    v.use = View::Use::write;
  } else if (line.take("accumulate")) {
    v.use = View::Use::accumulate;
  } else {
    line.fail("program.syntax", fmt::format("expected read, write or accumulate, found {}", shown(line.peek())));
  }
  v.buffer = BufferId{buffers_.reference(line, "buffer")};
  v.count = program_[v.buffer].count;
  if (line.take("[")) {
    v.offset = line.number("the first element");
    line.expect(":");
    const Token token = line.peek();
    const std::uint64_t end = line.number("the end");
    if (end < v.offset) line.fail_at(token, "program.number", "a range ends before it begins");
    v.count = end - v.offset;
    line.expect("]");
  }
  v.layer_shift = layer_shift(line);
  if (line.take("part")) v.member_of = axes(line);
  return v;
}

Range Reader::views(Line& line) {
  auto& all = program_.blocks.back().views;
  Range range{static_cast<std::uint32_t>(all.size()), 0};
  if (!line.take("(")) return range;
  do {
    all.push_back(view(line));
    ++range.count;
  } while (line.take(","));
  line.expect(")");
  return range;
}

Range Reader::transfers(Line& line, std::uint32_t views) {
  auto& all = program_.blocks.back().transfers;
  Range range{static_cast<std::uint32_t>(all.size()), 0};
  if (line.peek().kind == Token::Kind::end || line.peek().text == "after") return range;
  do {
    Transfer t;
    t.send = line.take("send");
    if (!t.send) line.expect("receive");
    const Token token = line.peek();
    t.view = u32(line, "the number of a view");
    if (t.view >= views) {
      line.fail_at(token, "program.number", fmt::format("there is no view {}", t.view),
                   {fmt::format("The exchange has {} views, counted from 0.", views)});
    }
    line.expect(t.send ? "to" : "from");
    t.peer = Peer{u32(line, "a peer")};
    line.expect("in");
    t.group = group_reference(line);
    line.expect("channel");
    t.channel = static_cast<std::uint8_t>(line.number("a channel", 255));
    all.push_back(t);
    ++range.count;
  } while (line.take(","));
  return range;
}

Lane Reader::lane(Line& line) const {
  const Token token = line.peek();
  const std::string_view word = line.word("a lane");
  static constexpr std::pair<LaneKind, std::size_t> kinds[] = {{LaneKind::compute, 1},
                                                               {LaneKind::collective, axis_count + 2},
                                                               {LaneKind::transfer, 4},
                                                               {LaneKind::copy, 4},
                                                               {LaneKind::host, 1}};
  for (const auto& [kind, count] : kinds) {
    for (std::size_t i = 0; i < count; ++i) {
      const Lane lane{kind, static_cast<std::uint8_t>(i)};
      if (name_of(lane) == word) return lane;
    }
  }
  line.fail_at(token, "program.syntax", fmt::format("expected a lane, alloc or free, found {}", shown(token)),
               {"Lanes: compute, a mesh axis, all, forward-receive, forward-send, backward-receive, backward-send, "
                "copy-0 to copy-3."});
}

Wait Reader::wait(Line& line) const {
  Wait wait;
  if (line.take("tail")) {
    wait.kind = Wait::Kind::tail;
    wait.lane = lane(line);
  } else {
    wait.op = u32(line, "the number of an op");
  }
  return wait;
}

void Reader::op_after_lane(Line& line, Op& op) {
  Block& block = program_.blocks.back();
  const std::string_view word = line.peek().text;
  const Token token = line.peek();
  if (line.take("exchange")) {
    op.views = views(line);
    op.action = Exchange{transfers(line, op.views.count)};
    return;
  }
  if (line.take("copy")) {
    const Tier from = named<Tier>(line, "a memory tier", 3);
    const Tier to = named<Tier>(line, "a memory tier", 3);
    op.action = Copy{from, to};
    op.views = views(line);
    return;
  }
  if (line.take("kernel")) {
    line.expect("%");
    const std::uint32_t number = u32(line, "the number of a kernel");
    if (number >= block.kernels.size()) {
      line.fail_at(token, "program.name", fmt::format("there is no kernel %{} above in this block", number));
    }
    op.action = Compute{number};
    op.views = views(line);
    return;
  }
  for (std::uint8_t i = 0; i <= index(Collective::Kind::barrier); ++i) {
    const auto kind = static_cast<Collective::Kind>(i);
    if (word != name_of(kind) || !line.take(word)) continue;
    Collective c;
    c.kind = kind;
    if (line.take("max")) {
      c.reduction = Collective::Reduction::max;
    } else {
      line.take("sum");
    }
    c.group = group_reference(line);
    if (kind == Collective::Kind::permute) {
      line.expect("by");
      c.root = Peer{u32(line, "a distance")};
      if (line.take("width")) c.width = u32(line, "a width");
    } else if (line.take("root")) {
      c.root = Peer{u32(line, "a root")};
    }
    op.action = c;
    op.views = views(line);
    return;
  }
  block.kernels.push_back(kernel(line));
  op.action = Compute{static_cast<std::uint32_t>(block.kernels.size() - 1)};
  op.views = views(line);
}

void Reader::op(Line& line) {
  // The block is declared first and filled then, like all declarations, so that a mistake in one line does not make
  // every later one wrong.
  Block& block = program_.blocks.back();
  const std::size_t expected = block.ops.size();
  Op& op = block.ops.emplace_back();
  const Token token = line.peek();
  if (u32(line, "the number of an op") != expected) {
    line.fail_at(token, "program.number", fmt::format("this is op {} of its block", expected));
  }
  line.expect(":");
  if (line.take("alloc")) {
    const BufferId what{buffers_.reference(line, "buffer")};
    op.action = Alloc{what, layer_shift(line)};
  } else if (line.take("free")) {
    const BufferId what{buffers_.reference(line, "buffer")};
    op.action = Free{what, layer_shift(line)};
  } else {
    op.lane = lane(line);
    op_after_lane(line, op);
  }
  op.waits.first = static_cast<std::uint32_t>(block.waits.size());
  if (line.take("after")) {
    do {
      block.waits.push_back(wait(line));
      ++op.waits.count;
    } while (line.take(","));
  }
  line.expect_end();
}

}  // namespace orrery::program_text
