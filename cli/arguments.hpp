#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// Whole numbers that an option accepts. The bounds are only named where something else was given; the verb itself
/// checks numbers.
struct Bounds {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
};

/// The arguments of one verb, as it declares them.  Keeps the command-line
/// library in one source file.  Values are stored when the command line is
/// parsed, so the targets must outlive that.
class Command {
 public:
  virtual ~Command() = default;
  virtual Command& positional(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& positional(const std::string& name, std::optional<std::string>& into, const std::string& help) = 0;
  /// One or more.
  virtual Command& positional(const std::string& name, std::vector<std::string>& into, const std::string& help) = 0;
  /// Any number, or none.
  virtual Command& positionals(const std::string& name, std::vector<std::string>& into, const std::string& help) = 0;
  virtual Command& required(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& required(const std::string& name, std::uint64_t& into, const std::string& help, Bounds) = 0;
  virtual Command& option(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::optional<std::string>& into, const std::string& help) = 0;
  /// May be given several times.
  virtual Command& option(const std::string& name, std::vector<std::string>& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::uint64_t& into, const std::string& help, Bounds = {}) = 0;
  virtual Command& option(const std::string& name, std::uint32_t& into, const std::string& help, Bounds = {}) = 0;
  virtual Command& option(const std::string& name, std::optional<std::uint32_t>& into, const std::string& help,
                          Bounds = {}) = 0;
  virtual Command& option(const std::string& name, double& into, const std::string& help) = 0;
  virtual Command& choice(const std::string& name, std::string& into, const std::vector<std::string>& names,
                          const std::string& help) = 0;
  virtual Command& flag(const std::string& name, bool& into, const std::string& help) = 0;
  /// The options that follow stand under this title in --help; an empty one goes back to the usual.
  virtual Command& group(const std::string& title) = 0;
  /// Sets the examples at the end of --help.
  virtual Command& examples(const std::string& text) = 0;
};

/// One verb of the program.
class Verb {
 public:
  virtual ~Verb() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  [[nodiscard]] virtual const char* summary() const = 0;
  virtual void declare(Command&) = 0;
  /// Does the work and returns the exit status (cli/status.hpp).
  virtual int run() = 0;
};

/// Parses the command line and runs the verb it names.  Help goes to standard
/// output with status 0.  Throws InputError (codes cli.verb and cli.arguments)
/// for a wrong command line.
int dispatch(int count, const char* const* values, const std::vector<std::unique_ptr<Verb>>& verbs);

/// Whether the command line asks for JSON, for answers given before or after
/// the verb: a wrong command line is answered in JSON too.
[[nodiscard]] bool wants_json(int count, const char* const* values);

}  // namespace orrery
