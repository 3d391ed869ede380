#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/cut_off.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"

// The program `orrery` has one file per verb; here are only the list of verbs and the handling of their failures.
int main(int count, char** values) {
  using namespace orrery;
  const bool json = wants_json(count, values);
  // The list outlives the messages below: once a verb is gone, a job's other processes go on, and its launcher ends it.
  const std::vector<std::unique_ptr<Verb>> verbs = all_verbs();
  try {
    try {
      return dispatch(count, values, verbs);
    } catch (const CutOff& cut) {
      const Diagnostics d = diagnosed(cut);
      if (json) print_json({{"errors", errors_json(d)}});
      say(render(d));
      return status_input;
    } catch (const InputError& wrong) {
      if (json && !wrong.answered) print_json({{"errors", errors_json(wrong.diagnostics)}});
      say(render(wrong.diagnostics));
      return status_input;
    }
  } catch (const std::exception& failed) {  // Error, and out of memory and the like
    say(std::string("error: ") + failed.what() + "\n");
    if (json) {
      try {
        Diagnostics d;
        d.error("world", failed.what());
        print_json({{"errors", errors_json(d)}});
      } catch (const std::exception&) {
        // Standard output is what failed.
      }
    }
    return status_world;
  }
}
