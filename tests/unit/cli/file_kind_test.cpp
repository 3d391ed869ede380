#include "cli/file_kind.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("a file says what it is by its marks", "[unit][cli]") {
  const std::pair<const char*, FileKind> table[] = {
      {"", FileKind::unknown},
      {"   \n", FileKind::unknown},
      {"orrery-program 1\n", FileKind::program},
      {"orrery-order 1\n0F0 0B0\n", FileKind::order},
      {"# mine\n\n  # of today\norrery-order 1\n0F0 0B0\n", FileKind::order},
      {"# a model\nschema = 1\n[model]\n", FileKind::model},
      {"schema = 1\n[model]\n", FileKind::model},
      {"schema = 1\n[workload]\n", FileKind::workload},
      {"schema = 1\n[device]\n", FileKind::device},
      {"schema = 1\n[fabric]\n", FileKind::fabric},
      {"schema = 1\n[reliability]\n", FileKind::reliability},
      {"schema = 1\nreliability = \"rsc-1\"\n[cluster]\n", FileKind::cluster},
      {"schema = 1\n[[devices]]\n", FileKind::power},
      {"id,source,model\n", FileKind::measured_runs},
      {"schema = 1\ndevice = \"H100\"\n", FileKind::calibration},
      {"schema = 1\n[cluster]\n", FileKind::cluster},
      {"model = \"gpt2-124m\"\n[workload]\n[plan]\n", FileKind::plan},
      {"model = \"gpt2-124m\"\n[workload]\n", FileKind::plan},
      {"{\"model_type\": \"llama\"}", FileKind::hf_config},
      {"x = 1\n", FileKind::unknown},
      {"model = \"gpt2-124m\"\n", FileKind::plan},
      {"cluster = \"dgx-h100\"\n", FileKind::plan},
      {"{\"hidden_size\": 64}", FileKind::hf_config},
      {"{\"a\": 1}", FileKind::unknown},
      {"[1, 2]", FileKind::unknown},
      {"[model]\n", FileKind::model},
  };
  for (const auto& [text, kind] : table) {
    CAPTURE(text);
    Diagnostics d;
    CHECK(kind_of(text, "file", d) == kind);
    CHECK(d.empty());
  }
  for (const char* network : {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\n", "<system version=\"1\">\n</system>\n",
                              "SwitchName=s0 Nodes=n[0-3]\n", "graph {\n  a -- b\n}\n"}) {
    CAPTURE(network);
    Diagnostics none;
    CHECK(kind_of(network, "file", none) == FileKind::network);
    CHECK(none.empty());
  }
  // A file of ours that is torn is no network, whatever it speaks of.
  Diagnostics torn;
  CHECK(kind_of("# of GPU0\n[plan]\nmicrobatch_size =\n", "file", torn) == FileKind::unknown);
  CHECK(torn.size() == 1);
  Diagnostics d;
  CHECK(kind_of("not a file", "file", d) == FileKind::unknown);
  CHECK(d.size() == 1);
}
