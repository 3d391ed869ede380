# ORRERY_UNITY: the sources of a library are compiled many at a time, each header once for all of them.  A build from
# nothing then takes a third of the processor time; after a change of one source it takes longer.  Names in anonymous
# namespaces need not differ: unity_groups.awk puts sources that share one into different groups.
if(NOT ORRERY_UNITY)
  return()
endif()
find_program(ORRERY_AWK NAMES awk REQUIRED)
file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} core/*.hpp sim/*.hpp exec/*.hpp planner/*.hpp framework/*.hpp
     cli/*.hpp gui/*.hpp python/*.hpp forecast/*.hpp jobs/*.hpp serve/*.hpp validate/*.hpp edit/*.hpp sweep/*.hpp report/*.hpp)
list(TRANSFORM headers REPLACE "(.+)" "- ${CMAKE_SOURCE_DIR}/\\1\n")
string(CONCAT list ${headers})
get_property(unity_libraries GLOBAL PROPERTY orrery_unity_libraries)
foreach(library IN LISTS unity_libraries)
  get_target_property(sources ${library} SOURCES)
  get_target_property(folder ${library} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(source MATCHES "\\.cpp$" AND EXISTS ${source})
      string(APPEND list "${library} ${source}\n")
      set(library_of_${source} ${library})
    endif()
  endforeach()
  set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/unity_sources.txt "${list}")
execute_process(COMMAND ${ORRERY_AWK} -v most=48 -f ${CMAKE_SOURCE_DIR}/cmake/unity_groups.awk
                        ${CMAKE_BINARY_DIR}/unity_sources.txt
                OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" groups "${groups}")
foreach(line IN LISTS groups)
  string(REGEX MATCH "^(.+) ([0-9]+)$" matched "${line}")
  set(source ${CMAKE_MATCH_1})
  if(NOT CMAKE_MATCH_2 EQUAL 0)
    set_source_files_properties(${source} TARGET_DIRECTORY ${library_of_${source}}
                                PROPERTIES UNITY_GROUP ${CMAKE_MATCH_2})
  endif()
endforeach()
