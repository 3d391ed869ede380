#include <fmt/format.h>

#include <algorithm>

#include "cli/verb_description.hpp"

namespace orrery {
namespace {

/// Text of a page. Backslashes, hyphens and a leading dot or quote are escaped, so that roff takes none for a request.
std::string roff(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
  return text;
}

std::string exit_status() {
  return ".SH EXIT STATUS\n.TP\n0\nAll is fine.\n.TP\n1\nThe answer is no: nothing fits, or Ctrl-C ended it.\n"
         ".TP\n2\nThe input is wrong.\n.TP\n3\nA file, a device or a library failed.\n.TP\n128 + N\nSignal N ended "
         "it.\n";
}

std::string synopsis(const VerbDescription& verb) {
  std::string out = fmt::format(".B orrery {}\n", roff(verb.name));
  for (const FlagDescription& flag : verb.flags) {
    if (flag.required) out += fmt::format(".B {}\n.I {}\n", roff(flag.names.back()), flag.value);
  }
  out += "[\\fIflags\\fR]\n";
  for (const VerbDescription::Argument& a : verb.arguments) {
    out += fmt::format("{}\\fI{}\\fR{}{}\n", a.required ? "" : "[", roff(a.name), a.repeats ? "..." : "",
                       a.required ? "" : "]");
  }
  return out;
}

std::string options(const VerbDescription& verb) {
  std::string out = ".SH OPTIONS\n";
  for (const VerbDescription::Argument& a : verb.arguments) {
    out += fmt::format(".TP\n.I {}\n{}\n", roff(a.name), roff(a.help));
  }
  for (const FlagDescription& flag : verb.flags) {
    std::string names;
    for (const std::string& name : flag.names)
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
    std::string about = flag.help;
    for (std::size_t i = 0; i < flag.choices.size(); ++i) {
      about += (i > 0 ? ", " : about.empty() ? "" : ": ") + flag.choices[i];
    }
    if (!flag.preset.empty()) about += fmt::format("{}default {}", about.empty() ? "" : "; ", flag.preset);
    if (flag.required) about += "; required";
    out += fmt::format(".TP\n{}{}\n{}\n", names, flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", flag.value),
                       about.empty() ? "\\&" : roff(about));
  }
  return out;
}

}  // namespace

std::string manual_page(const std::vector<VerbDescription>& verbs, const std::string& name,
                        const std::string& version) {
  if (name.empty()) {
    std::string out = fmt::format(
        ".TH ORRERY 1 \"\" \"orrery {}\"\n.SH NAME\norrery \\- plans, predicts and runs parallel training\n"
        ".SH SYNOPSIS\n.B orrery\n.I verb\n[\\fIflags\\fR]\n.SH DESCRIPTION\n"
        "Give it a model and a cluster: it finds how to split the training, says how long a step takes and what memory "
        "it\n"
        "needs, and runs the same plan.\n.SH VERBS\n",
        roff(version));
    for (const VerbDescription& verb : verbs) {
      out += fmt::format(".TP\n.BR orrery\\-{} (1)\n{}\n", roff(verb.name), roff(verb.summary));
    }
    return out + exit_status();
  }
  const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const VerbDescription& v) { return v.name == name; });
  if (verb == verbs.end()) return "";
  std::string out = fmt::format(
      ".TH ORRERY\\-{} 1 \"\" \"orrery {}\"\n.SH NAME\norrery\\-{} \\- {}\n.SH SYNOPSIS\n{}{}", upper(roff(verb->name)),
      roff(version), roff(verb->name), roff(verb->summary), synopsis(*verb), options(*verb));
  if (!verb->examples.empty()) out += fmt::format(".SH EXAMPLES\n.nf\n{}\n.fi\n", roff(verb->examples));
  return out + exit_status() + ".SH SEE ALSO\n.BR orrery (1)\n";
}

}  // namespace orrery
