#include <catch2/catch.hpp>

#include "framework/launch/launch_syntax.hpp"
#include "framework/launch/launch_value.hpp"

using namespace orrery;

namespace {

using Kind = LaunchValue::Kind;

LaunchFile flags(const std::string& text, const std::map<std::string, std::string, std::less<>>& set = {}) {
  Diagnostics d;
  const auto file = parse_launch_flags(text, "x.sh", set, d);
  REQUIRE(file);
  CHECK(d.empty());
  return *file;
}

std::string text(const LaunchFile& f, const std::string& key) {
  const LaunchValue* v = f.find(key);
  return v == nullptr ? "absent" : v->unknown.empty() ? v->text : "needs " + v->unknown;
}

}  // namespace

TEST_CASE("A command line becomes flags with kinds and places", "[framework][launch]") {
  const LaunchFile f = flags(
      "python train.py --tp 8 --name=run-1 \\\n"
      "  --bf16 --lr 1e-4 \\\n"
      "  --modules core_attn mlp --offset -1 a.b=3 +c.d=x\n");
  CHECK(f.find("--tp")->kind == Kind::number);
  CHECK(f.find("--tp")->position == Position{1, 22});
  CHECK(text(f, "--name") == "run-1");
  CHECK(f.find("--bf16")->kind == Kind::flag);
  CHECK(f.find("--bf16")->position == Position{2, 3});
  CHECK(f.find("--modules")->kind == Kind::list);
  CHECK(f.find("--modules")->items.size() == 2);
  CHECK(text(f, "--offset") == "-1");  // a number, no flag
  CHECK(text(f, "a.b") == "3");
  CHECK(text(f, "c.d") == "x");
  CHECK(f.find("launcher.gpus") == nullptr);
}

TEST_CASE("Variables, defaults, arithmetic and arrays are put in, with the places where they are written",
          "[framework][launch]") {
  const LaunchFile f = flags(
      "#!/bin/bash\n"
      "TP=4\n"
      "export PP=${PP:-2} MBS=$((TP * 2 + PP))\n"
      "MODEL_ARGS=(\n"
      "    --layers 24   # of which all are alike\n"
      "    # --hidden 1\n"
      "    --hidden \"$((1024*TP))\"\n"
      ")\n"
      "MODEL_ARGS+=(--swiglu)\n"
      "OPTIONS=\" \\\n"
      "    --tp ${TP} \\\n"
      "    --pp $PP \\\n"
      "\"\n"
      "torchrun --nproc_per_node 8 --nnodes=${NNODES:-4} pretrain.py \\\n"
      "    \"${MODEL_ARGS[@]}\" \\\n"
      "    # --off 1 \\\n"
      "    $OPTIONS \\\n"
      "    --mbs $MBS 2>&1 | tee log\n");
  CHECK(text(f, "--layers") == "24");
  CHECK(f.find("--layers")->position == Position{5, 14});
  CHECK(text(f, "--hidden") == "4096");
  CHECK(text(f, "--swiglu") == "true");
  CHECK(text(f, "--tp") == "4");
  CHECK(f.find("--tp")->position == Position{2, 4});
  CHECK(text(f, "--pp") == "2");
  CHECK(text(f, "--mbs") == "10");  // 4 x 2 + 2
  CHECK(text(f, "--off") == "absent");
  CHECK(text(f, "launcher.gpus") == "32");  // 8 on each of 4 nodes
}

TEST_CASE("What the script does not say is named, and may be given", "[framework][launch]") {
  const std::string script =
      "LAYERS=$(python count.py)\n"
      "torchrun --nproc_per_node $GPUS train.py --tp $TP --layers $LAYERS --bf16 $EXTRA\n";
  const LaunchFile f = flags(script);
  CHECK(text(f, "--tp") == "needs TP");
  CHECK(text(f, "--layers") == "needs $(python count.py)");
  CHECK(text(f, "launcher.gpus") == "needs GPUS");
  const LaunchFile given = flags(script, {{"TP", "2"}, {"LAYERS", "12"}, {"GPUS", "4"}});
  CHECK(text(given, "--tp") == "2");
  CHECK(text(given, "--layers") == "12");
  CHECK(text(given, "launcher.gpus") == "4");
}

TEST_CASE("Branches are taken as their conditions say; open ones leave their variables open", "[framework][launch]") {
  const std::string script =
      "SIZE=${SIZE:-7B}\n"
      "if [ \"$SIZE\" = 7B ]; then\n"
      "  LAYERS=32\n"
      "elif [[ $SIZE == 70B && -n $SIZE ]]; then\n"
      "  LAYERS=80\n"
      "else\n"
      "  LAYERS=1\n"
      "fi\n"
      "case $SIZE in\n"
      "  7B|8B) HIDDEN=4096 ;;\n"
      "  *) HIDDEN=8192 ;;\n"
      "esac\n"
      "TP=1\n"
      "if [ $HOSTS -gt 1 ]; then TP=8; fi\n"
      "python train.py --layers $LAYERS --hidden $HIDDEN --tp $TP\n";
  CHECK(text(flags(script), "--layers") == "32");
  CHECK(text(flags(script), "--hidden") == "4096");
  CHECK(text(flags(script), "--tp") == "needs TP (a condition in line 14 decides it)");
  CHECK(text(flags(script, {{"HOSTS", "2"}}), "--tp") == "8");
  CHECK(text(flags(script, {{"HOSTS", "1"}}), "--tp") == "1");
  CHECK(text(flags(script, {{"SIZE", "70B"}}), "--layers") == "80");
  CHECK(text(flags(script, {{"SIZE", "70B"}}), "--hidden") == "8192");
}

TEST_CASE("The launch is the command with the most flags, however it is called", "[framework][launch]") {
  CHECK(text(flags("echo --a 1 --b 2 --c 3\npython prepare.py --a 5\npython train.py --a 7 --b 1\n"), "--a") == "7");
  CHECK(text(flags("CMD=\"torchrun train.py --a 7\"\necho $CMD\neval $CMD\n"), "--a") == "7");
  CHECK(text(flags("srun -N 2 --ntasks-per-node 4 bash -c \"python train.py --a 7\"\n"), "--a") == "7");
  CHECK(text(flags("srun -N 2 --ntasks-per-node 4 bash -c \"python train.py --a 7\"\n"), "launcher.gpus") == "8");
  CHECK(text(flags("--a 1\n--b 2\n"), "--b") == "2");
  CHECK(text(flags("A=(\"--a 7\" '--b 1')\npython t.py ${A[@]}\n"), "--a") == "7");
  CHECK(text(flags("A=(\"--a 7\" '--b 1')\npython t.py \"${A[@]}\"\n"), "--b") == "1");
  CHECK(text(flags("ARGS=(--a 1)\nMORE=(--b 2)\n"), "--b") == "2");
  CHECK(text(flags("cat <<EOF > x\npython y.py --a 1 --b 2\nEOF\npython z.py --a 3\n"), "--a") == "3");
}

TEST_CASE("Functions are followed where they are called, with their arguments", "[framework][launch]") {
  const std::string script =
      "model() {\n"
      "  local layers=$1 hidden=${2:-4096}\n"
      "  MODEL=(--layers $layers --hidden $hidden)\n"
      "  if [ $# -ge 3 ]; then MODEL+=(--swiglu); fi\n"
      "}\n"
      "function parallel { echo \"--tp $1 --pp $(half $2)\"; }\n"
      "half() { echo $(($1 / 2)); }\n"
      "launch ()\n"
      "{\n"
      "  local name=$1\n"
      "  shift\n"
      "  torchrun --nproc_per_node 8 train.py --name $name \"$@\"\n"
      "}\n"
      "layers=7\n"
      "model 32 5120 yes\n"
      "launch first \"${MODEL[@]}\" $(parallel 2 8) --rest $layers\n";
  const LaunchFile f = flags(script);
  CHECK(text(f, "--layers") == "32");
  CHECK(f.find("--layers")->position == Position{15, 7});
  CHECK(text(f, "--hidden") == "5120");
  CHECK(text(f, "--swiglu") == "true");
  CHECK(text(f, "--tp") == "2");
  CHECK(text(f, "--pp") == "4");  // 8 / 2
  CHECK(text(f, "--name") == "first");
  CHECK(text(f, "--rest") == "7");  // what a function has locally ends with it
  CHECK(text(f, "launcher.gpus") == "8");
}

TEST_CASE("A function sets variables by name, returns early, and is not followed where nothing calls it",
          "[framework][launch]") {
  const std::string script =
      "add() { local -n list=$1; list+=(--$2 $3); }\n"
      "usage() {\n"
      "  python train.py --a 1 --b 2 --c 3 --d 4\n"
      "}\n"
      "pick() {\n"
      "  if [[ $1 == small ]]; then LAYERS=12; return; fi\n"
      "  LAYERS=80\n"
      "}\n"
      "main() {\n"
      "  pick ${1:-small}\n"
      "  add ARGS layers $LAYERS\n"
      "  add ARGS heads ${HEADS:-16}\n"
      "  srun -N 2 --gpus-per-node 4 python train.py ${ARGS[*]} ${@:2}\n"
      "}\n"
      "main \"$@\"\n";
  const LaunchFile f = flags(script);
  CHECK(text(f, "--layers") == "12");
  CHECK(text(f, "--heads") == "16");
  CHECK(text(f, "--a") == "absent");
  CHECK(text(flags(script, {{"HEADS", "8"}}), "--heads") == "8");
  CHECK(text(flags("run() { python t.py --tp $1; }\nrun \"$@\"\n"), "--tp") == "needs 1");
  CHECK(text(flags("run() { python t.py --tp $1; }\nexport -f run\nsrun -N 1 bash -c run\n"), "--tp") == "needs 1");
  CHECK(text(flags("run() { python t.py --tp 2; }\n"), "--tp") == "2");
  CHECK(text(flags("tp() { T=$1; }\nif [ $X = 1 ]; then tp 2; fi\npython t.py --tp $T\n"), "--tp") ==
        "needs T (a condition in line 2 decides it)");
}

TEST_CASE("What $(...) prints is known where it only prints words", "[framework][launch]") {
  const auto tp = [](const std::string& script) { return text(flags(script), "--tp"); };
  CHECK(tp("tp() { echo 4; }\npython t.py --tp $(tp)\n") == "4");
  CHECK(tp("tp() { printf '%s\\n' 4; }\nTP=$(tp)\npython t.py --tp $TP\n") == "4");
  CHECK(tp("tp() { echo looking >&2; echo 4; }\npython t.py --tp $(tp)\n") == "4");
  CHECK(tp("tp() { X=9; echo 4; }\nX=2\nTP=$(tp)\npython t.py --tp $X\n") == "2");  // a shell of its own
  CHECK(tp("tp() { nvidia-smi; echo 4; }\npython t.py --tp $(tp)\n") == "needs $(tp)");
  CHECK(tp("tp() { echo 4 | tr 4 8; }\npython t.py --tp $(tp)\n") == "needs $(tp)");
  CHECK(tp("tp() { if [ $N = 2 ]; then echo 4; fi; }\npython t.py --tp $(tp)\n") == "needs $(tp)");
  CHECK(tp("LIST=(2 4)\nCMD=\"python t.py ${LIST[@]} --tp 8\"\n$CMD\n") == "8");
}

TEST_CASE("GPUs come from torchrun, srun, #SBATCH or the usual variables", "[framework][launch]") {
  const auto gpus = [](const std::string& script) { return text(flags(script), "launcher.gpus"); };
  CHECK(gpus("torchrun --nproc-per-node=8 train.py --a 1\n") == "8");
  CHECK(gpus("python -m torch.distributed.run --nproc_per_node 4 --nnodes 2 train.py --a 1\n") == "8");
  CHECK(gpus("#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nsrun python train.py --a 1\n") == "32");
  CHECK(gpus("#SBATCH -N 2\n#SBATCH --gpus-per-node 8\n#SBATCH --ntasks-per-node=1\n"
             "srun torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES train.py --a 1\n") == "16");
  CHECK(gpus("GPUS_PER_NODE=8\nNNODES=2\nWORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))\npython train.py --a 1\n") == "16");
  CHECK(gpus("python train.py --a 1\n") == "absent");
}

TEST_CASE("Scripts that are torn or that grow end without harm", "[framework][launch]") {
  std::string growing = "A=--x\n";
  for (int i = 0; i < 60; ++i) growing += "A=\"$A $A\"\n";
  Diagnostics d;
  CHECK_FALSE(parse_launch_flags(growing + "python t.py $A\n", "x.sh", {}, d));
  REQUIRE(d.size() == 1);
  CHECK(d.list()[0].code == "launch.size");
  std::string calls = "f0() { python t.py --a 1; }\n";
  for (int i = 1; i < 16; ++i) {
    const std::string before = "f" + std::to_string(i - 1) + "; ";
    calls += "f" + std::to_string(i) + "() { " + before + before + before + "}\n";
  }
  Diagnostics many;
  CHECK_FALSE(parse_launch_flags(calls + "f15\n", "x.sh", {}, many));
  CHECK(many.size() == 1);
  for (const char* torn : {"A=(--a 1",
                           "python t.py --a \"x",
                           "echo ${A:-${B",
                           "$((",
                           "if [ ; then",
                           "case x in",
                           "\\",
                           "a=$(((1)",
                           "fi",
                           "for",
                           "f() {",
                           "f() { f; }; f",
                           "f()",
                           "function",
                           "function f",
                           "f() { $(f); }; $(f)",
                           "f() { }; f",
                           "}",
                           "f() { fi; done; }; if f; then f",
                           "x <<E",
                           "python t.py --a ${",
                           "`",
                           "[[ a && ",
                           "A[0]=1",
                           "$",
                           "-"}) {
    Diagnostics ignored;
    CHECK(parse_launch_flags(torn, "x.sh", {}, ignored));
  }
}

TEST_CASE("A script is known by its name or its first line", "[framework][launch]") {
  CHECK(launch_syntax_of("x", "train.sh") == LaunchSyntax::flags);
  CHECK(launch_syntax_of("# flags\n--a 1\n", "flags") == LaunchSyntax::flags);
  CHECK(launch_syntax_of("TP=4\n", "run") == LaunchSyntax::flags);
  CHECK(launch_syntax_of("model.tensor_model_parallel_size=4 train.x=1\n", "run") == LaunchSyntax::flags);
  CHECK(launch_syntax_of("a = 1\n", "run") == LaunchSyntax::toml);
  CHECK(launch_syntax_of("a: 1\n", "run") == LaunchSyntax::yaml);
}
