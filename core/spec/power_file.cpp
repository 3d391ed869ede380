#include <fmt/format.h>

#include <algorithm>

#include "core/base/toml_reader.hpp"
#include "core/spec/power_spec.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

constexpr Limits<double> watts{0.0, 1e6, true};
constexpr std::size_t most_rows = 1000;

/// Key, and keys for its source and basis: idle_w, idle_source, idle_basis. Rows without their own take the row's.
bool read_figure(TomlTable& row, const std::string& key, const std::string& stem, const Limits<double>& limits,
                 KnownFigure<double>& into, Need need) {
  SourcedFigure<double> f;
  const std::string source = row.has(stem + "_source") ? stem + "_source" : "source";
  const std::string basis = row.has(stem + "_basis") ? stem + "_basis" : "basis";
  if (!row.read(key, f.value, limits, need)) return false;
  row.read(source, f.source);
  if (row.has(basis)) row.read_enum(basis, figure_basis_names(), f.basis);
  into = std::move(f);
  return true;
}

std::optional<PowerTable> read_table(std::optional<TomlTable> root) {
  if (!root || !read_schema(*root, "power", spec_schema)) return std::nullopt;
  const std::size_t before = root->diagnostics().size();
  PowerTable out;
  for (TomlTable& row : root->tables("devices", most_rows, Need::optional)) {
    DevicePower p;
    row.read("name", p.device, Need::required, 200);
    read_figure(row, "busy_w", "busy", watts, p.busy_w, Need::required);
    read_figure(row, "idle_w", "idle", watts, p.idle_w, Need::optional);
    read_figure(row, "waiting_w", "waiting", watts, p.waiting_w, Need::optional);
    if (out.of(p.device) != nullptr) {
      row.error("name", "power.twice", fmt::format("{} stands twice", p.device),
                {"One row says all of a device's power."});
    }
    row.finish();
    out.devices.push_back(std::move(p));
  }
  for (TomlTable& row : root->tables("links", most_rows, Need::optional)) {
    LinkEnergy l;
    KnownFigure<double> energy;
    row.read("name", l.link, Need::required, 200);
    if (read_figure(row, "pj_per_byte", "energy", {0.0, 1e9, true}, energy, Need::required)) l.pj_per_byte = *energy;
    row.finish();
    out.links.push_back(std::move(l));
  }
  if (std::optional<TomlTable> waiting = root->table("waiting", Need::optional)) {
    read_figure(*waiting, "share", "share", {0.0, 1.0}, out.waiting_share, Need::required);
    waiting->finish();
  }
  root->finish();
  return root->diagnostics().size() == before ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

const DevicePower* PowerTable::of(const std::string& device) const {
  const auto at =
      std::find_if(devices.begin(), devices.end(), [&](const DevicePower& p) { return p.device == device; });
  return at == devices.end() ? nullptr : &*at;
}

const LinkEnergy* PowerTable::over(const std::string& link) const {
  const auto at = std::find_if(links.begin(), links.end(), [&](const LinkEnergy& l) { return l.link == link; });
  return at == links.end() ? nullptr : &*at;
}

std::optional<PowerTable> parse_power(std::string text, std::string name, Diagnostics& d) {
  return read_table(parse_toml(std::move(text), std::move(name), d));
}

std::optional<PowerTable> power_table(const Library& library, const std::optional<std::string>& path, Diagnostics& d) {
  return read_table(open_toml(path ? std::filesystem::path(*path) : library.directory() / "power.toml", d));
}

}  // namespace orrery
