#!/bin/sh
# What tools/gpu-bundle packs from this build, and how gpu-first runs it: it says what is missing, finds CUDA's libraries
# in pip's folders, names the kernel that fails, goes on where it was cut off, and passes a stage on the stand-in.
#
#   bundle_test.sh BUILD SOURCE
#
# Exit status: 0; 1 one of these does not hold; 77 skipped: this build has no module for GPUs.
set -eu
build=$1
source=$2
[ -f "$build/cli/orrery_cuda.so" ] || { echo "skipped: $build has no module for GPUs"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/tools/gpu-bundle" --from "$build" --folder "$work"
bundle=$work/orrery-gpu

fail() { echo "WRONG: $*"; cat "$work/said" 2>/dev/null; exit 1; }
# run STATUS ARGUMENTS...
run() {
  expected=$1
  shift
  status=0
  "$bundle/gpu-first" --out "$work/results" "$@" >"$work/said" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || fail "gpu-first $*: the status is $status, not $expected"
}
says() { grep -qF -- "$1" "$work/said" || fail "it does not say: $1"; }
not_said() { ! grep -qF -- "$1" "$work/said" || fail "it says: $1"; }

# The libraries of one release come before others: pip's, since that place has cuBLASLt.
cublas=$(sed -n 's/^library \(libcublasLt.*\)/\1/p' "$bundle/needs")
pip=$work/venv/lib/python3.13/site-packages/nvidia
mkdir -p "$pip/cu13/lib" "$pip/nccl/lib" "$work/older"
touch "$pip/cu13/lib/$cublas" "$pip/nccl/lib/libnccl.so.2" "$work/older/libnccl.so.2"
LD_LIBRARY_PATH=$work/older VIRTUAL_ENV=$work/venv "$bundle/gpu-libraries" "$cublas" libnccl.so.2 libnothing.so >"$work/said"
[ "$(cat "$work/said")" = "$cublas $pip/cu13/lib
libnccl.so.2 $pip/nccl/lib" ] || fail "libraries"

run 2 nonsense
says "gpu-first: nonsense is no stage and no flag; stages: kernels memory"
run 2 --within soon
says "gpu-first: --within needs a number, not soon"
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! [ -e /dev/dxg ]; then
  run 77
  says "gpu-first: skipped: no GPU: "
fi
run 1 --stand-in --within 0
says "kernels had no time"

# A stage on the stand-in, whole; then not again.
run 0 --stand-in calibrate
says "calibrate passed in"
grep -q '^device = "h100"' "$work/results/calibration.toml" || fail "no calibration"

# Two kernels, of which one fails: it is named, with its last words, and only it runs again.
mv "$bundle/bin/gpu_kernels" "$work/gpu_kernels"
cat >"$bundle/bin/gpu_kernels" <<'END'
#!/bin/sh
for last; do :; done
case "$last" in
  --list-test-names-only) printf 'on a GPU\nnorms\na product, with a comma\n' ;;
  norms) echo ran >>"$OUT_OF_NORMS" ;;
  'a product\, with a comma') [ -e "$MENDED" ] || { echo "  gemm bf16: CUDA: an illegal address"; exit 1; } ;;
  *) echo "unknown: $last"; exit 3 ;;
esac
END
chmod +x "$bundle/bin/gpu_kernels"
export OUT_OF_NORMS="$work/norms" MENDED="$work/mended"
rm -rf "$work/results"
sed -i 's/^all=.*/all=kernels/' "$bundle/gpu-first"
run 1 --stand-in
says " s: norms"
says "  gemm bf16: CUDA: an illegal address"
says "FAILED: kernels, a product, with a comma"
says "gpu-first: failed: kernels; docs: gpu-first.md"
touch "$MENDED"
run 0 --stand-in
says "norms: passed before"
[ "$(wc -l <"$work/norms")" -eq 1 ] || fail "norms ran again"
run 0 --stand-in
says "kernels passed before"
not_said "norms"
echo "the bundle is whole"
