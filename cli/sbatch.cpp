#include "cli/sbatch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {
namespace {

/// A name without what a shell or Slurm would read as something else.
std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    out += fine ? c : '-';
  }
  return out.empty() || out.front() == '-' || out.front() == '.' ? "plan" + out : out;
}

/// One word of a shell, whatever is in it.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

// Slurm's words: https://slurm.schedmd.com/sbatch.html (--requeue, --signal, --open-mode) and scontrol.html (requeue).
// Without "B:" the signal goes to the tasks alone, so that this script lives on and queues the job again.
std::string sbatch_text(const PlannedRun& run, const std::filesystem::path& plan) {
  const std::string name = plain(run.plan.name);
  const std::uint64_t ranks = run.plan.mesh.size();
  const std::uint64_t per_node = std::min<std::uint64_t>(ranks, run.cluster ? run.cluster->devices_per_node : 8);
  return fmt::format(R"sh(#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks={ranks}
#SBATCH --ntasks-per-node={per_node}
#SBATCH --gpus-per-node={per_node}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={name}-%j.log
#SBATCH --signal=TERM@120

# Trains {name} on {ranks} GPUs, up to step STEPS. Give the time that a job may take:
#   sbatch --time=24:00:00 --export=ALL,STEPS=100000 this-file
# The ranks get SIGTERM 120 s before the end; they finish their step and save. 120 s must be enough for that.
# orrery forecast tells the best interval between checkpoints, which EVERY is.
set -u
PLAN=${{PLAN:-{plan}}}
SAVES=${{SAVES:-{name}-saves}}
STEPS=${{STEPS:-1000}}
EVERY=${{EVERY:-100}}
TRIES=${{TRIES:-20}}

ORRERY_TOKEN=$(head -c 32 /dev/urandom | sha256sum | cut -c 1-64)
export ORRERY_TOKEN

# The newest checkpoint is a folder 0012-step-300: number and last step.
look() {{
  newest=$(find "$SAVES" -maxdepth 1 -name '*-step-*[0-9]' -printf '%f\n' 2>/dev/null | sort -n | tail -n 1)
  trained=${{newest##*-}}
  left=$((STEPS - ${{trained:-0}}))
}}
look
if [ "$left" -le 0 ]; then
  echo "all $STEPS steps are trained: $SAVES/$newest"
  exit 0
fi
srun orrery run "$PLAN" --backend cuda --warmup 0 --steps "$left" --checkpoint "$SAVES" --every "$EVERY" \
  ${{newest:+--resume}}
status=$?

# 0: all these steps are trained. They are not enough where the run began from an older checkpoint.
# 1, 2: the plan or the flags are wrong, so that another try would fail, too.
look
if [ "$status" -eq 0 ] && [ "$left" -le 0 ]; then exit 0; fi
case $status in
  1 | 2) exit $status ;;
esac
if [ "${{SLURM_RESTART_COUNT:-0}}" -ge "$TRIES" ]; then
  echo "status $status, and the job was queued again $TRIES times (TRIES)"
  exit $((status ? status : 3))
fi
echo "status $status, and step ${{trained:-0}} of $STEPS: the job is queued again"
scontrol requeue "$SLURM_JOB_ID"
)sh",
                     fmt::arg("name", name), fmt::arg("plan", quoted(plan.string())), fmt::arg("ranks", ranks),
                     fmt::arg("per_node", per_node), fmt::arg("nodes", (ranks + per_node - 1) / per_node));
}

std::string slurm_job_text(const PlannedRun& run, const LaunchWriting& writing, const std::filesystem::path& launch) {
  const std::string name = plain(run.plan.name);
  const std::uint64_t ranks = run.plan.mesh.size();
  std::uint64_t per_node = std::min<std::uint64_t>(ranks, run.cluster ? run.cluster->devices_per_node : 8);
  while (ranks % per_node != 0) --per_node;  // as launches have it: equal nodes
  const auto names = [&](std::string_view variable) { return writing.start.find(variable) != std::string_view::npos; };
  std::string train, torchrun, exported;
  if (names("$TRAIN")) {
    train = "# Your script and its arguments.\nTRAIN=${TRAIN:-train.py}\n";
    exported = "TRAIN ";
  }
  if (names("$TORCHRUN")) {
    torchrun =
        "TORCHRUN=\"torchrun --nnodes=$NODES --nproc_per_node=$GPUS --rdzv_backend=c10d\"\n"
        "TORCHRUN=\"$TORCHRUN --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv_id=$SLURM_JOB_ID\"\n";
    exported += "TORCHRUN ";
  }
  return fmt::format(
      R"sh(#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={per_node}
#SBATCH --exclusive
#SBATCH --output={name}-%j.log

# Launches {name} on {ranks} GPUs: {title}.
# Give the time that a job may take, and submit it where the program's sources are:
#   sbatch --time=24:00:00 this-file
set -eu
LAUNCH=${{LAUNCH:-{launch}}}
{train}NODES={nodes}
GPUS={per_node}
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=${{MASTER_PORT:-29500}}
{torchrun}export LAUNCH {exported}NODES GPUS MASTER_ADDR MASTER_PORT

# One task on each node; where one fails, all end.
srun --kill-on-bad-exit=1 bash -c 'export NODE_RANK=$SLURM_NODEID; {start}'
)sh",
      fmt::arg("name", name), fmt::arg("nodes", ranks / per_node), fmt::arg("per_node", per_node),
      fmt::arg("ranks", ranks), fmt::arg("title", writing.title), fmt::arg("launch", quoted(launch.string())),
      fmt::arg("start", writing.start), fmt::arg("train", train), fmt::arg("torchrun", torchrun),
      fmt::arg("exported", exported));
}

}  // namespace orrery
