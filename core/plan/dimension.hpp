#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"

// The dimensions of a run. One row of this table holds all that the program knows about one thing that a plan can
// decide. The reader and the writer of plan files, the moves of a plan (planner/follow.hpp), the window and the lessons
// walk over the rows and know no row by name. Combinations that are not allowed are refused by check() alone.

namespace orrery {

class TomlTable;
class TomlWriter;

enum class DimensionKind : std::uint8_t {
  axis,     ///< the size of a mesh axis: a factor of the number of devices
  count,    ///< a whole number
  choice,   ///< one of `names`, by its place
  toggle,   ///< off or on, and "auto" where `names` begins with it
  share,    ///< eighths of each stage's layers, and 9 for "auto"
  written,  ///< as a file says it (1) or as it is by default (0)
};
/// The title under which a person looks for the dimension.
enum class DimensionGroup : std::uint8_t { workload, mesh, plan, memory, communication };
/// When a plan file that Orrery writes names the key.
enum class Said : std::uint8_t { always, where_it_applies, unless_default };

/// One row. Values are whole numbers: for a choice the place in `names`; for a choice that may be open, 0 is "auto".
struct Dimension {
  std::string_view key = "";                   ///< "plan.zero_stage"
  std::vector<std::string_view> aliases = {};  ///< other words for the last word of the key in files: "mbs"
  DimensionGroup group = DimensionGroup::plan;
  DimensionKind kind = DimensionKind::count;
  const char* label = nullptr;               ///< "ZeRO stage"; null where nobody turns it
  const char* help = "";                     ///< one sentence
  std::vector<std::string_view> names = {};  ///< of a choice, a toggle or a share
  std::uint64_t least = 0, most = 0;         ///< of other kinds
  std::uint64_t usual = 0;                   ///< the default
  std::uint64_t (*get)(const PlannedRun&) = nullptr;
  /// Puts a value in place, but nothing that follows from it; returns false, with the reason, where the value means
  /// nothing. Requires a cluster.
  bool (*put)(PlannedRun&, std::uint64_t, std::string& reason) = nullptr;
  /// Values worth trying, ascending. Null means every value from `least` to `most`, or every name. Requires a cluster.
  std::vector<std::uint64_t> (*values)(const PlannedRun&) = nullptr;
  /// Whether another value can make a difference; null means always. A value that does not apply goes back to its
  /// default, unless files always name it and no rule is broken.
  bool (*applies)(const PlannedRun&) = nullptr;
  /// Whether a change of other values has made this one meaningless (the layers of stages after a change of stages,
  /// say), so that it goes back to the default; null means never.
  bool (*outlived)(const PlannedRun& before, const PlannedRun& after) = nullptr;
  Said said = Said::always;
  /// Reads the value from a file; null means by its kind. `folder` is the folder of the plan file.
  void (*read)(const Dimension&, TomlTable&, const std::filesystem::path& folder, PlannedRun&) = nullptr;
  void (*write)(const Dimension&, TomlWriter&, const PlannedRun&) = nullptr;

  [[nodiscard]] std::string_view table() const;  ///< "plan"; empty for "gpus"
  [[nodiscard]] std::string_view word() const;   ///< "zero_stage"
};
using Dimensions = std::span<const Dimension>;

/// All rows, in the order of plan files.
[[nodiscard]] Dimensions dimensions();
/// The row with this key; null where there is none.
[[nodiscard]] const Dimension* dimension_named(std::string_view key, Dimensions = dimensions());
/// The same where the key is known to be in the table.
[[nodiscard]] const Dimension& dimension(std::string_view key);

/// Whether a word means the dimension: its key, the last word of it, or an alias. A kind goes by what it is the kind
/// of: "optimizer".
[[nodiscard]] bool is_called(const Dimension&, std::string_view word);
/// Whether a person turns this dimension; the other ones follow from it, or stand in files only.
[[nodiscard]] inline bool is_turned(const Dimension& d) { return d.label != nullptr; }
[[nodiscard]] bool applies(const Dimension&, const PlannedRun&);
/// Puts a value in place; returns false, with the reason, where the dimension has no such value.
[[nodiscard]] bool put(PlannedRun&, const Dimension&, std::uint64_t value, std::string& reason);
/// Values worth trying, ascending, the run's own among them.  Requires a cluster.
[[nodiscard]] std::vector<std::uint64_t> values(const Dimension&, const PlannedRun&);
/// Whether its values have names and make a list.
[[nodiscard]] bool is_named(const Dimension&);

/// "8", "1f1b", "auto".
[[nodiscard]] std::string text_of(const Dimension&, std::uint64_t value);
/// Reads back what text_of() gave, or what a file says (true, 8 of eighths); empty, with the reason, where the text is
/// no value.
[[nodiscard]] std::optional<std::uint64_t> value_named(const Dimension&, const std::string& text, std::string& why);

/// Reads the rows of a file's table ("mesh", "plan") into a run, or writes them.
void read_dimensions(TomlTable&, std::string_view table, const std::filesystem::path& folder, PlannedRun&,
                     Dimensions = dimensions());
void write_dimensions(TomlWriter&, std::string_view table, const PlannedRun&, Dimensions = dimensions());

}  // namespace orrery
