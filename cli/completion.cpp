#include <fmt/format.h>

#include "cli/common.hpp"
#include "cli/status.hpp"
#include "cli/verb_description.hpp"
#include "cli/verbs.hpp"

namespace orrery {
namespace {

class CompletionVerb final : public Verb {
 public:
  const char* name() const override { return "completion"; }
  const char* summary() const override {
    return "print what completes verbs and flags in a shell, made from the flags";
  }

  void declare(Command& c) override {
    c.positional("SHELL", shell_, "bash, zsh or fish");
    declare_output(c, flags_, "write the script here");
    c.examples(
        "  source <(orrery completion bash)\n"
        "  orrery completion zsh -o ~/.zfunc/_orrery\n"
        "  orrery completion fish -o ~/.config/fish/completions/orrery.fish");
  }

  int run() override {
    if (shell_ != "bash" && shell_ != "zsh" && shell_ != "fish") {
      refuse("cli.arguments", fmt::format("there is no completion for \"{}\"", shell_), {"Known: bash, zsh, fish."});
    }
    write_or_print(flags_, completion_script(describe_verbs(all_verbs()), shell_));
    return status_fine;
  }

 private:
  CommonFlags flags_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> completion_verb() { return std::make_unique<CompletionVerb>(); }

}  // namespace orrery
