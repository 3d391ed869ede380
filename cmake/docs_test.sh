#!/bin/sh
# docs_test.sh SOURCE_DIRECTORY: fails when a page of the documentation
#   - has a relative link whose file or heading is not there,
#   - names a file of the source that is not there (CHANGELOG.md tells history and may),
#   - cannot be reached: docs/index.md links each page of docs, docs/NAME.md each page of docs/NAME,
#   - has a line above 120 columns outside of tables, code and links that stand alone,
#   - has a sentence that begins with "Of" or "Those of".
set -eu
export LC_ALL=C
cd "$1"
pages="README.md CONTRIBUTING.md CHANGELOG.md $(find docs -name '*.md' | sort)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One walk over all pages: PLACE<tab>heading|link|file|fault<tab>WHAT. A heading's name is made as GitHub makes it.
# shellcheck disable=SC2086
awk -v OFS='\t' '
  function place() { return FILENAME ":" FNR }
  function slug(text) {
    gsub(/\]\([^)]*\)/, "", text)
    text = tolower(text)
    gsub(/[^-a-z0-9_ \200-\377]/, "", text)
    gsub(/ /, "-", text)
    return text
  }
  FNR == 1 { code = 0; before = "" }
  /^ *```/ { code = !code; before = ""; next }
  code { next }
  /^#+ / {
    text = $0
    sub(/^#+ +/, "", text)
    name = slug(text)
    if (seen[FILENAME, name]++) name = name "-" (seen[FILENAME, name] - 1)
    print FILENAME, "heading", name
  }
  {
    columns = $0
    gsub(/[\200-\277]/, "", columns)  # what follows the first byte of a character
    if (length(columns) > 120 && !/^ *\|/ && !/^    / && !/^[^ ]*$/)
      print place(), "fault", length(columns) " columns, above 120"

    text = $0
    gsub(/`[^`]*`/, "", text)
    # A new sentence: at the beginning of a paragraph or after the end of another, behind markup.
    if (text ~ /[.:;!?|] +[*_("]*(Of|Those of)( |$)/ || text ~ /^[-#*>|0-9. ]+[*_("]*(Of|Those of)( |$)/ ||
        (text ~ /^[*_("]*(Of|Those of)( |$)/ && before ~ /(^|[.:;!?)*]) *$/))
      print place(), "fault", "a sentence begins with \"Of\" or \"Those of\""
    before = $0

    rest = text
    while (match(rest, /\]\([^) ]+\)/)) {
      link = substr(rest, RSTART + 2, RLENGTH - 3)
      rest = substr(rest, RSTART + RLENGTH)
      if (link !~ /^[a-z]+:/) print place(), "link", link
    }

    rest = $0
    gsub(/\]\([^)]*\)|https?:[^ ]*/, "", rest)
    while (match(rest, /[-A-Za-z0-9_.\/*]+/)) {
      word = substr(rest, RSTART, RLENGTH)
      rest = substr(rest, RSTART + RLENGTH)
      sub(/^\.\.\//, "", word)
      if (word ~ /^docs\/_/) continue  # a folder of DeepSpeed
      if (word ~ /^(core|framework|sim|planner|forecast|jobs|serve|validate|sweep|report|exec|edit|cli|gui|models|traces|tests|tools|cmake|docs)\/[-a-z0-9_.\/]+\.(hpp|cpp|cu|cmake|sh|md|toml|csv|json|txt|svg|png)$/)
        print place(), "file", word
    }
  }' $pages > "$work/found"

faults=0
fault() { echo "$1: error: $2" >&2; faults=1; }

tab=$(printf '\t')
while IFS="$tab" read -r place kind what; do
  page=${place%%:*}
  case $kind in
    fault) fault "$place" "$what" ;;
    file)
      [ "$page" = CHANGELOG.md ] || [ -e "$what" ] || fault "$place" "there is no $what" ;;
    link)
      target=$page
      file=${what%%#*}
      [ -z "$file" ] || target=$(dirname "$page")/$file
      target=$(realpath -m --relative-to=. "$target")
      if [ ! -e "$target" ]; then
        fault "$place" "the link $what leads nowhere"
      else
        echo "$page$tab$target" >> "$work/links"
        case $what in
          *'#'*) grep -qxF "$target${tab}heading${tab}${what#*#}" "$work/found" ||
                 fault "$place" "$target has no heading #${what#*#}" ;;
        esac
      fi ;;
  esac
done < "$work/found"

for page in $(find docs -name '*.md' | sort); do
  folder=$(dirname "$page")
  from=$folder.md
  [ "$folder" != docs ] || from=docs/index.md
  [ "$page" = docs/index.md ] || grep -qxF "$from$tab$page" "$work/links" || fault "$from" "it has no link to $page"
done

[ "$faults" -eq 0 ] && echo "$(echo "$pages" | wc -w) pages: every link leads somewhere"
