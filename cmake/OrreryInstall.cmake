# Installs the libraries of all folders but the trainer, the command line and the window for other programs:
#
#   find_package(orrery REQUIRED)
#   target_link_libraries(mine PRIVATE orrery::orrery)
#
# `cmake --install BUILD --component library` installs these alone.
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY orrery_installed_libraries)
add_library(orrery_everything INTERFACE)
target_link_libraries(orrery_everything INTERFACE ${libraries})
set_target_properties(orrery_everything PROPERTIES EXPORT_NAME orrery)

set(place ${CMAKE_INSTALL_LIBDIR}/cmake/orrery)
install(TARGETS orrery_options orrery_warnings orrery_checks orrery_everything ${libraries} EXPORT orrery
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/orrery COMPONENT library)
install(EXPORT orrery NAMESPACE orrery:: FILE orrery-targets.cmake DESTINATION ${place} COMPONENT library)
install(DIRECTORY core framework sim planner forecast jobs serve validate sweep report edit
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/orrery COMPONENT library FILES_MATCHING PATTERN "*.hpp")
configure_file(cmake/orrery-config.cmake.in ${CMAKE_BINARY_DIR}/orrery-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/orrery-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/orrery-config.cmake ${CMAKE_BINARY_DIR}/orrery-config-version.cmake
        DESTINATION ${place} COMPONENT library)
