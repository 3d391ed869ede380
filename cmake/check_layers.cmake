# Fails when a file includes what its folder may not:
#
#   core/base <- core/spec <- core/plan <- core/program <- core/record
#   core      <- sim  <- planner <- validate <- cli
#   core      <- framework <- planner, validate, edit, cli, gui   (sim never: it gets plain structs from core/record)
#   core      <- exec <- cli
#   planner   <- edit <- cli, gui/model
#   sim/cost  <- forecast <- cli, gui
#   sim/cost  <- serve <- validate, cli
#   core      <- jobs <- cli
#   planner   <- sweep <- report <- cli
#   validate  <- gui/model <- gui/widgets <- gui/app
#   cli       <- python
#   sim/cost  <- sim/estimate, sim/net <- sim/des;  sim/memory apart
#
# (a <- b: b may include a), when a third-party library is included outside the
# folders it is for, or a heavy one in a header.
#
#   cmake -D ROOT=<source directory> -P check_layers.cmake

# Folder, longest prefix first; what it may include, as a regular expression
# over our own include paths.
set(layers
  "core/base"          "core/base/"
  "core/spec"          "core/(base|spec)/"
  "core/plan"          "core/(base|spec|plan)/"
  "core/program/lower" "core/(base|spec|plan|program)/"
  "core/program"       "core/(base|spec|plan|program)/[a-z0-9_]+[.]hpp"   # not lower/: verify shares no code with it
  "core/record"        "core/"
  "sim/cost"           "(core|sim/cost)/"
  "sim/memory"         "(core|sim/memory)/"
  "sim/estimate"       "(core|sim/cost|sim/estimate)/"
  "sim/net"            "(core|sim/cost|sim/net)/"
  "sim/des"            "(core|sim/cost|sim/net|sim/des)/"
  "framework"          "(core|framework)/"
  "planner"            "(core|sim|framework|planner)/"
  "serve"              "(core|sim/cost|serve)/"
  "forecast"           "(core|sim/cost|forecast)/"
  "jobs"               "(core|jobs)/"
  "validate"           "(core|sim|framework|planner|serve|validate)/"
  "edit"               "(core|framework|planner|edit)/"
  "sweep"              "(core|sim|framework|planner|sweep)/"
  "report"             "(core|sim|framework|planner|sweep|report)/"
  "exec"               "(core|exec)/"
  "cli"                "(core|sim|framework|planner|serve|forecast|jobs|validate|sweep|report|exec|edit|cli)/"
  "python"             "(core|sim|framework|planner|validate|cli|python)/"
  "gui/model"          "(core|sim|framework|planner|forecast|validate|edit|gui/model)/"
  "gui/widgets"        "(core|sim|framework|planner|forecast|validate|edit|gui/(model|widgets))/"
  "gui/app"            "(core|sim|framework|planner|forecast|validate|edit|gui)/"
  "tests/(perf/)?gui"   "(core|sim|framework|planner|forecast|validate|edit|gui|tests)/"
  "tests"              "(core|sim|framework|planner|serve|forecast|jobs|validate|sweep|report|exec|edit|cli|tests)/")

# Library (as included); folders that may include it; folders whose headers may too.
set(none "^$")
set(libraries
  "toml[+][+]/"             "core/(base|spec|plan)/"              "${none}"
  "nlohmann/json[.]hpp"     "(core|sim|planner|serve|forecast|jobs|validate|sweep|exec|cli|python)/"  "${none}"
  "nlohmann/json_fwd[.]hpp" "(core|sim|planner|forecast|validate|exec|cli)/"        "."
  "nanobind/"               "python/"                             "."
  "CLI/"                    "cli/"                                "${none}"
  "boost/"                  "(core|sim)/"                         "${none}"
  "pugixml"                 "sim/net/import/"                     "${none}"
  "yaml-cpp/"               "(sim/net/import|framework)/"         "${none}"
  "Eigen/"                  "(exec|sim/cost|validate)/"           "exec/kernels/cpu/"   # private to that folder
  "(tbb|oneapi)/"           "(planner|validate)/"                            "${none}"
  "hwloc"                   "exec/calibrate/"                     "${none}"
  "zlib"                    "exec/checkpoint/"                    "${none}"
  "atomic$"                 "(exec|planner|sweep|cli|python|gui/model|sim/des|core/record)/" "."   # sim/des, core/record: only to be told to stop
  "mutex$"                  "(exec|planner|sweep|cli|python|gui/model)/" "."
  "thread$"                 "(exec|planner|sweep|cli|gui|sim/memory)/"  "."   # sim/memory: stages are played side by side
  "(shared_mutex|condition_variable|future|barrier|latch|semaphore|stop_token)$"
                            "(exec|planner|cli|python|gui)/"      "."
  "qcustomplot"             "gui/widgets/"                        "."
  "Q(Widget|Dialog|Painter|[A-Za-z]+(View|Button|Box|Layout|Bar|Window))$"   # gui/model knows no widgets
                            "gui/(widgets|app)/"                  "."
  "Q[A-Z]"                  "gui/"                                "."
  "(cuda|cublas|nccl|mpi)"  "exec/(kernels/cuda|comm)/"           ".")

set(failures 0)
macro(fail text)
  message("${file}: error: ${text} [layers]")
  math(EXPR failures "${failures} + 1")
endmacro()

file(GLOB_RECURSE files RELATIVE "${ROOT}"
     "${ROOT}/core/*.[hc]pp" "${ROOT}/sim/*.[hc]pp" "${ROOT}/planner/*.[hc]pp" "${ROOT}/validate/*.[hc]pp" "${ROOT}/exec/*.[hc]pp"
     "${ROOT}/framework/*.[hc]pp" "${ROOT}/forecast/*.[hc]pp" "${ROOT}/serve/*.[hc]pp" "${ROOT}/jobs/*.[hc]pp" "${ROOT}/edit/*.[hc]pp" "${ROOT}/sweep/*.[hc]pp" "${ROOT}/report/*.[hc]pp" "${ROOT}/cli/*.[hc]pp" "${ROOT}/python/*.[hc]pp" "${ROOT}/gui/*.[hc]pp" "${ROOT}/tests/*.[hc]pp")
foreach(file IN LISTS files)
  set(allowed "")
  set(rest ${layers})
  while(rest AND NOT allowed)
    list(POP_FRONT rest folder may)
    if(file MATCHES "^${folder}/")
      set(allowed "${may}")
    endif()
  endwhile()
  if(NOT allowed)
    fail("its folder stands in no layer")
    continue()
  endif()

  file(STRINGS "${ROOT}/${file}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"([^\"]+)\"")
      set(path "${CMAKE_MATCH_1}")
      if(NOT EXISTS "${ROOT}/${path}")
        fail("\"${path}\" is not a path from the root")
      elseif(NOT path MATCHES "^${allowed}")
        fail("may not include \"${path}\"")
      endif()
    elseif(NOT file MATCHES "^tests/" AND line MATCHES "<([^>]+)>")
      set(path "${CMAKE_MATCH_1}")
      set(rest ${libraries})
      while(rest)
        list(POP_FRONT rest library folders headers)
        if(path MATCHES "^${library}")
          if(NOT file MATCHES "^${folders}")
            fail("<${path}> does not belong in this folder")
          elseif(file MATCHES "[.]hpp$" AND NOT file MATCHES "^${headers}")
            fail("<${path}> belongs in a .cpp file, behind our own types")
          endif()
        endif()
      endwhile()
    endif()
  endforeach()
endforeach()

list(LENGTH files count)
if(failures GREATER 0)
  message(FATAL_ERROR "${failures} includes cross the layers")
endif()
message(STATUS "layers: ${count} files, every include as allowed")
