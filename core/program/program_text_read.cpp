#include <fmt/format.h>

#include <algorithm>

#include "core/base/source_excerpt.hpp"
#include "core/program/program_text.hpp"
#include "core/program/program_text_reader.hpp"

namespace orrery {

namespace program_text {

namespace {

// A rank, a buffer and an op each have a 32-bit number; a file with more is refused.
constexpr std::uint64_t max_ranks = std::uint64_t{1} << 31;
constexpr std::size_t max_text = std::size_t{1} << 30;
constexpr std::size_t max_mistakes = 20;

}  // namespace

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
    if (line.take("zigzag")) d.zigzag = u32(line, "a number of ranks");
    if (line.take("by")) d.split = axes(line);
    d.microbatched = line.take("microbatched");
  } while (line.take(","));
  line.expect("]");
  return shard;
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
  s.summed = line.take("summed");
  s.counted = !line.take("uncounted");
  line.expect_end();
  program_.parameter_tables.back().segments.push_back(s);
}

void Reader::rotation(Line& line) {
  Rotation& r = program_.rotations.emplace_back();
  r.scale = line.real("a scale");
  line.expect("[");
  do r.frequencies.push_back(line.real("a frequency"));
  while (line.take(","));
  line.expect("]");
  line.expect_end();
}

void Reader::buffer(Line& line) {
  Buffer& b = program_.buffers.emplace_back();
  b.name = line.name("the name of a buffer");
  buffers_.add(b.name);
  b.role = named<Role>(line, "a role", static_cast<std::size_t>(Role::scalar) + 1);
  b.scope = named<Scope>(line, "a scope", 4);
  b.dtype = named<DType>(line, "an element type", static_cast<std::size_t>(DType::f8) + 1);
  b.count = line.number("a number of elements");
  if (line.take("shard")) b.shard = shard(line);
  if (line.take("table")) b.parameters = tables_.reference(line, "table");
  if (line.take("flat")) b.flat_split = axes(line);
  if (line.take("tier")) b.tier = named<Tier>(line, "a memory tier", 3);
  if (line.take("reuses")) b.reuses = BufferId{buffers_.reference(line, "buffer")};
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
    s.layer_step = static_cast<std::int32_t>(line.signed_number(
        "a layer step", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  }
  if (field("receives_ahead")) s.receives_ahead = u32(line, "a number of receives");
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
  if (line.take("rotation")) return rotation(line);
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
    line.fail(
        "program.syntax", fmt::format("a line cannot begin with {}", shown(first)),
        {"Lines begin with mesh, layers, microbatches, classes, table, slice, segment, rotation, buffer, group, block, "
         "kernel, the number of an op, class, setup, step or run."});
  }
  line.expect_end();
}

std::optional<Program> Reader::read(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  std::size_t mistakes = 0;
  std::uint32_t number = 0;
  std::string_view source;
  const auto report = [&](Mistake m) {
    // The scanner counts columns in bytes.
    const std::string_view before = source.substr(0, m.column > 0 ? m.column - 1 : 0);
    const std::uint32_t column = character_count(before) + 1;
    Excerpt shown = excerpt(source, column);
    diagnostics.add({file,
                     {number, column},
                     std::move(m.code),
                     std::move(m.message),
                     std::move(m.details),
                     std::move(shown.line),
                     std::move(shown.pad)});
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
    report({0,
            versioned ? "program.syntax" : "program.version",
            versioned ? "the mesh is missing" : "a Program begins with the line 'orrery-program 1'",
            {}});
  }
  if (mistakes > 0) return std::nullopt;
  return std::move(program_);
}

}  // namespace program_text

std::optional<Program> read_program(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  return program_text::Reader().read(text, file, diagnostics);
}

}  // namespace orrery
