#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/program/program_text.hpp"
#include "core/program/program_text_scan.hpp"

namespace orrery {

namespace {

using program_text::Line;
using program_text::Mistake;
using program_text::scan;
using program_text::shown;
using program_text::Token;

// A rank, a buffer and an op each have a 32-bit number; a file with more is refused.
constexpr std::uint64_t max_ranks = std::uint64_t{1} << 31;
constexpr std::size_t max_text = std::size_t{1} << 30;
constexpr std::size_t max_mistakes = 20;
constexpr std::uint32_t any_u32 = std::numeric_limits<std::uint32_t>::max();

/// Numbers of the things declared so far, by name.
class Names {
 public:
  void add(const std::string& name) {
    const auto [at, fresh] = numbers_.try_emplace(name, count_);
    if (!fresh) at->second = twice;
    ++count_;
  }
  /// `name`, "name" or %3.
  std::uint32_t reference(Line& line, std::string_view what) const {
    if (line.take("%")) {
      const Token token = line.peek();
      const auto number = static_cast<std::uint32_t>(line.number(fmt::format("the number of a {}", what), any_u32));
      if (number >= count_) {
        line.fail_at(token, "program.name", fmt::format("there is no {} %{}", what, number),
                     {fmt::format("{} declared above.", count_)});
      }
      return number;
    }
    const Token token = line.peek();
    const auto found = numbers_.find(line.name(fmt::format("the name of a {}", what)));
    if (found == numbers_.end()) {
      line.fail_at(token, "program.name", fmt::format("no {} {} is declared above", what, shown(token)));
    }
    if (found->second == twice) {
      line.fail_at(token, "program.name", fmt::format("more than one {} is named {}", what, shown(token)),
                   {"Refer to it by number: %0 is the first declared."});
    }
    return found->second;
  }

 private:
  static constexpr std::uint32_t twice = any_u32;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
  std::uint32_t count_ = 0;
};

/// The enumerator with that name, among the first `count`.
template <class Enum>
Enum named(Line& line, std::string_view what, std::size_t count) {
  const Token token = line.peek();
  const std::string_view word = line.word(what);
  std::string known;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name_of(value) == word) return value;
    if (count <= 12) known += fmt::format("{}{}", i > 0 ? ", " : "", name_of(value));
  }
  line.fail_at(token, "program.syntax", fmt::format("expected {}, found {}", what, shown(token)),
               known.empty() ? std::vector<std::string>{} : std::vector<std::string>{"Known: " + known + "."});
}

class Reader {
 public:
  std::optional<Program> read(std::string_view text, const std::string& file, Diagnostics& diagnostics);

 private:
  void line(Line& line);
  void mesh(Line& line);
  void table(Line& line);
  void slice(Line& line);
  void segment(Line& line);
  void buffer(Line& line);
  void block(Line& line);
  void op(Line& line);
  void op_after_lane(Line& line, Op& op);
  void rank_class(Line& line);
  void slot(Line& line);

  AxisList axes(Line& line) const;
  Group group(Line& line) const;
  GroupId group_reference(Line& line) const;
  Shard shard(Line& line) const;
  Kernel kernel(Line& line) const;
  View view(Line& line) const;
  Range views(Line& line);
  Range transfers(Line& line, std::uint32_t views);
  std::int8_t layer_shift(Line& line) const;
  Lane lane(Line& line) const;
  Wait wait(Line& line) const;
  std::uint32_t u32(Line& line, std::string_view what) const {
    return static_cast<std::uint32_t>(line.number(what, any_u32));
  }

  Program program_;
  Names tables_, buffers_, blocks_;
  std::vector<Slot>* slots_ = nullptr;
  bool mesh_seen_ = false;
};

AxisList Reader::axes(Line& line) const {
  AxisList list;
  if (line.take("none")) return list;
  do {
    const Token token = line.peek();
    const Axis axis = named<Axis>(line, "a mesh axis", axis_count);
    if (std::find(list.begin(), list.end(), axis) != list.end()) {
      line.fail_at(token, "program.syntax", fmt::format("axis {} stands twice", shown(token)));
    }
    list.axis[list.count++] = axis;
  } while (line.take("*"));
  return list;
}

Group Reader::group(Line& line) const {
  Group group;
  group.axes = axes(line);
  if (line.take("{")) {
    do group.members.push_back(u32(line, "a member"));
    while (line.take(","));
    line.expect("}");
  }
  return group;
}

GroupId Reader::group_reference(Line& line) const {
  const Token token = line.peek();
  if (line.take("%")) {
    const std::uint32_t number = u32(line, "the number of a group");
    if (number >= program_.groups.size()) {
      line.fail_at(token, "program.name", fmt::format("there is no group %{}", number));
    }
    return GroupId{number};
  }
  const Group wanted = group(line);
  const auto found = std::find(program_.groups.begin(), program_.groups.end(), wanted);
  if (found == program_.groups.end()) {
    line.fail_at(token, "program.name", fmt::format("no such group {} is declared above", shown(token)));
  }
  return GroupId{static_cast<std::uint32_t>(found - program_.groups.begin())};
}

Shard Reader::shard(Line& line) const {
  Shard shard;
  line.expect("[");
  if (line.take("]")) return shard;
  do {
    if (shard.rank == Shard::max_dims) line.fail("program.size", "a shard has at most 4 dimensions");
    ShardDim& d = shard.dims[shard.rank++];
    d.extent = line.number("an extent");
    d.valid = line.take("/") ? line.number("a valid extent", d.extent) : d.extent;
    if (line.take("by")) d.split = axes(line);
    d.microbatched = line.take("microbatched");
  } while (line.take(","));
  line.expect("]");
  return shard;
}

Kernel Reader::kernel(Line& line) const {
  Kernel k;
  k.kind = named<KernelKind>(line, "the kind of a kernel", kernel_kind_count);
  k.pass = named<Pass>(line, "a pass", static_cast<std::size_t>(Pass::optimizer) + 1);
  k.compute = named<DType>(line, "an element type", static_cast<std::size_t>(DType::u8) + 1);
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
    } else {
      line.fail_at(token, "program.syntax", fmt::format("{} is neither a shape nor an option of a kernel", shown(token)));
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
                                                               {LaneKind::collective, axis_count + 1},
                                                               {LaneKind::transfer, 4},
                                                               {LaneKind::copy, 4}};
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
    if (line.take("root")) c.root = Peer{u32(line, "a root")};
    op.action = c;
    op.views = views(line);
    return;
  }
  block.kernels.push_back(kernel(line));
  op.action = Compute{static_cast<std::uint32_t>(block.kernels.size() - 1)};
  op.views = views(line);
}

void Reader::op(Line& line) {
  // Declared first and filled then, like all declarations: a mistake in one
  // line does not make every later one wrong.
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

void Reader::mesh(Line& line) {
  if (mesh_seen_) line.fail("program.syntax", "the mesh stands twice");
  mesh_seen_ = true;
  while (!line.ended()) {
    const Token token = line.peek();
    const Axis axis = named<Axis>(line, "a mesh axis", axis_count);
    for (const MeshAxis& a : program_.mesh.axes) {
      if (a.axis == axis) line.fail_at(token, "program.syntax", fmt::format("axis {} stands twice", shown(token)));
    }
    line.expect("=");
    const Token number = line.peek();
    const std::uint32_t size = u32(line, "a size");
    if (size == 0 || program_.mesh.size() * size > max_ranks) {
      line.fail_at(number, "program.size", fmt::format("a mesh has 1 to {} ranks", max_ranks));
    }
    program_.mesh.axes.push_back({axis, size});
  }
}

void Reader::table(Line& line) {
  ParameterTable& t = program_.parameter_tables.emplace_back();
  t.module = line.name("the name of a module");
  tables_.add(t.module);
  t.count = line.number("a number of elements");
  line.expect_end();
}

void Reader::slice(Line& line) {
  if (program_.parameter_tables.empty()) line.fail("program.syntax", "a slice stands inside a table");
  ParameterSlice s;
  s.name = line.name("the name of a parameter");
  line.expect("at");
  s.offset = line.number("an offset");
  s.init = named<Init>(line, "how the parameter starts", 3);
  if (!line.take("shard")) {
    s.init_scale = line.real("a standard deviation");
    line.expect("shard");
  }
  s.shard = shard(line);
  line.expect_end();
  program_.parameter_tables.back().slices.push_back(std::move(s));
}

void Reader::segment(Line& line) {
  if (program_.parameter_tables.empty()) line.fail("program.syntax", "a segment stands inside a table");
  ParameterSegment s;
  s.offset = line.number("the first element");
  line.expect(":");
  const Token token = line.peek();
  const std::uint64_t end = line.number("the end");
  if (end < s.offset) line.fail_at(token, "program.number", "a range ends before it begins");
  s.count = end - s.offset;
  s.decay = line.take("decay");
  s.replicated = line.take("replicated");
  s.counted = !line.take("uncounted");
  line.expect_end();
  program_.parameter_tables.back().segments.push_back(s);
}

void Reader::buffer(Line& line) {
  Buffer& b = program_.buffers.emplace_back();
  b.name = line.name("the name of a buffer");
  buffers_.add(b.name);
  b.role = named<Role>(line, "a role", static_cast<std::size_t>(Role::scalar) + 1);
  b.scope = named<Scope>(line, "a scope", 4);
  b.dtype = named<DType>(line, "an element type", static_cast<std::size_t>(DType::u8) + 1);
  b.count = line.number("a number of elements");
  if (line.take("shard")) b.shard = shard(line);
  if (line.take("table")) b.parameters = tables_.reference(line, "table");
  if (line.take("flat")) b.flat_split = axes(line);
  if (line.take("tier")) b.tier = named<Tier>(line, "a memory tier", 3);
  line.expect_end();
}

void Reader::block(Line& line) {
  Block& b = program_.blocks.emplace_back();
  b.name = line.name("the name of a block");
  blocks_.add(b.name);
  b.pass = named<Pass>(line, "a pass", static_cast<std::size_t>(Pass::optimizer) + 1);
  line.expect_end();
}

void Reader::rank_class(Line& line) {
  const std::size_t expected = program_.classes.size();
  program_.classes.emplace_back();
  slots_ = nullptr;
  const Token token = line.peek();
  if (u32(line, "the number of a class") != expected) {
    line.fail_at(token, "program.number", fmt::format("this is class {}", expected));
  }
  line.expect_end();
}

void Reader::slot(Line& line) {
  if (slots_ == nullptr) line.fail("program.syntax", "a run stands inside the setup or step of a class");
  Slot s;
  s.block = BlockId{blocks_.reference(line, "block")};
  const auto field = [&](std::string_view name) {
    if (!line.take(name)) return false;
    line.expect("=");
    return true;
  };
  if (field("layer")) s.layer = u32(line, "a layer");
  if (field("microbatch")) s.microbatch = u32(line, "a microbatch");
  if (field("repeat")) s.repeat = u32(line, "a number of repeats");
  if (field("layer_step")) {
    s.layer_step = static_cast<std::int32_t>(line.signed_number("a layer step", std::numeric_limits<std::int32_t>::min(),
                                                                std::numeric_limits<std::int32_t>::max()));
  }
  line.expect_end();
  slots_->push_back(s);
}

void Reader::line(Line& line) {
  const Token first = line.peek();
  if (first.kind == Token::Kind::word && first.text[0] >= '0' && first.text[0] <= '9') {
    if (program_.blocks.empty()) line.fail("program.syntax", "an op stands inside a block");
    return op(line);
  }
  if (line.take("mesh")) return mesh(line);
  if (line.take("table")) return table(line);
  if (line.take("slice")) return slice(line);
  if (line.take("segment")) return segment(line);
  if (line.take("buffer")) return buffer(line);
  if (line.take("block")) return block(line);
  if (line.take("class")) return rank_class(line);
  if (line.take("run")) return slot(line);
  if (line.take("layers")) {
    program_.layers = u32(line, "a number of layers");
  } else if (line.take("microbatches")) {
    program_.microbatches = u32(line, "a number of microbatches");
  } else if (line.take("classes")) {
    program_.class_axes = axes(line);
  } else if (line.take("group")) {
    program_.groups.push_back(group(line));
  } else if (line.take("kernel")) {
    if (program_.blocks.empty()) line.fail("program.syntax", "a kernel stands inside a block");
    program_.blocks.back().kernels.push_back(kernel(line));
  } else if (line.take("setup") || line.take("step")) {
    if (program_.classes.empty()) line.fail_at(first, "program.syntax", "a list of runs stands inside a class");
    slots_ = first.text == "setup" ? &program_.classes.back().setup : &program_.classes.back().step;
  } else {
    line.fail("program.syntax", fmt::format("a line cannot begin with {}", shown(first)),
              {"Lines begin with mesh, layers, microbatches, classes, table, slice, segment, buffer, group, block, kernel, "
               "the number of an op, class, setup, step or run."});
  }
  line.expect_end();
}

std::optional<Program> Reader::read(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  std::size_t mistakes = 0;
  std::uint32_t number = 0;
  std::string_view source;
  const auto report = [&](Mistake m) {
    std::string shown_line(source.substr(0, 200));
    diagnostics.add({file, {number, m.column}, std::move(m.code), std::move(m.message), std::move(m.details),
                     std::move(shown_line)});
    ++mistakes;
  };
  if (text.size() > max_text) {
    report({1, "program.size", "the text is larger than 1 GiB", {}});
    return std::nullopt;
  }
  bool versioned = false;
  while (!text.empty() && mistakes < max_mistakes) {
    const auto end = text.find('\n');
    source = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    try {
      Line current(scan(source));
      if (current.ended()) continue;
      if (versioned) {
        line(current);
        continue;
      }
      if (!current.take("orrery-program")) {
        throw Mistake{1, "program.version", "a Program begins with the line 'orrery-program 1'", {}};
      }
      const Token token = current.peek();
      const std::uint64_t version = current.number("a schema version");
      if (version == 0 || version > program_text_version) {
        current.fail_at(token, "program.version", fmt::format("schema version {} is unknown", version),
                        {fmt::format("This program reads version {}.", program_text_version)});
      }
      current.expect_end();
      versioned = true;
    } catch (Mistake& m) {
      report(std::move(m));
      if (!versioned) return std::nullopt;  // not a file of ours: one message is enough
    }
  }
  if (mistakes == 0 && !mesh_seen_) {
    number = 0;
    source = {};
    report({0, versioned ? "program.syntax" : "program.version",
            versioned ? "the mesh is missing" : "a Program begins with the line 'orrery-program 1'", {}});
  }
  if (mistakes > 0) return std::nullopt;
  return std::move(program_);
}

}  // namespace

std::optional<Program> read_program(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  return Reader().read(text, file, diagnostics);
}

}  // namespace orrery
