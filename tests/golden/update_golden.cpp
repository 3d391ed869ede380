// Writes the golden files anew. Run it by hand, and commit its changes alone, with the reason: `ninja update_golden &&
// build/.../update_golden`.
#include <filesystem>
#include <fstream>

#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "tests/golden/golden_cases.hpp"
#include "tests/golden/history_cases.hpp"

int main() {
  for (const orrery::test::GoldenCase& c : orrery::test::golden_cases()) {
    const std::filesystem::path file = orrery::test::golden_path(c);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        << orrery::write_program(orrery::lower(c.run.model, c.run.workload, c.run.plan));
  }
  std::ofstream(orrery::test::histories_path(), std::ios::binary)
      << orrery::test::histories_text(orrery::test::play_histories());
}
