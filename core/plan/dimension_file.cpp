#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/dimension.hpp"

// Reads and writes the rows that have no reader or writer of their own, by their kinds.

namespace orrery {
namespace {

/// Returns 1 where the value may be open, because the first name then is "auto".
std::size_t open(const Dimension& d) { return is_named(d) && d.names.front() == "auto" ? 1 : 0; }
std::uint64_t open_share(const Dimension& d) { return d.names.size() - 1; }

void read(const Dimension& d, TomlTable& table, PlannedRun& run) {
  const std::string_view key = d.word();
  std::string ignored;
  const auto set = [&](std::uint64_t value) { static_cast<void>(d.put(run, value, ignored)); };
  if (open(d) == 1 && table.read_auto(key)) return set(0);
  switch (d.kind) {
    case DimensionKind::axis:
    case DimensionKind::count: {
      std::uint64_t value = 0;
      if (table.read(key, value, {d.least, d.most}, Need::optional)) set(value);
      return;
    }
    case DimensionKind::choice: {
      const auto first = d.names.begin() + static_cast<std::ptrdiff_t>(open(d));
      std::size_t value = 0;
      if (table.read_choice(key, {first, d.names.end()}, value, Need::optional)) set(open(d) + value);
      return;
    }
    case DimensionKind::toggle: {
      bool value = false;
      if (table.read(key, value, Need::optional)) set(open(d) + (value ? 1 : 0));
      return;
    }
    case DimensionKind::share: {
      std::uint64_t value = 0;
      if (table.read_auto(key)) return set(open_share(d));
      if (table.read(key, value, {0, open_share(d) - 1}, Need::optional)) set(value);
      return;
    }
    case DimensionKind::written: return;  // has a way of its own
  }
}

void write(const Dimension& d, TomlWriter& out, const PlannedRun& run) {
  const std::uint64_t value = d.get(run);
  if (d.said == Said::unless_default && value == d.usual) return;
  if (d.write != nullptr) return d.write(d, out, run);
  if (open(d) == 1 && value == 0) {
    out.text(d.word(), "auto");
    return;
  }
  switch (d.kind) {
    case DimensionKind::axis:
    case DimensionKind::count: out.whole(d.word(), value); return;
    case DimensionKind::choice: out.text(d.word(), d.names[value]); return;
    case DimensionKind::toggle: out.flag(d.word(), value > open(d)); return;
    case DimensionKind::share: value == open_share(d) ? out.text(d.word(), "auto") : out.whole(d.word(), value); return;
    case DimensionKind::written: return;
  }
}

}  // namespace

void read_dimensions(TomlTable& table, std::string_view of, const std::filesystem::path& folder, PlannedRun& run,
                     Dimensions rows) {
  for (const Dimension& d : rows) {
    if (d.table() != of) continue;
    for (const std::string_view alias : d.aliases) table.also(d.word(), alias);
    d.read != nullptr ? d.read(d, table, folder, run) : read(d, table, run);
  }
}

void write_dimensions(TomlWriter& out, std::string_view of, const PlannedRun& run, Dimensions rows) {
  for (const Dimension& d : rows) {
    if (d.table() != of || (d.said == Said::where_it_applies && !applies(d, run))) continue;
    write(d, out, run);
  }
}

}  // namespace orrery
