#!/bin/sh
# How gpu-first runs its stages, shown with programs that only pretend: it passes what passes and nothing else, on the
# GPU that was asked for, ends what does not end, and goes on where it was cut off.  Needs no GPU and no build.
#
#   stages_test.sh SOURCE
#
# Exit status: 0; 1 one of these does not hold; 77 skipped: gpu-first does not run on this processor.
set -eu
source=$1
[ ! -r /proc/cpuinfo ] || grep -qw avx2 /proc/cpuinfo || { echo "skipped: no AVX2"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
results=$work/results
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/plans" "$bundle/share/orrery/models/cluster" "$work/tools"
for file in gpu-first gpu-here gpu-stages gpu-libraries torch-baseline; do cp "$source/tools/$file" "$bundle/"; done
touch "$bundle/bin/orrery_cuda.so" "$bundle/plans/gpt2-124m.toml" "$bundle/plans/roofline.toml"
printf 'name = "a"\ndevice = "b"\n' >"$bundle/share/orrery/models/cluster/dgx-h100.toml"
printf 'glibc 2.2\nlibrary libfirst.so.1\nlibrary libnccl.so.2\n' >"$bundle/needs"
# Nobody waits long for what does not end.
sed -i 's/^grace=.*/grace=1/' "$bundle/gpu-first"
sed -i 's/cases gpu_kernels 60/cases gpu_kernels 5/; s/^single=.*/single=gpt2-124m/' "$bundle/gpu-stages"

fail() { echo "WRONG: $*"; cat "$work/said" 2>/dev/null; exit 1; }
# run STATUS ARGUMENTS...
run() {
  expected=$1
  shift
  status=0
  : >"$work/calls"
  "$bundle/gpu-first" --out "$results" "$@" >"$work/said" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "gpu-first $*: the status is $status, not $expected"
}
says() { grep -qF -- "$1" "$work/said" || fail "it does not say: $1"; }
not_said() { ! grep -qF -- "$1" "$work/said" || fail "it says: $1"; }
called() { grep -qxF -- "$1" "$work/calls" || { cat "$work/calls"; fail "not called: $1"; }; }
not_called() { ! grep -qF -- "$1" "$work/calls" || { cat "$work/calls"; fail "called: $1"; }; }
# fake FILE, the text from standard input
fake() {
  { echo '#!/bin/sh'; cat; } >"$1"
  chmod +x "$1"
}
export FAKE="$work"
export PATH="$work/tools:$PATH"
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER LD_LIBRARY_PATH VIRTUAL_ENV CONDA_PREFIX || :

fake "$bundle/bin/orrery" <<'END'
case "$1" in
  --version)
    echo "orrery 9 (abc)"
    case "$ORRERY_CUDA_MODULE" in
      stand-in) echo "CUDA: no GPU: threads of this machine stand in for GPUs" ;;
      */bin/orrery_cuda.so) echo "CUDA: 2 GPUs" ;;
      *) echo "CUDA: another module" ;;
    esac
    ;;
  run)
    report="{\"losses\": [3.5, 3.25], \"step_time_s\": $(cat "$FAKE/step_time_s")}"
    printf '%s\n"notes": [\n    "attention by cuDNN 9.19.0",\n    "some"\n  ]\n' "$report"
    ;;
esac
for word; do [ "$last" = -o ] && echo "${report:-{\}}" >"$word"; last=$word; done
exit 0
END
fake "$bundle/bin/gpu_kernels" <<'END'
module=$1
shift
if [ "$1" = --list-test-names-only ]; then
  echo "a library greets"
  echo "another complains" >&2
  printf 'on a GPU\nslow attention\nsums\non other ranks\na product, with a comma\n'
  exit 4
fi
[ "$1 $2" = "-w NoTests" ] || exit 0 # as Catch does of a name that no test has
shift 2
echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES ${module##*/}: $1" >>"$FAKE/calls"
case "$1" in
  'slow attention')
    [ ! -e "$FAKE/hangs" ] || { echo "last words"; trap '' TERM; sleep 30; echo "goes on" >>"$FAKE/calls"; }
    ;;
  sums) [ ! -e "$FAKE/broken" ] || exit 1 ;;
  'on other ranks' | 'a product\, with a comma') ;;
  *) exit 2 ;;
esac
END
cp "$bundle/bin/gpu_kernels" "$bundle/bin/gpu_runs"
fake "$work/tools/nvidia-smi" <<'END'
for last; do :; done
echo "a card, GPU $last"
END
fake "$work/tools/compute-sanitizer" <<'END'
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 1
printf '%s ' "$2" >>"$FAKE/calls"
tool=$2
shift 4
if [ "$tool" = memcheck ]; then # racecheck knows no such flag
  [ "$1 $2" = "--report-api-errors no" ] || exit 1
  shift 2
fi
exec "$@"
END
fake "$work/tools/python3" <<'END'
case "$*" in *torch-baseline*) exit 77 ;; esac
END

# The environment that is active comes before what the alphabet would put first.
active=$work/z-active/lib/python3.13/site-packages/nvidia/one/lib
other=$work/a-conda/lib/python3.13/site-packages/nvidia/one/lib
mkdir -p "$active" "$other"
touch "$active/libfirst.so.1" "$other/libfirst.so.1"
VIRTUAL_ENV=$work/z-active CONDA_PREFIX=$work/a-conda "$bundle/gpu-libraries" libfirst.so.1 >"$work/said"
[ "$(cat "$work/said")" = "libfirst.so.1 $active" ] || fail "the environment that is active is not first"

# The programs see the GPU that was asked for, and no module but the bundle's.
export ORRERY_CUDA_MODULE=stand-in
run 0 --gpu 1 kernels
says "2 GPUs"
says "orrery 9 (abc)"
says "a card, GPU 1"
called 'PCI_BUS_ID 1 orrery_cuda.so: sums'
called 'PCI_BUS_ID 1 orrery_cuda.so: on other ranks'
called 'PCI_BUS_ID 1 orrery_cuda.so: a product\, with a comma'
not_said "another complains"
not_said "FAILED"
[ "$(grep -c . "$work/calls")" -eq 4 ] || fail "other cases than the four that are listed"
while read -r line; do grep -qxF -- "$line" "$results/log.txt" || fail "not in the log: $line"; done <<END
$(grep -v '^==' "$work/said" | sed 's/^ *//' | grep -v 'not found$\|libfirst\|libnccl\|compute-sanitizer:\|python3:')
END
unset ORRERY_CUDA_MODULE
export CUDA_VISIBLE_DEVICES=5,7
run 0 --gpu 1 kernels
called 'PCI_BUS_ID 7 orrery_cuda.so: sums'
run 77 --gpu 2 kernels
says "gpu-first: skipped: CUDA_VISIBLE_DEVICES=5,7 has no GPU 2"
unset CUDA_VISIBLE_DEVICES

# A part that passed and then fails has not passed.
run 0 --gpu 1 kernels
touch "$work/broken"
run 1 --gpu 1 kernels
says "FAILED: kernels, sums"
rm "$work/broken"
sed -i 's/^all=.*/all=kernels/' "$bundle/gpu-first"
run 0 --gpu 1
called 'PCI_BUS_ID 1 orrery_cuda.so: sums'
says "on other ranks: passed before"
run 0 --gpu 1
says "kernels passed before"

# What passed on one GPU, by these programs, says nothing of others; what was measured neither.
for file in calibration.toml calibration-links.toml reports.json groups.csv; do echo old >"$results/$file"; done
run 0 --gpu 1
[ -e "$results/calibration.toml" ] || fail "the calibration is lost"
run 0
says "has results of other programs or another GPU; they are removed"
called 'PCI_BUS_ID 0 orrery_cuda.so: sums'
[ "$(cd "$results" && echo *)" = "log.txt stages.txt" ] || fail "old results are left: $(ls "$results")"
run 0 --stand-in
called 'PCI_BUS_ID 0 stand-in: sums'
echo >>"$bundle/bin/orrery_cuda.so"
run 0 --stand-in
called 'PCI_BUS_ID 0 stand-in: sums'

# A case that does not heed that it is to end is killed, and goes last from then on.
rm -rf "$results"
touch "$work/hangs"
run 1
says "not ended within 5 s:"
says "FAILED: kernels, slow attention"
not_called "goes on"
[ "$(sed -n 's/.*so: //p' "$work/calls" | head -n 1)" = "slow attention" ] || fail "the order of cases"
run 1 kernels
[ "$(sed -n 's/.*so: //p' "$work/calls" | tail -n 1)" = "slow attention" ] || fail "what did not end is not last"
# Without time left, the words of the command before are not those of the next.
rm -rf "$results"
sed -i 's/kernels) echo 300/kernels) echo 5/' "$bundle/gpu-stages"
run 1
says "no time left for:"
[ "$(grep -cx "last words" "$work/said")" -le 1 ] || fail "the last words of one case stand for another"
sed -i 's/kernels) echo 5/kernels) echo 300/' "$bundle/gpu-stages"
rm "$work/hangs"

# Each kernel has its own run under compute-sanitizer; races are looked for where threads share memory.
run 0 memory
called 'memcheck PCI_BUS_ID 0 orrery_cuda.so: sums'
called 'memcheck PCI_BUS_ID 0 orrery_cuda.so: slow attention'
called 'racecheck PCI_BUS_ID 0 orrery_cuda.so: slow attention'
not_called 'racecheck PCI_BUS_ID 0 orrery_cuda.so: sums'
touch "$work/broken"
run 1 memory
says "FAILED: memory, memcheck, sums"
rm "$work/broken"
run 0 --stand-in memory
says "memory left out: threads that stand in for a GPU have nothing for compute-sanitizer"

run 0 torch
says "torch left out: no PyTorch"

# A report that does not tell the step's time is no result.
echo 0.25 >"$work/step_time_s"
run 0 train
says "gpt2-124m: 0.2500 s a step op by op, 0.2500 s as graphs"
says "attention by cuDNN 9.19.0"
says "gpt2-124m: each kind of kernel at its roofline"
echo '""' >"$work/step_time_s"
run 1 train
says "gpt2-124m: a report has no step_time_s"

# A state that is a stand-in's is none of a GPU.
sed -i 's/CUDA: 2 GPUs/CUDA: no GPU: threads of this machine stand in for GPUs/' "$bundle/bin/orrery"
run 77
says "gpu-first: skipped: no GPU: threads of this machine stand in for GPUs"

# gpu-check looks for any of the devices; gpu-bundle does not build what could not be configured.
mkdir -p "$work/tree/tools" "$work/tree/dev"
sed "s,/dev/\(nvidia\|dxg\),$work/tree/dev/\1,g" "$source/tools/gpu-check" >"$work/tree/tools/gpu-check"
cp "$source/tools/gpu-bundle" "$work/tree/tools/"
chmod +x "$work/tree/tools/gpu-check"
fake "$work/tools/cmake" <<'END'
echo "$1" >>"$FAKE/calls"
[ "$1" != --preset ]
END
check() {
  status=0
  : >"$work/calls"
  "$work/tree/tools/gpu-check" >"$work/said" 2>&1 || status=$?
  [ "$status" -eq "$1" ] || fail "gpu-check: the status is $status, not $1"
}
check 77
for device in nvidia0 dxg; do
  touch "$work/tree/dev/$device"
  check 3
  called --preset
  not_called --build
  rm "$work/tree/dev/$device"
done

# The code of a module for one GPU is read where it is there, and is no failure where it is not.
fake "$work/tools/nvdisasm" </dev/null
fake "$work/tools/ptxas" </dev/null
fake "$work/tools/cuobjdump" <<'END'
case "$1" in
  -xelf) echo TensorFlash >module.1.sm_80.cubin ;;
  -xptx) ;;
  --dump-resource-usage) printf ' Function xTensorFlash:\n  REG:90 STACK:0 SHARED:0 LOCAL:0\n' ;;
  -sass) printf 'Function : xTensorFlash\nHMMA.16816.F32\nLDSM.16.M88.4\nLDGSTS.E.BYPASS.128\nSTG.E.128\n' ;;
esac
END
code() {
  status=0
  "$source/tests/gpu/check_code.sh" "$bundle/bin/orrery_cuda.so" "$work/tools/cuobjdump" "$work/tools/ptxas" \
    "$work/code" "$@" >"$work/said" 2>&1 || status=$?
}
code
[ "$status" -eq 0 ] || fail "check_code.sh: $status"
code sm_80
[ "$status" -eq 0 ] || fail "check_code.sh sm_80: $status"
says "1 kernels looked at"
code sm_90
[ "$status" -eq 77 ] || fail "check_code.sh sm_90: $status"
says "skipped: the module has neither PTX nor code for sm_90"
echo "the stages are told right"
