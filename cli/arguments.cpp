#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>

#include "cli/status.hpp"
#include "core/base/nearest.hpp"

namespace orrery {
namespace {

/// A whole number, strictly: no sign, no fraction, nothing behind it.
template <class T>
T whole(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) {
    throw CLI::ValidationError(
        name, "\"" + text + "\" is not a whole number from 0 to " + std::to_string(std::numeric_limits<T>::max()));
  }
  return value;
}

class AppCommand final : public Command {
 public:
  explicit AppCommand(CLI::App& app) : app_(app) {}

  Command& positional(const std::string& name, std::string& into, const std::string& help) override {
    app_.add_option(name, into, help)->required();
    return *this;
  }
  Command& positional(const std::string& name, std::optional<std::string>& into, const std::string& help) override {
    app_.add_option(name, into, help);
    return *this;
  }
  Command& required(const std::string& name, std::string& into, const std::string& help) override {
    app_.add_option(name, into, help)->required();
    return *this;
  }
  Command& required(const std::string& name, std::uint64_t& into, const std::string& help) override {
    number(name, into, help)->required();
    return *this;
  }
  Command& option(const std::string& name, std::string& into, const std::string& help) override {
    app_.add_option(name, into, help)->capture_default_str();
    return *this;
  }
  Command& option(const std::string& name, std::optional<std::string>& into, const std::string& help) override {
    app_.add_option(name, into, help);
    return *this;
  }
  Command& option(const std::string& name, std::uint64_t& into, const std::string& help) override {
    number(name, into, help)->default_str(std::to_string(into));
    return *this;
  }
  Command& option(const std::string& name, std::uint32_t& into, const std::string& help) override {
    number(name, into, help)->default_str(std::to_string(into));
    return *this;
  }
  Command& option(const std::string& name, std::optional<std::uint32_t>& into, const std::string& help) override {
    number(name, into, help);
    return *this;
  }
  Command& option(const std::string& name, double& into, const std::string& help) override {
    app_.add_option(name, into, help)->capture_default_str();
    return *this;
  }
  Command& choice(const std::string& name, std::string& into, const std::vector<std::string>& names,
                  const std::string& help) override {
    app_.add_option(name, into, help)->check(CLI::IsMember(names))->capture_default_str();
    return *this;
  }
  Command& flag(const std::string& name, bool& into, const std::string& help) override {
    app_.add_flag(name, into, help);
    return *this;
  }
  Command& examples(const std::string& text) override {
    app_.footer("\nExamples:\n" + text);
    return *this;
  }

 private:
  template <class T>
  struct Inner {
    using type = T;
  };
  template <class T>
  struct Inner<std::optional<T>> {
    using type = T;
  };
  template <class T>
  CLI::Option* number(const std::string& name, T& into, const std::string& help) {
    const auto store = [name, &into](const std::string& text) { into = whole<typename Inner<T>::type>(name, text); };
    return app_.add_option_function<std::string>(name, store, help)->type_name("N");
  }

  CLI::App& app_;
};

}  // namespace

int dispatch(int count, const char* const* values, const std::vector<std::unique_ptr<Verb>>& verbs) {
  CLI::App app{"orrery plans parallel training, predicts its time and memory, runs the same plan and compares.",
               "orrery"};
  app.set_version_flag("--version", "orrery " ORRERY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "\norrery VERB --help explains a verb, with examples.\n"
      "Exit status: 0 fine; 1 the answer is no; 2 the input is wrong; 3 the world failed.");
  std::vector<CLI::App*> subcommands;
  for (const std::unique_ptr<Verb>& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
    AppCommand command(*sub);
    verb->declare(command);
    subcommands.push_back(sub);
  }
  if (count > 1 && values[1][0] != '-') {
    std::vector<std::string> names;
    for (const std::unique_ptr<Verb>& verb : verbs) names.emplace_back(verb->name());
    if (std::find(names.begin(), names.end(), values[1]) == names.end()) {
      std::string known;
      const std::vector<std::string> near = nearest(values[1], names, 2);
      for (const std::string& n : near.empty() ? names : near) known += (known.empty() ? "" : ", ") + n;
      std::fprintf(stderr, "error: orrery has no verb \"%s\" [cli.verb]\n  %s: %s.\n", values[1],
                   near.empty() ? "Known" : "Nearest", known.c_str());
      return status_input;
    }
  }
  try {
    app.parse(count, values);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& wrong) {
    std::string verb = "orrery";
    for (const CLI::App* sub : app.get_subcommands()) verb += " " + sub->get_name();
    std::fprintf(stderr, "error: %s [cli.arguments]\n  %s --help lists what is accepted.\n", wrong.what(),
                 verb.c_str());
    return status_input;
  }
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (subcommands[i]->parsed()) return verbs[i]->run();
  }
  return status_input;
}

}  // namespace orrery
