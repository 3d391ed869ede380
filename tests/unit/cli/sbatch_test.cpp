#include "cli/sbatch.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string_view>

#include "tests/support/program_run.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;
using test::contents;
using test::Ran;

namespace {

/// The batch file of a plan of 16 ranks on nodes of 8, in a folder with an srun and an scontrol that note their words.
class Batch {
 public:
  Batch() {
    PlannedRun run = test::tiny_run(Mesh{{{Axis::data, 16}}}, 16);
    run.plan.name = "my plan; rm";
    run.cluster.emplace();
    run.cluster->devices_per_node = 8;
    text_ = sbatch_text(run, "/plans/it's my plan}.toml");
    test::write(folder_.file("job.sh"), text_);
    std::filesystem::create_directory(folder_.file("bin"));
    program("scontrol", "echo \"$@\" >> " + folder_.file("requeued"));
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  /// Runs it where srun saves a checkpoint of that name, if any, and ends with a status, in the environment that Slurm
  /// would give.
  Ran run(int srun_status, const std::string& environment, const std::string& saves = "") {
    program("srun", "echo \"$@\" > " + file("srun") +
                        (saves.empty() ? "" : "\nmkdir -p " + file("my-plan--rm-saves/") + saves) + "\nexit " +
                        std::to_string(srun_status));
    return test::run("env -C " + file(".") + " PATH=" + file("bin") + ":$PATH SLURM_JOB_ID=77 " + environment,
                     "bash job.sh");
  }

 private:
  void program(const std::string& name, const std::string& body) {
    const std::string path = folder_.file("bin/" + name);
    test::write(path, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  test::TemporaryFolder folder_;
  std::string text_;
};

}  // namespace

TEST_CASE("a batch file asks Slurm for the plan's nodes, notice and another try", "[unit][cli]") {
  const Batch b;
  for (const char* line :
       {"#!/bin/bash\n", "#SBATCH --job-name=my-plan--rm\n", "#SBATCH --nodes=2\n", "#SBATCH --ntasks=16\n",
        "#SBATCH --ntasks-per-node=8\n", "#SBATCH --requeue\n", "#SBATCH --signal=TERM@120\n"}) {
    CAPTURE(line);
    CHECK(b.text().find(line) != std::string::npos);
  }
}

TEST_CASE("a batch job begins, goes on from the newest checkpoint, and ends at the last step", "[unit][cli]") {
  Batch b;
  CHECK(b.run(0, "STEPS=500", "0001-step-500").status == 0);
  const std::string flags = "orrery run /plans/it's my plan}.toml --backend cuda --warmup 0 --steps ";
  CHECK(contents(b.file("srun")) == flags + "500 --checkpoint my-plan--rm-saves --every 100\n");
  std::filesystem::remove_all(b.file("my-plan--rm-saves"));
  // 0010 is newer than 0009; what was not finished does not count.
  for (const char* name : {"0009-step-180", "0010-step-200", "0011-step-220.partial"}) {
    std::filesystem::create_directories(b.file("my-plan--rm-saves/") + name);
  }
  CHECK(b.run(0, "PLAN=other.toml STEPS=500 EVERY=20", "0012-step-500").status == 0);
  std::filesystem::remove(b.file("my-plan--rm-saves/0012-step-500"));
  CHECK(contents(b.file("srun")) ==
        "orrery run other.toml --backend cuda --warmup 0 --steps 300 --checkpoint my-plan--rm-saves --every 20 "
        "--resume\n");
  std::filesystem::remove(b.file("srun"));
  const Ran over = b.run(0, "STEPS=200");
  CHECK(over.status == 0);
  CHECK(over.out == "all 200 steps are trained: my-plan--rm-saves/0010-step-200\n");
  CHECK(!std::filesystem::exists(b.file("srun")));
  CHECK(!std::filesystem::exists(b.file("requeued")));
}

TEST_CASE("a batch job is queued again after notice and failures, not after mistakes, and not without end",
          "[unit][cli]") {
  Batch b;
  for (const int mistake : {1, 2}) CHECK(b.run(mistake, "STEPS=500").status == mistake);
  CHECK(!std::filesystem::exists(b.file("requeued")));
  for (const int failed : {3, 137, 143}) CHECK(b.run(failed, "STEPS=500").status == 0);
  CHECK(contents(b.file("requeued")) == "requeue 77\nrequeue 77\nrequeue 77\n");
  CHECK(b.run(3, "STEPS=500 SLURM_RESTART_COUNT=20").status == 3);
  CHECK(b.run(3, "STEPS=500 SLURM_RESTART_COUNT=4 TRIES=4").status == 3);
  CHECK(contents(b.file("requeued")).size() == 3 * std::string("requeue 77\n").size());
}

TEST_CASE("a batch job that resumed from an older checkpoint is queued again for the steps that lack", "[unit][cli]") {
  Batch b;
  std::filesystem::create_directories(b.file("my-plan--rm-saves/0005-step-400"));
  // It cannot be read, so the run goes on from step 300, for the 100 steps that it was asked for.
  const Ran short_of = b.run(0, "STEPS=500", "0006-step-400");
  CHECK(short_of.status == 0);
  CHECK(short_of.out == "status 0, and step 400 of 500: the job is queued again\n");
  CHECK(contents(b.file("requeued")) == "requeue 77\n");
  CHECK(b.run(0, "STEPS=500 SLURM_RESTART_COUNT=20", "0007-step-450").status == 3);
  CHECK(b.run(0, "STEPS=500", "0008-step-500").status == 0);
  CHECK(contents(b.file("requeued")) == "requeue 77\n");
}

TEST_CASE("a batch file starts another program's launch once on each node, with what its line needs", "[unit][cli]") {
  test::TemporaryFolder folder;
  const auto program = [&](const std::string& name, const std::string& body) {
    const std::string path = folder.file("bin/" + name);
    test::write(path, "#!/bin/bash\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  std::filesystem::create_directory(folder.file("bin"));
  program("scontrol", "printf 'first\\nsecond\\n'");
  program("srun", "for n in 0 1; do SLURM_NODEID=$n \"${@:2}\"; done");
  for (const char* name : {"torchrun", "accelerate"}) {
    program(name, "echo \"" + std::string(name) + " $*\" >> " + folder.file("ran"));
  }
  const std::string launch = folder.file("it's mine");
  test::write(launch, "echo \"script $NODE_RANK $MASTER_ADDR $MASTER_PORT\" >> " + folder.file("ran") + "\n");
  PlannedRun run = test::tiny_run(Mesh{{{Axis::data, 12}}}, 12);
  run.plan.name = "twelve";
  run.cluster.emplace();
  run.cluster->devices_per_node = 8;  // two nodes of six
  const std::string torchrun =
      "torchrun --nnodes=2 --nproc_per_node=6 --rdzv_backend=c10d --rdzv_endpoint=first:29500 --rdzv_id=77 ";
  const auto accelerate = [&](int node) {
    return "accelerate launch --config_file " + launch + " --num_machines 2 --num_processes 12 --machine_rank " +
           std::to_string(node) + " --main_process_ip first --main_process_port 29500 mine.py --fast\n";
  };
  const auto twice = [](const std::string& line) { return line + "\n" + line + "\n"; };
  const std::map<std::string_view, std::string> expected{
      {"accelerate", accelerate(0) + accelerate(1)},
      {"colossal-ai", twice(torchrun + "mine.py --fast")},
      {"deepspeed", twice(torchrun + "mine.py --fast --deepspeed_config " + launch)},
      {"megatron", "script 0 first 29500\nscript 1 first 29500\n"},
      {"megatron-bridge", "script 0 first 29500\nscript 1 first 29500\n"},
      {"nanotron", twice(torchrun + "run_train.py --config-file " + launch)},
      {"torchtitan", twice(torchrun + "-m torchtitan.train --job.config_file " + launch)}};
  for (const LaunchWriting& w : launch_writings()) {
    CAPTURE(w.name);
    const std::string text = slurm_job_text(run, w, launch);
    CHECK(text.find("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=6\n") !=
          std::string::npos);
    test::write(folder.file("job.sh"), text);
    std::filesystem::remove(folder.file("ran"));
    const Ran ran = test::run("env -C " + folder.file(".") + " PATH=" + folder.file("bin") +
                                  ":$PATH SLURM_JOB_ID=77 SLURM_JOB_NODELIST=some TRAIN='mine.py --fast'",
                              "bash job.sh");
    CHECK(ran.status == 0);
    CHECK(contents(folder.file("ran")) == expected.at(w.name));
  }
}
