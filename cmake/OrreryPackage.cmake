# `cpack` in the build folder makes a package for Debian: program, window, modules, data, manual pages and completions.
# The libraries for other programs and the package for Python are not in it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME orrery)
set(CPACK_PACKAGE_CONTACT "The Orrery developers <orrery@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, predict and run parallel training of transformers")
set(CPACK_PACKAGE_DESCRIPTION "Orrery finds how to split a training over data, tensor and pipeline parallelism,
says how long a step takes and how much memory it needs, and runs the same plan,
so that every prediction can be held against a measurement.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};${PROJECT_NAME};Unspecified;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "graphviz")

# Debian's rules want a licence and a list of changes, compressed.
set(place ${CMAKE_INSTALL_DATADIR}/doc/orrery)
install(FILES LICENSE DESTINATION ${place} RENAME copyright)
find_program(gzip gzip)
if(gzip)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/changelog.gz
    COMMAND ${gzip} -9nc ${CMAKE_SOURCE_DIR}/CHANGELOG.md > ${CMAKE_BINARY_DIR}/changelog.gz
    DEPENDS CHANGELOG.md VERBATIM)
  add_custom_target(orrery_changelog ALL DEPENDS ${CMAKE_BINARY_DIR}/changelog.gz)
  install(FILES ${CMAKE_BINARY_DIR}/changelog.gz DESTINATION ${place})
endif()
include(CPack)
