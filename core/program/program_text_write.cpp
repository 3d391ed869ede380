#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "core/program/program_text.hpp"

namespace orrery {

namespace {

using Out = std::back_insert_iterator<std::string>;

/// The name is bare where the reader takes it for one word, otherwise quoted.
std::string name_text(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_inner = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  if (!name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_inner)) return std::string(name);
  std::string out = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Writes references by name, or by number (%3) where a name stands twice.
class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {
    for (const Buffer& b : program.buffers) ++buffer_names_[b.name];
    for (const Block& b : program.blocks) ++block_names_[b.name];
    for (const ParameterTable& t : program.parameter_tables) ++table_names_[t.module];
  }

  std::string program();
  std::string op(const Block& block, const Op& op, std::uint32_t& kernels_seen) const;

 private:
  using Counts = std::unordered_map<std::string_view, int>;  // the names are the Program's
  static std::string reference(const Counts& counts, const std::string& name, std::size_t number) {
    const auto found = counts.find(name);
    return found != counts.end() && found->second == 1 ? name_text(name) : fmt::format("%{}", number);
  }
  std::string buffer(BufferId id) const { return reference(buffer_names_, program_[id].name, index(id)); }
  std::string group(GroupId id) const;
  std::string view(const View& view) const;
  std::string views(const Block& block, Range range) const;
  std::string waits(const Block& block, Range range) const;
  std::string action(const Block& block, const Op& op, std::uint32_t& kernels_seen) const;

  void table(Out out, const ParameterTable& table) const;
  void declaration(Out out, const Buffer& buffer) const;
  void block(Out out, const Block& block) const;
  void slots(Out out, std::string_view heading, const std::vector<Slot>& slots) const;

  const Program& program_;
  Counts buffer_names_;
  Counts block_names_;
  Counts table_names_;
};

std::string axes_text(const AxisList& axes, std::string_view separator) {
  std::string out;
  for (const Axis axis : axes) {
    if (!out.empty()) out += separator;
    out += name_of(axis);
  }
  return out;
}

std::string group_text(const Group& group) {
  std::string out = group.axes.empty() ? "none" : axes_text(group.axes, "*");
  if (!group.members.empty()) out += fmt::format("{{{}}}", fmt::join(group.members, ","));
  return out;
}

std::string Writer::group(GroupId id) const {
  const Group& wanted = program_[id];
  const auto same = std::count(program_.groups.begin(), program_.groups.end(), wanted);
  return same == 1 ? group_text(wanted) : fmt::format("%{}", index(id));
}

std::string shard_text(const Shard& shard) {
  std::string out = "[";
  for (std::size_t i = 0; i < shard.rank; ++i) {
    const ShardDim& d = shard.dims[i];
    if (i > 0) out += ", ";
    out += fmt::format("{}", d.extent);
    if (d.valid != d.extent) out += fmt::format("/{}", d.valid);
    if (d.zigzag != 0) out += fmt::format(" zigzag {}", d.zigzag);
    if (!d.split.empty()) out += " by " + axes_text(d.split, "*");
    if (d.microbatched) out += " microbatched";
  }
  return out + "]";
}

std::string kernel_text(const Kernel& k) {
  std::string out = fmt::format("{} {} {}", name_of(k.kind), name_of(k.pass), name_of(k.compute));
  const auto number = [&](std::string_view name, auto value) {
    if (value != 0) out += fmt::format(" {}={}", name, value);
  };
  number("rows", k.rows);
  number("columns", k.columns);
  number("depth", k.depth);
  number("batch", k.batch);
  number("heads", k.heads);
  number("kv_heads", k.kv_heads);
  number("head_dim", k.head_dim);
  number("value_dim", k.value_dim);
  number("ring", k.ring);
  number("rotation", k.rotation);
  number("window", k.window);
  number("scale", k.scale);
  number("softcap", k.softcap);
  number("site", static_cast<unsigned>(k.site));
  number("parameter", k.parameter);
  const auto option = [&](std::string_view name, bool set) {
    if (set) out += fmt::format(" {}", name);
  };
  option("bias", k.options.bias);
  option("dropout", k.options.dropout);
  option("factor", k.options.factor);
  option("master", k.options.master);
  option("momentum", k.options.momentum);
  option("scaled", k.options.scaled);
  option("decay", k.options.decay);
  option("transpose_a", k.options.transpose_a);
  option("transpose_b", k.options.transpose_b);
  option("causal", k.options.causal);
  option("chunked", k.options.chunked);
  option("alibi", k.options.alibi);
  option("sinks", k.options.sinks);
  option("cut", k.options.cut);
  option("centered", k.options.centered);
  option("loads", k.options.loads);
  option("residual", k.options.residual);
  option("unbiased", k.options.unbiased);
  option("unweighted", k.options.unweighted);
  return out;
}

std::string Writer::view(const View& v) const {
  static constexpr std::string_view uses[] = {"read", "write", "accumulate"};
  std::string out = fmt::format("{} {}", uses[index(v.use)], buffer(v.buffer));
  if (v.offset != 0 || v.count != program_[v.buffer].count) out += fmt::format("[{}:{}]", v.offset, v.offset + v.count);
  if (v.layer_shift != 0) out += fmt::format("@{}", v.layer_shift);
  if (!v.member_of.empty()) out += " part " + axes_text(v.member_of, "*");
  return out;
}

std::string Writer::views(const Block& block, Range range) const {
  if (range.count == 0) return "";
  std::string out = " (";
  for (std::uint32_t i = 0; i < range.count; ++i) {
    if (i > 0) out += ", ";
    out += view(block.views[range.first + i]);
  }
  return out + ")";
}

std::string Writer::waits(const Block& block, Range range) const {
  std::string out;
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const Wait& w = block.waits[range.first + i];
    out += i == 0 ? " after " : ", ";
    out += w.kind == Wait::Kind::tail ? fmt::format("tail {}", name_of(w.lane)) : fmt::format("{}", w.op);
  }
  return out;
}

std::string Writer::action(const Block& block, const Op& op, std::uint32_t& kernels_seen) const {
  return std::visit(
      [&](const auto& a) -> std::string {
        using T = std::decay_t<decltype(a)>;
        if constexpr (std::is_same_v<T, Compute>) {
          if (a.kernel != kernels_seen) return fmt::format("kernel %{}", a.kernel) + views(block, op.views);
          ++kernels_seen;
          return kernel_text(block.kernels[a.kernel]) + views(block, op.views);
        } else if constexpr (std::is_same_v<T, Collective>) {
          std::string out(name_of(a.kind));
          const bool reduces = a.kind == Collective::Kind::all_reduce || a.kind == Collective::Kind::reduce ||
                               a.kind == Collective::Kind::reduce_scatter;
          if (reduces || a.reduction == Collective::Reduction::max) {
            out += a.reduction == Collective::Reduction::max ? " max" : " sum";
          }
          out += " ";
          out += group(a.group);
          if (a.kind == Collective::Kind::permute) {
            out += fmt::format(" by {}", index(a.root));
            if (a.width != 0) out += fmt::format(" width {}", a.width);
          } else if (a.kind == Collective::Kind::broadcast || a.kind == Collective::Kind::reduce || a.root != Peer{}) {
            out += fmt::format(" root {}", index(a.root));
          }
          return out + views(block, op.views);
        } else if constexpr (std::is_same_v<T, Exchange>) {
          std::string out = "exchange" + views(block, op.views);
          for (std::uint32_t i = 0; i < a.transfers.count; ++i) {
            const Transfer& t = block.transfers[a.transfers.first + i];
            out += fmt::format("{}{} {} {} {} in {} channel {}", i == 0 ? " " : ", ", t.send ? "send" : "receive",
                               t.view, t.send ? "to" : "from", index(t.peer), group(t.group), t.channel);
          }
          return out;
        } else if constexpr (std::is_same_v<T, Copy>) {
          return fmt::format("copy {} {}", name_of(a.from), name_of(a.to)) + views(block, op.views);
        } else {
          std::string out = std::is_same_v<T, Alloc> ? "alloc " : "free ";
          out += buffer(a.what);
          if (a.layer_shift != 0) out += fmt::format("@{}", a.layer_shift);
          return out;
        }
      },
      op.action);
}

std::string Writer::op(const Block& block, const Op& op, std::uint32_t& kernels_seen) const {
  const bool untimed = std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action);
  std::string out;
  if (!untimed) out = fmt::format("{} ", name_of(op.lane));
  return out + action(block, op, kernels_seen) + waits(block, op.waits);
}

void Writer::table(Out out, const ParameterTable& table) const {
  fmt::format_to(out, "table {} {}\n", name_text(table.module), table.count);
  for (const ParameterSlice& s : table.slices) {
    fmt::format_to(out, "  slice {} at {} {}", name_text(s.name), s.offset, name_of(s.init));
    if (s.init_scale != 0.0) fmt::format_to(out, " {}", s.init_scale);
    fmt::format_to(out, " shard {}\n", shard_text(s.shard));
  }
  for (const ParameterSegment& s : table.segments) {
    fmt::format_to(out, "  segment {}:{}{}{}{}{}\n", s.offset, s.offset + s.count, s.decay ? " decay" : "",
                   s.replicated ? " replicated" : "", s.summed ? " summed" : "", s.counted ? "" : " uncounted");
  }
}

void Writer::declaration(Out out, const Buffer& b) const {
  fmt::format_to(out, "buffer {} {} {} {} {}", name_text(b.name), name_of(b.role), name_of(b.scope), name_of(b.dtype),
                 b.count);
  if (b.shard) fmt::format_to(out, " shard {}", shard_text(*b.shard));
  if (b.parameters) {
    fmt::format_to(out, " table {}",
                   reference(table_names_, program_.parameter_tables[*b.parameters].module, *b.parameters));
  }
  if (!b.flat_split.empty()) fmt::format_to(out, " flat {}", axes_text(b.flat_split, "*"));
  if (b.tier != Tier::device) fmt::format_to(out, " tier {}", name_of(b.tier));
  if (b.reuses) fmt::format_to(out, " reuses {}", reference(buffer_names_, program_[*b.reuses].name, index(*b.reuses)));
  *out++ = '\n';
}

void Writer::block(Out out, const Block& block) const {
  fmt::format_to(out, "block {} {}\n", name_text(block.name), name_of(block.pass));
  std::uint32_t seen = 0;  // kernels declared so far: inside ops, in order of first use, or in front where they are not
                           // in that order
  for (const Op& op : block.ops) {
    if (const auto* compute = std::get_if<Compute>(&op.action)) {
      if (compute->kernel > seen) break;
      seen += compute->kernel == seen ? 1 : 0;
    }
  }
  const bool inline_kernels = seen == block.kernels.size();
  if (!inline_kernels) {
    for (const Kernel& k : block.kernels) fmt::format_to(out, "  kernel {}\n", kernel_text(k));
  }
  seen = inline_kernels ? 0 : static_cast<std::uint32_t>(block.kernels.size());
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    fmt::format_to(out, "  {}: {}\n", i, op(block, block.ops[i], seen));
  }
}

void Writer::slots(Out out, std::string_view heading, const std::vector<Slot>& slots) const {
  fmt::format_to(out, "  {}\n", heading);
  for (const Slot& s : slots) {
    fmt::format_to(out, "    run {}", reference(block_names_, program_[s.block].name, index(s.block)));
    if (s.layer != 0) fmt::format_to(out, " layer={}", s.layer);
    if (s.microbatch != 0) fmt::format_to(out, " microbatch={}", s.microbatch);
    if (s.repeat != 1) fmt::format_to(out, " repeat={}", s.repeat);
    if (s.layer_step != 1) fmt::format_to(out, " layer_step={}", s.layer_step);
    if (s.receives_ahead != 0) fmt::format_to(out, " receives_ahead={}", s.receives_ahead);
    *out++ = '\n';
  }
}

std::string Writer::program() {
  std::string text;
  Out out(text);
  fmt::format_to(out, "orrery-program {}\nmesh", program_text_version);
  for (const MeshAxis& a : program_.mesh.axes) fmt::format_to(out, " {}={}", name_of(a.axis), a.size);
  fmt::format_to(out, "\nlayers {}\nmicrobatches {}\nclasses {}\n", program_.layers, program_.microbatches,
                 program_.class_axes.empty() ? "none" : axes_text(program_.class_axes, "*"));
  for (const ParameterTable& t : program_.parameter_tables) table(out, t);
  for (const Rotation& r : program_.rotations) {
    fmt::format_to(out, "rotation {} [{}]\n", r.scale, fmt::join(r.frequencies, ", "));
  }
  for (const Buffer& b : program_.buffers) declaration(out, b);
  for (const Group& g : program_.groups) fmt::format_to(out, "group {}\n", group_text(g));
  for (const Block& b : program_.blocks) block(out, b);
  for (std::size_t i = 0; i < program_.classes.size(); ++i) {
    fmt::format_to(out, "class {}\n", i);
    slots(out, "setup", program_.classes[i].setup);
    slots(out, "step", program_.classes[i].step);
  }
  return text;
}

}  // namespace

std::string write_program(const Program& program) { return Writer(program).program(); }

std::vector<std::string> op_texts(const Program& program, const Block& block, std::span<const Op> ops) {
  const Writer writer(program);
  std::vector<std::string> texts;
  texts.reserve(ops.size());
  for (const Op& op : ops) {
    // The kernel is declared inside the op, because the op's own kernel is the next one to declare.
    const auto* compute = std::get_if<Compute>(&op.action);
    std::uint32_t seen = compute != nullptr ? compute->kernel : 0;
    texts.push_back(writer.op(block, op, seen));
  }
  return texts;
}

std::string op_text(const Program& program, const Block& block, const Op& op) {
  return op_texts(program, block, {&op, 1}).front();
}

std::string write_rank(const Program& program, Rank rank) {
  const Writer writer(program);
  std::string text;
  const Out out(text);
  const std::uint32_t rank_class = class_of(program, rank);
  fmt::format_to(out, "rank {} (class {})\n", index(rank), rank_class);
  const auto list = [&](const std::vector<Slot>& slots, bool numbered) {
    std::uint32_t run = ~0U;
    for_each_op(program, slots, [&](const OpRun& r) {
      if (r.block_run != run) {
        run = r.block_run;
        fmt::format_to(out, "  {} layer {} microbatch {}\n", name_text(r.block->name), r.layer, r.microbatch);
      }
      const auto* compute = std::get_if<Compute>(&r.op->action);
      std::uint32_t seen = compute != nullptr ? compute->kernel : 0;
      fmt::format_to(out, "{:>6} {:>4}: {}\n", numbered ? fmt::format("{}", index(r.id)) : std::string(), r.op_index,
                     writer.op(*r.block, *r.op, seen));
    });
  };
  text += " setup\n";
  list(program.classes[rank_class].setup, false);
  text += " step\n";
  list(program.classes[rank_class].step, true);
  return text;
}

}  // namespace orrery
