#include <filesystem>
#include <fstream>

#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "orrery_torchtitan_flags";
  Folder() { std::filesystem::create_directories(path / "configs"); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("torchtitan's flags are its keys, with switches that may be off", "[framework][torchtitan]") {
  const Launched l = launched(
      "torchrun --nproc_per_node=8 --nnodes 2 -m torchtitan.train --model.name llama3 --model.flavor 8B \\\n"
      "  --training.local-batch-size 2 --parallelism.tensor_parallel_degree=4 --compile.no-enable \\\n"
      "  --no-checkpoint.enable --activation_checkpoint.mode full\n",
      "run.sh");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->format == "a command line of torchtitan");
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 4);  // 16 GPUs over 4
  CHECK(l.run->run.plan.mesh.size(Axis::tensor) == 4);
  CHECK(l.run->run.plan.microbatch_size == 2);
  CHECK(l.run->run.plan.recompute == Recompute::full);
  CHECK(l.note("checkpoint.enable")->value == "false");
}

TEST_CASE("Flags come before the TOML file that they name", "[framework][torchtitan]") {
  const Folder folder;
  std::ofstream(folder.path / "configs" / "base.toml")
      << "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 4\nseq_len = 8192\n";
  for (const char* text :
       {"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file configs/base.toml --training.seq_len 4096\n",
        "# torchtitan\nNGPU=8 CONFIG_FILE=\"./configs/base.toml\" ./run_train.sh --training.seq_len 4096\n",
        "CONFIG_FILE=${CONFIG_FILE:-\"./configs/base.toml\"}\n"
        "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file $CONFIG_FILE --training.seq_len 4096\n"}) {
    INFO(text);
    const Launched l = launched(text, (folder.path / "run.sh").string());
    INFO(render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->run.model.name == "llama-3.1-70b");
    CHECK(l.run->run.plan.microbatch_size == 4);
    CHECK(l.run->run.workload.sequence_length == 4096);
    CHECK(l.run->run.plan.mesh.size() == 8);
  }
  const Launched gone =
      launched("torchrun -m torchtitan.train --job.config_file configs/other.toml --training.steps 1\n",
               (folder.path / "run.sh").string());
  CHECK_FALSE(gone.run);
  REQUIRE_FALSE(gone.diagnostics.empty());
  CHECK(gone.diagnostics.list()[0].code == "file.open");
}

TEST_CASE("An unknown flag of torchtitan is an error at its place", "[framework][torchtitan]") {
  const Launched l = launched("python -m torchtitan.train --training.seq_len 2048 \\\n  --training.sequence 4096\n",
                              "run.sh", with_model("llama-3-8b", 8));
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.unknown-key");
  CHECK(l.diagnostics.list()[0].position.line == 2);
}
