# `cpack` in a release build folder makes a Debian package of the program, the window, the module for MPI, data, manual
# pages and completions.  Libraries and headers for other programs (component `library`) are not in it, nor is the module
# for GPUs (component `gpu`), whose libraries come from NVIDIA.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME orrery)
set(CPACK_PACKAGE_VENDOR "Orrery developers")
set(CPACK_PACKAGE_CONTACT "Orrery developers <developers@orrery.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plans, predicts and runs parallel training of large models")
set(CPACK_PACKAGE_DESCRIPTION
"Orrery finds how to split the training of a transformer over many GPUs (data, tensor, pipeline, context and expert
parallelism, ZeRO, recomputation, offload), predicts step time and memory on a modeled cluster, and runs the same plan
on CPU threads, processes or MPI.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};orrery;Unspecified;/")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fonts-dejavu-core, graphviz")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin")
include(CPack)
