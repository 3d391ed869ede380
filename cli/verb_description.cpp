#include "cli/verb_description.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

/// Takes down what a verb declares.
class Describing final : public Command {
 public:
  explicit Describing(VerbDescription& into) : into_(into) {}

  Command& positional(const std::string& name, std::string&, const std::string& help) override {
    return argument({name, help, true, false});
  }
  Command& positional(const std::string& name, std::optional<std::string>&, const std::string& help) override {
    return argument({name, help, false, false});
  }
  Command& positional(const std::string& name, std::vector<std::string>&, const std::string& help) override {
    return argument({name, help, true, true});
  }
  Command& positionals(const std::string& name, std::vector<std::string>&, const std::string& help) override {
    return argument({name, help, false, true});
  }
  Command& required(const std::string& name, std::string&, const std::string& help) override {
    return flag_of(name, help, "TEXT", "", true);
  }
  Command& required(const std::string& name, std::uint64_t&, const std::string& help, Bounds) override {
    return flag_of(name, help, "N", "", true);
  }
  Command& option(const std::string& name, std::string& preset, const std::string& help) override {
    return flag_of(name, help, "TEXT", preset);
  }
  Command& option(const std::string& name, std::optional<std::string>&, const std::string& help) override {
    return flag_of(name, help, "TEXT");
  }
  Command& option(const std::string& name, std::vector<std::string>&, const std::string& help) override {
    return flag_of(name, help, "TEXT");
  }
  Command& option(const std::string& name, std::uint64_t& preset, const std::string& help, Bounds) override {
    return flag_of(name, help, "N", fmt::format("{}", preset));
  }
  Command& option(const std::string& name, std::uint32_t& preset, const std::string& help, Bounds) override {
    return flag_of(name, help, "N", fmt::format("{}", preset));
  }
  Command& option(const std::string& name, std::optional<std::uint32_t>&, const std::string& help, Bounds) override {
    return flag_of(name, help, "N");
  }
  Command& option(const std::string& name, double& preset, const std::string& help) override {
    return flag_of(name, help, "X", fmt::format("{}", preset));
  }
  Command& choice(const std::string& name, std::string& preset, const std::vector<std::string>& names,
                  const std::string& help) override {
    flag_of(name, help, "NAME", preset);
    into_.flags.back().choices = names;
    return *this;
  }
  Command& flag(const std::string& name, bool&, const std::string& help) override { return flag_of(name, help, ""); }
  Command& group(const std::string&) override { return *this; }
  Command& examples(const std::string& text) override {
    into_.examples = text;
    return *this;
  }

 private:
  Command& argument(VerbDescription::Argument argument) {
    into_.arguments.push_back(std::move(argument));
    return *this;
  }
  Command& flag_of(const std::string& names, const std::string& help, const std::string& value,
                   const std::string& preset = "", bool required = false) {
    FlagDescription flag{{}, help, value, {}, preset, required};
    std::size_t at = 0;
    while (at < names.size()) {
      const std::size_t comma = std::min(names.find(',', at), names.size());
      flag.names.push_back(names.substr(at, comma - at));
      at = comma + 1;
    }
    into_.flags.push_back(std::move(flag));
    return *this;
  }

  VerbDescription& into_;
};

}  // namespace

std::vector<VerbDescription> describe_verbs(const std::vector<std::unique_ptr<Verb>>& verbs) {
  std::vector<VerbDescription> out;
  for (const std::unique_ptr<Verb>& verb : verbs) {
    out.push_back({verb->name(), verb->summary(), {}, {}, ""});
    Describing command(out.back());
    verb->declare(command);
  }
  return out;
}

}  // namespace orrery
