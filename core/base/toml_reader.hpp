#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"

namespace orrery {

/// Strict reading of the TOML files that people write.
///
/// A file is parsed once; its tables then hand out typed values.  Every getter
/// has the same form: `table.read("layers", into, {1, 10000})` stores the value
/// and returns true, or leaves `into` alone and returns false.  A missing
/// required key, a value of the wrong type, out of range or not a number adds a
/// diagnostic that points at it.  `finish()` reports the keys that nobody asked
/// for, with the nearest known one.  Any bytes whatsoever give diagnostics, not
/// a crash.
///
/// Codes: file.open  file.syntax  file.schema  file.unknown-key
/// file.missing-key  file.type  file.range  file.unit  file.choice

enum class Need : std::uint8_t { required, optional };

/// Allowed values run from `least` to `most`; an end that is marked open is itself not allowed.
template <class T>
struct Limits {
  T least;
  T most;
  bool least_open = false;
  bool most_open = false;

  /// False for a value that is not a number.
  [[nodiscard]] constexpr bool contain(const T& value) const {
    return (least_open ? value > least : value >= least) && (most_open ? value < most : value <= most);
  }
};

struct TomlNode;  // one parsed value
struct TomlDocument;

/// One table of a file.  It remembers which keys were read, so pass it by
/// reference.
class TomlTable {
 public:
  TomlTable(std::shared_ptr<const TomlDocument> document, const TomlNode* node, std::string path,
            Diagnostics& diagnostics);

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_text(std::string_view key) const;  ///< present, and in quotes
  /// The whole number at a key, when one stands there (the key does not count as read).
  [[nodiscard]] std::optional<std::int64_t> peek_whole(std::string_view key) const;
  /// `shorthand` stands for `key` in files ("tp" for "tensor"): a value under the shorthand is read as the key's. Both
  /// in one table are a mistake (file.twice).
  void also(std::string_view key, std::string_view shorthand);
  /// Keys in the order of the file.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Dotted path of a key of this table, as in Origin::positions: "plan.mesh", "cluster.level.0.size".
  [[nodiscard]] std::string path(std::string_view key) const;
  /// The file with the positions of all its values.
  [[nodiscard]] const Origin& origin() const;
  [[nodiscard]] Diagnostics& diagnostics() { return *diagnostics_; }

  // Readers of values. Lengths of texts are bounded by `most` bytes.
  bool read(std::string_view key, std::string& into, Need = Need::required, std::size_t most = 4096);
  bool read(std::string_view key, bool& into, Need = Need::required);
  bool read(std::string_view key, std::uint64_t& into, Limits<std::uint64_t>, Need = Need::required);
  bool read(std::string_view key, std::uint32_t& into, Limits<std::uint32_t>, Need = Need::required);
  /// Finite numbers, written as float or integer.
  bool read(std::string_view key, double& into, Limits<double>, Need = Need::required);
  /// Quantities are texts with a unit: "80 GiB", "400 Gbit/s", "5 us".
  bool read(std::string_view key, Bytes& into, Limits<Bytes>, Need = Need::required);
  bool read(std::string_view key, Bandwidth& into, Limits<Bandwidth>, Need = Need::required);
  bool read(std::string_view key, Seconds& into, Limits<Seconds>, Need = Need::required);
  bool read(std::string_view key, FlopRate& into, Limits<FlopRate>, Need = Need::required);
  /// Arrays.
  bool read(std::string_view key, std::vector<std::uint32_t>& into, Limits<std::uint32_t> each, std::size_t most,
            Need = Need::required);
  bool read(std::string_view key, std::vector<double>& into, Limits<double> each, std::size_t most,
            Need = Need::required);
  bool read(std::string_view key, std::vector<std::string>& into, std::size_t most, Need = Need::required);

  /// One of a few names; stores its position in `names`.
  bool read_choice(std::string_view key, const std::vector<std::string_view>& names, std::size_t& into,
                   Need = Need::required);
  /// The same for an enumeration whose enumerators have the names in order, from 0.
  template <class E>
  bool read_enum(std::string_view key, const std::vector<std::string_view>& names, E& into,
                 Need need = Need::required) {
    std::size_t at = 0;
    if (!read_choice(key, names, at, need)) return false;
    into = static_cast<E>(at);
    return true;
  }
  /// Whether the key stands there with the text "auto" (the key then counts as read).
  bool read_auto(std::string_view key);

  /// A table inside this one.
  std::optional<TomlTable> table(std::string_view key, Need = Need::required);
  /// An array of tables ([[levels]]); empty when absent.
  std::vector<TomlTable> tables(std::string_view key, std::size_t most, Need = Need::required);

  /// A mistake at a key of this table (at the table itself when the key is absent).
  void error(std::string_view key, std::string code, std::string message, std::vector<std::string> details = {});
  /// Takes over what was found in a file that the value of `key` names (Diagnostics::add_from).
  void add_from(std::string_view key, const Diagnostics& found);
  /// Reports every key that was never asked for.
  void finish();

 private:
  const TomlNode* find(std::string_view key, Need);
  const TomlNode* peek(std::string_view key) const;
  [[nodiscard]] std::string_view as_written(std::string_view key) const;
  void wrong_type(std::string_view key, std::string_view wanted, const TomlNode&);
  void out_of_range(std::string_view key, const std::string& value, const std::string& allowed);
  void too_many(std::string_view key, std::size_t count, std::size_t most);
  template <class Q>
  bool read_quantity(std::string_view key, Q& into, Limits<Q>, Need);

  std::shared_ptr<const TomlDocument> document_;
  const TomlNode* node_;
  std::string path_;
  Diagnostics* diagnostics_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> shorthands_;  ///< that the file has, with their keys
};

/// Parses TOML.  `file` is only the name shown in messages.  Empty after a
/// syntax error, which is in `diagnostics`.
[[nodiscard]] std::optional<TomlTable> parse_toml(std::string text, std::string file, Diagnostics& diagnostics);

/// Reads and parses a file; one that cannot be read is a diagnostic (file.open).
[[nodiscard]] std::optional<TomlTable> open_toml(const std::filesystem::path& file, Diagnostics& diagnostics);

/// The text of a file of at most `most` bytes; otherwise a diagnostic (file.open).
[[nodiscard]] std::optional<std::string> read_text(const std::filesystem::path& file, Diagnostics& diagnostics,
                                                   std::size_t most = std::size_t{16} << 20);

/// Reads the top-level `schema` key and refuses versions other than 1..newest. `what` names the kind of file in the
/// message. A key that looks like a misspelt `schema` counts as it, so that the rest of the file is still read;
/// finish() of `root` then reports the misspelling.
bool read_schema(TomlTable& root, std::string_view what, std::uint64_t newest);

}  // namespace orrery
