#!/bin/sh
# What the compiler made of attention and of experts' products on tensor cores, read out of the module; no GPU is
# needed.  For the architectures that the module has code for, and for those named, for which ptxas makes it of the
# module's PTX:
#   * no stack and no spills,
#   * products on tensor cores (HMMA), matrices of 8 x 8 read from shared memory at once (LDSM), copies of 16 bytes from
#     the device's memory to shared memory (LDGSTS.128), and attention's results written in 16 bytes (STG.128).
# usage: check_code.sh MODULE CUOBJDUMP PTXAS FOLDER [ARCHITECTURE...]        77: a tool is missing
module=$1 cuobjdump=$2 ptxas=$3 folder=$4
shift 4
for file in "$module" "$cuobjdump" "$ptxas"; do
  [ -f "$file" ] || { echo "skipped: there is no $file"; exit 77; }
done
PATH=$(dirname "$cuobjdump"):$PATH  # it starts nvdisasm
nvdisasm --version >/dev/null 2>&1 || { echo "skipped: there is no nvdisasm beside $cuobjdump"; exit 77; }
rm -rf "$folder"
mkdir -p "$folder" && cd "$folder" || exit 1
"$cuobjdump" -xelf all "$module" >/dev/null || exit 1
"$cuobjdump" -xptx all "$module" >/dev/null || exit 1
# Only what is on tensor cores.
for file in *.cubin *.ptx; do
  [ -f "$file" ] && ! grep -qE 'TensorFlash|Tensor(Rows|Weight)Tile' "$file" && rm "$file"
done
for arch in "$@"; do
  # A module for the GPUs of one machine (CMAKE_CUDA_ARCHITECTURES=native) has code and no PTX.
  if [ -z "$(find . -name '*.ptx')" ]; then
    [ -n "$(find . -name "*$arch.cubin")" ] && continue
    echo "skipped: the module has neither PTX nor code for $arch on tensor cores"
    exit 77
  fi
  for file in *.ptx; do
    "$ptxas" -arch="$arch" -o "${file%.ptx}.$arch.cubin" "$file" || exit 1
  done
done
[ -n "$(find . -name '*.cubin')" ] || { echo "the module has no code on tensor cores"; exit 1; }
for file in *.cubin; do
  echo "arch = $file"
  "$cuobjdump" --dump-resource-usage "$file" || exit 1
  "$cuobjdump" -sass "$file" || exit 1
done >listing.txt
awk '
  function wants(count, what) { if (!(count > 0)) { print short(name) " (" arch ") has no " what; bad = 1 } }
  function short(n) { return substr(n, match(n, /TensorFlash|Tensor(Rows|Weight)Tile/), 60) }
  function end_of_function() {
    if (name == "") return
    wants(hmma, "HMMA"); wants(ldsm, "LDSM"); wants(ldgsts, "LDGSTS.128")
    if (name ~ /TensorFlash/) wants(stg, "STG.128")
    if (local > 0) { print short(name) " (" arch ") has " local " accesses to local memory"; bad = 1 }
    ++kernels
    name = ""
  }
  /^arch = .*cubin$/ { arch = $3 }
  / Function .*(TensorFlash|Tensor(Rows|Weight)Tile).*:$/ { resource = $2; next }
  resource != "" && /REG:/ {
    ++resources
    match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6)
    match($0, /LOCAL:[0-9]+/); spilt = substr($0, RSTART + 6, RLENGTH - 6)
    match($0, /REG:[0-9]+/); registers = substr($0, RSTART + 4, RLENGTH - 4)
    print short(resource) " (" arch "): " registers " registers, " stack " bytes of stack, " spilt " of local memory"
    if (stack + spilt > 0 || registers + 0 > 255) bad = 1
    resource = ""
  }
  /Function : / {
    end_of_function()
    hmma = ldsm = ldgsts = stg = local = 0
    if ($0 ~ /TensorFlash|Tensor(Rows|Weight)Tile/) name = $3
  }
  /HMMA\.16816\.F32/ { ++hmma }
  /LDSM\.16\.(M|MT)88\.4/ { ++ldsm }
  /LDGSTS\.E\.[A-Z.0-9]*128/ { ++ldgsts }
  /STG\.E\.128/ { ++stg }
  /(LDL|STL)/ { ++local }
  END {
    end_of_function()
    print kernels + 0 " kernels looked at"
    if (kernels == 0 || kernels != resources) bad = 1
    exit bad
  }' listing.txt
