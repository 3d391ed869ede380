#include "cli/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include "cli/commit.hpp"
#include "cli/common.hpp"
#include "cli/job.hpp"
#include "cli/status.hpp"
#include "core/base/nearest.hpp"
#include "core/base/whole_number.hpp"
#include "exec/device/cuda_load.hpp"

namespace orrery {
namespace {

/// A mistake in the command line of `app`.
[[noreturn]] void wrong(const CLI::App& app, std::string message, std::vector<std::string> details = {}) {
  const bool verb = app.get_parent() != nullptr;
  details.push_back(fmt::format("orrery {}--help lists what is accepted.", verb ? app.get_name() + " " : ""));
  refuse("cli.arguments", std::move(message), std::move(details));
}

/// A whole number without sign or fraction; "8k" is 8192.
template <class T>
T whole(const CLI::App& app, const std::string& name, const std::string& text, Bounds bounds) {
  const std::optional<std::uint64_t> value = whole_number(text);
  if (!value || *value > std::numeric_limits<T>::max()) {
    wrong(app, fmt::format("{}: \"{}\" is not a whole number from {} to {}", name, text, bounds.least, bounds.most));
  }
  return static_cast<T>(*value);
}

double number_of(const CLI::App& app, const std::string& name, const std::string& text) {
  double value = 0.0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) {
    wrong(app, fmt::format("{}: \"{}\" is not a number", name, text));
  }
  return value;
}

/// The flag that stands in `text`, "--top" for "--top=3", "-o" for "-oFILE"; empty where there is none, as in "-1".
std::string flag_of(const std::string& text) {
  const auto letter = [&](std::size_t at) {
    return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0;
  };
  if (text.starts_with("--")) return letter(2) ? text.substr(0, text.find('=')) : "";
  return text.starts_with('-') && letter(1) ? text.substr(0, 2) : "";
}

/// Refuses a flag that `app` does not have, and names the nearest flag that it has.
[[noreturn]] void refuse_flag(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> known;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  }
  const bool is_long = flag.starts_with("--");
  std::vector<std::string> near = is_long ? nearest(flag, known, 1) : std::vector<std::string>{};
  if (is_long && near.empty()) {
    // The text may be a part of a longer name: "--memory" is one of "--memory-tolerance".
    for (const std::string& k : known) {
      if (k.find(flag.substr(2)) != std::string::npos) near.push_back(k);
    }
  }
  std::vector<std::string> details;
  if (!near.empty()) details.push_back(fmt::format("Did you mean {}?", near.front()));
  wrong(app,
        fmt::format("{} has no flag {}", app.get_parent() == nullptr ? "orrery" : "orrery " + app.get_name(), flag),
        std::move(details));
}

/// The option of `app` that `flag` names; null where it has none.
const CLI::Option* option_of(const CLI::App& app, const std::string& flag) {
  for (const CLI::Option* o : app.get_options()) {
    if (!o->get_positional() && o->check_name(flag)) return o;
  }
  return nullptr;
}

/// Reports mistakes for which the parser has words of its own: unknown flags, flags that stand twice or lack their
/// value, and too many arguments.
void check_words(const CLI::App& app, int count, const char* const* values) {
  std::set<const CLI::Option*> given;
  std::vector<std::string> positionals;
  bool flags_end = false;
  for (int i = 2; i < count; ++i) {
    const std::string text = values[i];
    const std::string flag = flags_end ? "" : flag_of(text);
    if (text == "--" && !flags_end) {
      flags_end = true;
    } else if (flag.empty()) {
      positionals.push_back(text);
    } else {
      const CLI::Option* o = option_of(app, flag);
      if (o == nullptr) refuse_flag(app, flag);
      const bool takes_value = o->get_items_expected_max() > 0;
      if (!takes_value && text != flag) {
        wrong(app, fmt::format("{} takes no value, but \"{}\" was given", flag,
                               text.substr(flag.size() + (text[flag.size()] == '='))));
      }
      if (!takes_value) continue;
      const bool repeats = o->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
      if (!given.insert(o).second && !repeats) wrong(app, fmt::format("{} is given twice", flag));
      if (text != flag) continue;  // --top=3, -oFILE
      if (i + 1 == count || option_of(app, flag_of(values[i + 1])) != nullptr) {
        wrong(app, fmt::format("{} needs a value", flag));
      }
      ++i;
    }
  }
  std::vector<std::string> names;
  bool any_number = false;
  for (const CLI::Option* o : app.get_options()) {
    if (!o->get_positional()) continue;
    names.push_back(o->get_name(true));
    any_number = any_number || o->get_items_expected_max() > 1;
  }
  if (positionals.size() > names.size() && !any_number) {
    wrong(app, fmt::format("\"{}\" is one argument too many", positionals[names.size()]),
          names.empty() ? std::vector<std::string>{}
                        : std::vector<std::string>{
                              fmt::format("orrery {} takes {}.", app.get_name(), fmt::join(names, " and "))});
  }
}

/// Lists everything that is required and was not given.
[[noreturn]] void refuse_missing(const CLI::App& app) {
  std::vector<std::string> missing;
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_required() && o->count() == 0) missing.push_back(o->get_name(o->get_positional()));
  }
  const std::string last = missing.back();
  missing.pop_back();
  wrong(app, fmt::format("orrery {} needs {}{}{}", app.get_name(), fmt::join(missing, ", "),
                         missing.empty() ? "" : " and ", last));
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
  Command& positional(const std::string& name, std::vector<std::string>& into, const std::string& help) override {
    app_.add_option(name, into, help)->required();
    return *this;
  }
  Command& positionals(const std::string& name, std::vector<std::string>& into, const std::string& help) override {
    app_.add_option(name, into, help);
    return *this;
  }
  Command& required(const std::string& name, std::string& into, const std::string& help) override {
    app_.add_option(name, into, help)->required();
    return *this;
  }
  Command& required(const std::string& name, std::uint64_t& into, const std::string& help, Bounds bounds) override {
    number(name, into, help, bounds)->required();
    return *this;
  }
  Command& option(const std::string& name, std::string& into, const std::string& help) override {
    placed(app_.add_option(name, into, help))->capture_default_str();
    return *this;
  }
  Command& option(const std::string& name, std::optional<std::string>& into, const std::string& help) override {
    placed(app_.add_option(name, into, help));
    return *this;
  }
  Command& option(const std::string& name, std::vector<std::string>& into, const std::string& help) override {
    placed(app_.add_option(name, into, help))->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return *this;
  }
  Command& option(const std::string& name, std::uint64_t& into, const std::string& help, Bounds bounds) override {
    number(name, into, help, bounds)->default_str(std::to_string(into));
    return *this;
  }
  Command& option(const std::string& name, std::uint32_t& into, const std::string& help, Bounds bounds) override {
    number(name, into, help, bounds)->default_str(std::to_string(into));
    return *this;
  }
  Command& option(const std::string& name, std::optional<std::uint32_t>& into, const std::string& help,
                  Bounds bounds) override {
    number(name, into, help, bounds);
    return *this;
  }
  Command& option(const std::string& name, double& into, const std::string& help) override {
    const CLI::App& app = app_;
    const auto store = [&app, name, &into](const std::string& text) { into = number_of(app, name, text); };
    placed(app_.add_option_function<std::string>(name, store, help))
        ->type_name("X")
        ->default_str(fmt::format("{}", into));
    return *this;
  }
  Command& choice(const std::string& name, std::string& into, const std::vector<std::string>& names,
                  const std::string& help) override {
    const CLI::App& app = app_;
    const auto store = [&app, name, &into, names](const std::string& text) {
      if (std::find(names.begin(), names.end(), text) == names.end()) {
        wrong(app, fmt::format("{}: \"{}\" is not known", name, text),
              {fmt::format("Known: {}.", fmt::join(names, ", "))});
      }
      into = text;
    };
    const std::string about = fmt::format("{}{}{}", help, help.empty() ? "" : ": ", fmt::join(names, ", "));
    placed(app_.add_option_function<std::string>(name, store, about))->type_name("NAME")->default_str(into);
    return *this;
  }
  Command& flag(const std::string& name, bool& into, const std::string& help) override {
    placed(app_.add_flag(name, into, help));
    return *this;
  }
  Command& group(const std::string& title) override {
    group_ = title;
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
  CLI::Option* number(const std::string& name, T& into, const std::string& help, Bounds bounds) {
    bounds.most = std::min<std::uint64_t>(bounds.most, std::numeric_limits<typename Inner<T>::type>::max());
    // The application owns it, because this object does not live until the parse.
    const CLI::App& app = app_;
    const auto store = [&app, name, &into, bounds](const std::string& text) {
      into = whole<typename Inner<T>::type>(app, name, text, bounds);
    };
    return placed(app_.add_option_function<std::string>(name, store, help))->type_name("N");
  }

  /// Puts an option under the title of its group.
  CLI::Option* placed(CLI::Option* option) {
    if (!group_.empty()) option->group(group_);
    return option;
  }

  CLI::App& app_;
  std::string group_;
};

}  // namespace

int dispatch(int count, const char* const* values, const std::vector<std::unique_ptr<Verb>>& verbs) {
  CLI::App app{"orrery plans parallel training, predicts its time and memory, runs the same plan and compares.",
               "orrery"};
  app.set_version_flag("--version", [] {
    return fmt::format("orrery {} ({})\nCUDA: {}", ORRERY_VERSION, orrery_commit(), cuda_state(cuda_module()));
  });
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "\norrery VERB --help explains a verb, with examples.\n"
      "Exit status: 0 fine; 1 the answer is no; 2 the input is wrong; 3 a file, a device or a library failed.");
  std::vector<CLI::App*> subcommands;
  for (const std::unique_ptr<Verb>& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
    AppCommand command(*sub);
    verb->declare(command);
    subcommands.push_back(sub);
  }
  if (count > 1 && std::string_view(values[1]) == "help") {
    const auto asked = std::find_if(subcommands.begin(), subcommands.end(),
                                    [&](const CLI::App* sub) { return count > 2 && sub->get_name() == values[2]; });
    print(asked == subcommands.end() ? app.help() : (*asked)->help("orrery"));
    return status_fine;
  }
  if (count > 1 && values[1][0] != '-') {
    std::vector<std::string> names;
    for (const std::unique_ptr<Verb>& verb : verbs) names.emplace_back(verb->name());
    if (std::find(names.begin(), names.end(), values[1]) == names.end()) {
      const std::vector<std::string> near = nearest(values[1], names, 2);
      refuse(
          "cli.verb", fmt::format("orrery has no verb \"{}\"", values[1]),
          {fmt::format("{}: {}.", near.empty() ? "Known" : "Nearest", fmt::join(near.empty() ? names : near, ", "))});
    }
    for (const CLI::App* sub : subcommands) {
      if (sub->get_name() == values[1]) check_words(*sub, count, values);
    }
  }
  for (int i = 1; i < count && values[i][0] == '-'; ++i) {
    const std::string flag = flag_of(values[i]);
    if (flag != "--json" && option_of(app, flag) == nullptr) refuse_flag(app, flag.empty() ? values[i] : flag);
  }
  if (count < 2 ||
      std::all_of(values + 1, values + count, [](const char* v) { return std::string_view(v) == "--json"; })) {
    std::string names;
    for (const std::unique_ptr<Verb>& verb : verbs) names += (names.empty() ? "" : ", ") + std::string(verb->name());
    wrong(app, "a verb is missing", {fmt::format("Known: {}.", names)});
  }
  try {
    app.parse(count, values);
  } catch (const CLI::Success& asked) {  // for help, or for the version
    std::ostringstream out;
    app.exit(asked, out, out);
    print(out.str());
    return status_fine;
  } catch (const CLI::RequiredError& failed) {
    const auto parsed = app.get_subcommands();
    if (parsed.empty()) wrong(app, failed.what());
    refuse_missing(*parsed.front());
  } catch (const CLI::ParseError& failed) {
    const auto parsed = app.get_subcommands();
    wrong(parsed.empty() ? app : *parsed.front(), failed.what());
  }
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    if (subcommands[i]->parsed()) return verbs[i]->run();
  }
  return status_input;
}

bool wants_json(int count, const char* const* values) {
  for (int i = 1; i < count; ++i) {
    const std::string_view text = values[i];
    if (text == "--") return false;
    if (text == "--json") return true;
  }
  return false;
}

}  // namespace orrery
