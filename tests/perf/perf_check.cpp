// perf_check THRESHOLDS OUTPUT...: exit status 1 when a benchmark stays behind.

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>

#include "core/base/diagnostics.hpp"
#include "tests/perf/thresholds.hpp"

int main(int argc, char** argv) {
  using namespace orrery;
  try {
    if (argc < 3) throw Error("perf_check THRESHOLDS OUTPUT...");
    std::vector<std::string> outputs;
    for (int i = 2; i < argc; ++i) {
      std::ifstream in(argv[i]);
      if (!in) throw Error(std::string("cannot read ") + argv[i]);
      std::ostringstream text;
      text << in.rdbuf();
      outputs.push_back(text.str());
    }
    const auto thresholds = perf::read_thresholds(argv[1]);
    const auto verdicts = perf::judge(thresholds, outputs);
    std::fputs(perf::table(verdicts).c_str(), stdout);
    for (const perf::Verdict& v : verdicts) {
      if (!v.passed) return 1;
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
