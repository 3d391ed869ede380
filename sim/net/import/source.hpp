#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sim/net/import/import.hpp"

namespace orrery::importing {

/// A text that is imported, and the place for its mistakes and notes.
class Source {
 public:
  Source(std::string text, std::string file, Diagnostics& d)
      : origin_{std::move(file), std::move(text), {}}, diagnostics_(d), before_(d.size()) {}

  [[nodiscard]] const std::string& text() const { return origin_.text; }
  [[nodiscard]] bool clean() const { return diagnostics_.size() == before_; }
  /// Where a byte of the text stands.
  [[nodiscard]] Position at(std::size_t offset) const;
  void error(Position, std::string code, std::string message, std::vector<std::string> details = {});
  /// Adds a note; each one is kept once, in the order of first calls.
  void note(std::string text);
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  Origin origin_;
  Diagnostics& diagnostics_;
  std::size_t before_;
  std::vector<std::string> notes_;
};

/// The part of a text in the file that a message shows: its first 80 bytes.
[[nodiscard]] inline std::string brief(std::string_view text) { return std::string(text.substr(0, 80)); }

/// A name as a fabric's wires have it: characters other than visible ASCII become "_".
[[nodiscard]] std::string wire_name(std::string text);

/// Whether wires lead from each end to each other end, the first `ends` of the names; a mistake where not.
[[nodiscard]] bool ends_are_joined(Source&, Position, std::uint32_t ends, const std::vector<std::string>& names,
                                   const std::vector<Wire>&);

/// Lines of a text with their numbers, from 1.
struct TextLine {
  std::uint32_t number = 0;
  std::string_view text;
};
[[nodiscard]] std::vector<TextLine> lines_of(std::string_view text);

// Latencies that no file states: nominal ones, for one link.
inline constexpr Seconds nvlink_latency = Seconds::of(500e-9);
inline constexpr Seconds pcie_latency = Seconds::of(200e-9);
inline constexpr Seconds socket_latency = Seconds::of(300e-9);
inline constexpr Seconds network_latency = Seconds::of(500e-9);

/// The readers, one file each.
[[nodiscard]] std::optional<FabricSpec> read_nccl_topology(Source&, const ImportOptions&);
[[nodiscard]] std::optional<FabricSpec> read_smi_topology(Source&, const ImportOptions&);
[[nodiscard]] std::optional<FabricSpec> read_slurm_topology(Source&, const ImportOptions&);
[[nodiscard]] std::optional<FabricSpec> read_astra_network(Source&, const ImportOptions&);
[[nodiscard]] std::optional<FabricSpec> read_dot_graph(Source&, const ImportOptions&);
[[nodiscard]] std::optional<FabricSpec> read_simai_topology(Source&, const ImportOptions&);
/// Whether a text begins as such a file: five whole numbers and the name of a GPU.
[[nodiscard]] bool is_simai_topology(std::string_view text);

}  // namespace orrery::importing
