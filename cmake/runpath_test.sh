#!/bin/sh
# No built program or module has an entry in its search path for libraries that depends on the current folder: neither
# an empty one (the loader takes it for the current folder) nor a relative one.
#
#   runpath_test.sh BUILD_DIRECTORY
set -eu
wrong=0
seen=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find "$1" -name CMakeFiles -prune -o -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u+x \) -print > "$list"
while IFS= read -r file; do
  [ "$(head -c 4 "$file" | tail -c 3)" = ELF ] || continue
  seen=$((seen + 1))
  # "0x... (RUNPATH)  Library runpath: [a:b]"
  paths=$(readelf -dW "$file" | sed -n 's/.*(R\(UN\)\{0,1\}PATH).*\[\(.*\)\].*/:\2:/p')
  case $paths in
    *::*)
      echo "$file: RUNPATH $paths has an empty entry, the current folder" >&2
      wrong=1 ;;
  esac
  if printf '%s' "$paths" | tr ':' '\n' | grep -v '^$' | grep -qv '^[/$]'; then
    echo "$file: RUNPATH $paths has a relative entry" >&2
    wrong=1
  fi
done < "$list"
if [ "$seen" -eq 0 ]; then
  echo "$1 has no program or module" >&2
  exit 1
fi
[ "$wrong" -eq 0 ] && echo "$seen programs and modules: every entry of a search path is a whole path"
