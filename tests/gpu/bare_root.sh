#!/bin/bash
# What tools/gpu-bundle packs runs on a machine that has glibc, a shell and its tools, and nothing else.
#
#   bare_root.sh ARCHIVE [STAGE...]
#
# Makes such a root from the packages of this (Debian) machine, unpacks the archive there, and shows that gpu-first
#   - says what is missing, without CUDA's libraries and with stubs of them in a folder as pip makes it,
#   - runs every stage with --stand-in, leaves at most eight files, and does not run again what passed,
#   - opens nothing outside its folder but what is glibc's, and never looks for a file of the tree it was built in.
# Prints the time of each stage.  Exit status: 0; 1 one of these does not hold; 77 skipped, and why.
set -eu
[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$(realpath "$1")
shift
source=$(realpath "$(dirname "$0")/../..")
skip() { echo "skipped: $*"; exit 77; }
for tool in dpkg strace unshare chroot readelf nm cc; do
  command -v $tool >/dev/null || skip "no $tool"
done
unshare -m true 2>/dev/null || skip "no right to mount (run it as root)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
failed=
wrong() { echo "WRONG: $*" >&2; failed=yes; }

mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{etc,tmp,proc,sys,dev,opt}
for folder in bin sbin lib lib64; do ln -s usr/$folder "$root/$folder"; done
take() { [ -e "$root$1" ] || { mkdir -p "$root$(dirname "$1")"; cp -L "$1" "$root$1"; }; }
dpkg -L libc6 libc-bin dash bash coreutils sed grep mawk findutils |
  grep -E '^(/usr)?/(s?bin|lib|lib64)/' | sort -u | while read -r path; do [ ! -f "$path" ] || take "$path"; done
ln -sf mawk "$root/usr/bin/awk"
ln -sf dash "$root/usr/bin/sh"
for program in "$root"/usr/bin/*; do ldd "$program" 2>/dev/null || :; done | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
  sort -u | while read -r path; do take "$path"; done
chroot "$root" /sbin/ldconfig
ls "$root"/usr/lib/x86_64-linux-gnu | grep -q 'libstdc++' && wrong "the root is not bare: it has libstdc++"
tar -xzf "$archive" -C "$root/opt"
echo "root: $(du -sm --exclude=opt "$root" | cut -f1) MB; bundle: $(($(wc -c <"$archive") / 1000)) kB packed," \
  "$(du -sm "$root/opt" | cut -f1) MB unpacked"
[ "$(wc -c <"$archive")" -le 60000000 ] || wrong "the archive is larger than 60 MB"

# Runs gpu-first in the root (a checked build cannot look for leaks under strace); what it says is in $work/said, what it opens in $work/trace.
first() {
  strace -f -qq --seccomp-bpf -e trace=%file,%process -s 400 -o "$work/trace" \
    unshare -m sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
      exec chroot "$0" /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/nowhere ASAN_OPTIONS=detect_leaks=0 "$@"' \
    "$root" /opt/orrery-gpu/gpu-first "$@" >"$work/said" 2>&1
}
says() { grep -qF -- "$1" "$work/said" || { wrong "it does not say: $1"; cat "$work/said" >&2; }; }

cublas=$(sed -n 's/^library \(libcublasLt.*\)/\1/p' "$root/opt/orrery-gpu/needs")
status=0; first --out /tmp/none || status=$?
[ $status -eq 77 ] || wrong "without CUDA the status is $status, not 77"
says "$cublas: not found"
says "gpu-first: skipped: cannot load CUDA: $cublas"

# pip's folder, with what the module asks of cuBLASLt; the driver's library is the toolkit's stub.
packages=$root/opt/venv/lib/python3.13/site-packages/nvidia/cu13/lib
mkdir -p "$packages"
nm -D --undefined-only "$root/opt/orrery-gpu/bin/orrery_cuda.so" | sed -n 's/.* U \(cublas[A-Za-z0-9]*\).*/\1/p' |
  sed 's/.*/int &(void) { return 1; }/' >"$work/stub.c"
echo "$cublas { *; };" >"$work/version"  # the loader insists on cuBLAS's version of its symbols
cc -shared -fPIC -Wl,-soname,"$cublas" -Wl,--version-script="$work/version" -o "$packages/$cublas" "$work/stub.c"
driver=$(find /usr/local/cuda/ -path '*stubs/libcuda.so' 2>/dev/null | head -1)
[ -z "$driver" ] || cp -L "$driver" "$root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
chroot "$root" /sbin/ldconfig
status=0; first --out /tmp/none || status=$?
[ $status -eq 77 ] || wrong "with stubs the status is $status, not 77"
says "$cublas: ${packages#"$root"}"
says "gpu-first: skipped: no GPU: "
grep skipped "$work/said"

status=0; first --stand-in --out /tmp/results "$@" || status=$?
cat "$work/said"
[ $status -eq 0 ] || wrong "a stage failed with --stand-in"
says "libnccl.so.2: not found"
files=$(ls "$root/tmp/results" | wc -l)
echo "files: $files; longest line of the table: $(sed -n '/^== stages/,$p' "$work/said" | awk '{print length}' | sort -n | tail -1)"
[ "$files" -le 8 ] || wrong "$files files are left"
sed -n '/^== stages/,$s/.* in \([0-9]*\) s$/\1/p' "$work/said" | awk '$1 > 500 {exit 1}' || wrong "a stage takes more than 500 s"

# By process: the program that it runs, a child's being its parent's until it becomes another.  strace shows a call that
# others interrupt in two lines, of which the first has the path and the second the result.
awk -v bundle=/opt/orrery-gpu/bin/ '
  { pid = $1; split($0, word, "\"") }
  /<unfinished \.\.\.>$/ { path[pid] = word[2]; next }
  / resumed>/ { word[2] = path[pid] }
  / execve(\(| resumed)/ && / = 0$/ { program[pid] = word[2]; next }
  / (clone|clone3|fork|vfork)(\(| resumed)/ && / = [0-9]+$/ { program[$NF] = program[pid]; next }
  / open(at|at2)?(\(| resumed)/ {
    print (index(program[pid], bundle) == 1 ? "bundle" : "tools"), ($0 ~ /\) = [0-9]+/ ? "opened" : "looked"), word[2]
  }' "$work/trace" | sort | uniq -c >"$work/paths"
grep -F -e "$source" -e "$HOME/" "$work/paths" && wrong "it looks for files of the tree or the user that built it"
awk '$2 == "bundle" && $3 == "opened" {print $4}' "$work/paths" |
  grep -Ev '^(/opt/orrery-gpu|/tmp|/proc|/sys|/dev)(/|$)' |
  grep -v '^\./orrery-disk-[A-Za-z0-9]*$' |  # programs run in gpu-first's own folder below /tmp
  grep -Ev '^/(etc/(ld\.so\.cache|nsswitch\.conf|hosts|host\.conf|resolv\.conf|localtime|passwd|group)|(usr/)?lib(64)?/(x86_64-linux-gnu/)?(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv))\.so[.0-9]*)$' \
  >"$work/outside" || :
echo "opened by the bundle's programs: $(awk '$2 == "bundle" && $3 == "opened" {n += $1} END {print n + 0}' "$work/paths") times;" \
  "outside its folder and the system's: $(wc -l <"$work/outside")"
[ ! -s "$work/outside" ] || { wrong "it opens files outside its folder:"; cat "$work/outside" >&2; }

began=$(date +%s)
if [ $# -eq 0 ]; then
  if first --stand-in --out /tmp/results; then
    says "links passed before"
  else
    wrong "a stage fails that passed before"
    cat "$work/said" >&2
  fi
fi
echo "again: $(($(date +%s) - began)) s"
[ -z "$failed" ] || exit 1
echo "the bundle runs in a bare root"
