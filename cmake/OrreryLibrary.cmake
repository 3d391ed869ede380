# orrery_library(NAME SOURCES ... LINKS ...): one static library per folder.
# Its links state which folders it may include; check_layers holds it to that.
function(orrery_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC orrery_options ${ARG_LINKS} PRIVATE orrery_warnings ${ARG_PRIVATE})
  if(NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/(exec|tests)(/|$)")
    target_link_libraries(${name} PRIVATE orrery_checks)
  endif()
endfunction()

# orrery_test(NAME SOURCES ... LINKS ... [LABELS ...]): one Catch2 program, one CTest entry.
function(orrery_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE orrery_options orrery_warnings orrery_test_main ${ARG_LINKS})
  target_compile_definitions(${name} PRIVATE ORRERY_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(ORRERY_CHECKED)
    target_compile_options(${name} PRIVATE -O1)  # the time to compile a test is longer than the time to run it
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
