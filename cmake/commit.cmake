# Writes the commit that is built into a source file, and only where it has changed.
#
#   cmake -D ROOT=<source directory> -D OUT=<file> -P commit.cmake
#
# "3f2a1c0", with "-changed" behind it where files differ from it; "unknown" outside a repository.
set(commit "unknown")
find_program(git git)
if(git AND EXISTS "${ROOT}/.git")
  execute_process(COMMAND ${git} -C ${ROOT} describe --always --exclude=* --abbrev=10 --dirty=-changed
                  OUTPUT_VARIABLE found RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit "${found}")
  endif()
endif()
set(text "#include \"cli/commit.hpp\"\n\nnamespace orrery {\n\nconst char* orrery_commit() { return \"${commit}\"; }\n\n}  // namespace orrery\n")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUT}" "${text}")
endif()
