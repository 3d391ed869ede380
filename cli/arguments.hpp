#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

/// The arguments of one verb, as it declares them.  Keeps the command-line
/// library in one source file.  Values are stored when the command line is
/// parsed, so the targets must outlive that.
class Command {
 public:
  virtual ~Command() = default;
  virtual Command& positional(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& positional(const std::string& name, std::optional<std::string>& into, const std::string& help) = 0;
  virtual Command& required(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& required(const std::string& name, std::uint64_t& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::string& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::optional<std::string>& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::uint64_t& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::uint32_t& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, std::optional<std::uint32_t>& into, const std::string& help) = 0;
  virtual Command& option(const std::string& name, double& into, const std::string& help) = 0;
  virtual Command& choice(const std::string& name, std::string& into, const std::vector<std::string>& names,
                          const std::string& help) = 0;
  virtual Command& flag(const std::string& name, bool& into, const std::string& help) = 0;
  /// Printed at the end of --help.
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
/// output with status 0; a wrong command line to standard error with status 2.
int dispatch(int count, const char* const* values, const std::vector<std::unique_ptr<Verb>>& verbs);

}  // namespace orrery
