# orrery_nvidia_packages(VARIABLE): the folders in which pip has put NVIDIA's packages: those of the checkout's own
# environment (tools/setup makes it), of the active one, and of the machine's Pythons; the first goes first.
function(orrery_nvidia_packages variable)
  set(all)
  foreach(root ${CMAKE_SOURCE_DIR}/build/nvidia "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}" /opt/venv /opt/conda "$ENV{HOME}/.local" /usr/local
          /usr)
    if(root)
      file(GLOB found LIST_DIRECTORIES true ${root}/lib/python3*/site-packages ${root}/lib/python3*/dist-packages)
      list(APPEND all ${found})
    endif()
  endforeach()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()
