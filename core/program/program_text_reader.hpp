#pragma once

#include <fmt/format.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "core/program/program_text_scan.hpp"

namespace orrery::program_text {

inline constexpr std::uint32_t any_u32 = std::numeric_limits<std::uint32_t>::max();

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

/// Reads line by line into a Program; a mistake in one line does not make later ones wrong.
class Reader {
 public:
  std::optional<Program> read(std::string_view text, const std::string& file, Diagnostics& diagnostics);

 private:
  void line(Line& line);
  void mesh(Line& line);
  void table(Line& line);
  void slice(Line& line);
  void segment(Line& line);
  void rotation(Line& line);
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

}  // namespace orrery::program_text
