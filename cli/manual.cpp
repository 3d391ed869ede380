#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/common.hpp"
#include "cli/job.hpp"
#include "cli/status.hpp"
#include "cli/verb_description.hpp"
#include "cli/verbs.hpp"
#include "core/base/nearest.hpp"

namespace orrery {
namespace {

class ManualVerb final : public Verb {
 public:
  const char* name() const override { return "manual"; }
  const char* summary() const override { return "print a manual page, made from the flags"; }

  void declare(Command& c) override {
    c.positional("VERB", verb_, "a verb; without it, the page of the program");
    c.option("--folder", folder_, "write the pages of all verbs into this folder");
    declare_output(c, flags_, "write the page here");
    c.examples(
        "  orrery manual sweep | man -l -\n"
        "  orrery manual --folder ~/.local/share/man/man1");
  }

  int run() override {
    const std::vector<VerbDescription> verbs = describe_verbs(all_verbs());
    if (folder_) {
      std::error_code failure;
      if (!std::filesystem::is_directory(*folder_, failure)) {
        refuse("cli.output", fmt::format("--folder {} is not a folder", *folder_));
      }
      const std::filesystem::path folder(*folder_);
      write_file(folder / "orrery.1", manual_page(verbs, "", orrery_version()));
      for (const VerbDescription& v : verbs) {
        write_file(folder / fmt::format("orrery-{}.1", v.name), manual_page(verbs, v.name, orrery_version()));
      }
      return status_fine;
    }
    const std::string text = manual_page(verbs, verb_.value_or(""), orrery_version());
    if (text.empty()) {
      std::vector<std::string> names;
      for (const VerbDescription& v : verbs) names.push_back(v.name);
      const std::vector<std::string> near = nearest(*verb_, names, 2);
      refuse("cli.verb", fmt::format("orrery has no verb \"{}\"", *verb_),
             {near.empty() ? "orrery --help lists them." : fmt::format("Nearest: {}.", near.front())});
    }
    write_or_print(flags_, text);
    return status_fine;
  }

 private:
  CommonFlags flags_;
  std::optional<std::string> verb_, folder_;
};

}  // namespace

std::unique_ptr<Verb> manual_verb() { return std::make_unique<ManualVerb>(); }

}  // namespace orrery
