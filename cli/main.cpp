#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"

// The program `orrery`: one file per verb; here only the list of them and what
// becomes of their failures.
int main(int count, char** values) {
  using namespace orrery;
  try {
    return dispatch(count, values, all_verbs());
  } catch (const InputError& wrong) {
    std::fputs(render(wrong.diagnostics).c_str(), stderr);
    return status_input;
  } catch (const Error& failed) {
    std::fprintf(stderr, "error: %s\n", failed.what());
    return status_world;
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "error: %s\n", failed.what());  // out of memory and the like
    return status_world;
  }
}
