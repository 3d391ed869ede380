#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

#include "cli/status.hpp"

namespace orrery {
namespace {

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
    app_.add_option(name, into, help)->required();
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
    app_.add_option(name, into, help)->capture_default_str();
    return *this;
  }
  Command& option(const std::string& name, std::uint32_t& into, const std::string& help) override {
    app_.add_option(name, into, help)->capture_default_str();
    return *this;
  }
  Command& option(const std::string& name, std::optional<std::uint32_t>& into, const std::string& help) override {
    app_.add_option(name, into, help);
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
  CLI::App& app_;
};

}  // namespace

int dispatch(int count, const char* const* values, const std::vector<std::unique_ptr<Verb>>& verbs) {
  CLI::App app{"orrery plans parallel training, predicts its time and memory, runs the same plan and compares.",
               "orrery"};
  app.set_version_flag("--version", "orrery " ORRERY_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer("\norrery VERB --help explains a verb, with examples.\n"
             "Exit status: 0 fine; 1 the answer is no; 2 the input is wrong; 3 the world failed.");
  std::vector<CLI::App*> subcommands;
  for (const std::unique_ptr<Verb>& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
    AppCommand command(*sub);
    verb->declare(command);
    subcommands.push_back(sub);
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
    std::fprintf(stderr, "error: %s [cli.arguments]\n  %s --help lists what is accepted.\n", wrong.what(), verb.c_str());
    return status_input;
  }
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (subcommands[i]->parsed()) return verbs[i]->run();
  }
  return status_input;
}

}  // namespace orrery
