# What CPack makes .deb and .rpm of: the components of Install.cmake, stripped. scripts/release calls it, once for each, since
# they have different library directories.
set(CPACK_PACKAGE_NAME cxxrun)
set(CPACK_PACKAGE_VENDOR "cxxrun")
set(CPACK_PACKAGE_CONTACT "The maintainers of cxxrun <maintainers@cxxrun.invalid>")
set(CPACK_PACKAGE_DESCRIPTION "Starts distributed training on a Slurm cluster and keeps it running: one program per node that "
  "takes torchrun's command line, starts the workers, notices what fails, says why, and starts again with what is left.")
string(JOIN "" CPACK_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL launcher dev)
if(CXXRUN_CUDA)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENT_LAUNCHER_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_COMPONENT_DEV_DESCRIPTION "What C and C++ workers of cxxrun link: collectives, gradients, checkpoints, store.")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "What lets C++ workers of cxxrun average gradients on GPUs. It needs \
libcudart.so.${CUDAToolkit_VERSION_MAJOR} and libnccl.so.2 (2.19 or newer) from where the cluster has them.")

# The library that is loaded at run time is in the launcher's package, which needs libc alone.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_NAME cxxrun)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_DEPENDS "libc6 (>= 2.28)")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME cxxrun-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "cxxrun (= ${PROJECT_VERSION}), libc6-dev (>= 2.34), libstdc++-dev")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME cxxrun-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "libc6 (>= 2.28)")
set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "libnccl2 (>= 2.19)")

set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT launcher)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP "Applications/Engineering")
set(CPACK_RPM_DEV_PACKAGE_NAME cxxrun-devel)
set(CPACK_RPM_DEV_PACKAGE_AUTOREQ OFF)
# No libstdc++-devel: that of a compiler beside the distribution's own has another name.
set(CPACK_RPM_DEV_PACKAGE_REQUIRES "cxxrun = ${PROJECT_VERSION}, glibc-devel >= 2.34")
set(CPACK_RPM_CUDA_PACKAGE_NAME cxxrun-cuda)
set(CPACK_RPM_CUDA_PACKAGE_AUTOREQ OFF)
set(CPACK_RPM_CUDA_PACKAGE_REQUIRES "glibc >= 2.28")
# Directories of others.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION)
foreach(shared bash-completion bash-completion/completions fish fish/vendor_completions.d zsh zsh/site-functions modulefiles)
  list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/${shared})
endforeach()
list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/python3 /usr/lib/python3/dist-packages
  /usr/${CMAKE_INSTALL_LIBDIR}/cmake /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# A package of files that are there and stripped; nothing in it names the machine or the time of its build.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define __os_install_post %{nil}
%define _buildhost cxxrun
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/packaging/times.cmake)
include(CPack)
