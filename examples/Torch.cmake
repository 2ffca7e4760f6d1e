# Target train_libtorch: libtorch, where it is found with its headers (Debian: libtorch-dev). Nothing is ever downloaded.
#   -DCXXRUN_WITH_TORCH=OFF leaves out what needs it
#   -DCMAKE_PREFIX_PATH=…  names the folder of another one
option(CXXRUN_WITH_TORCH "Build what needs libtorch where that is found" ON)

set(cxxrun_torch_missing "")
find_path(TORCH_INCLUDE_DIR torch/csrc/api/include/torch/torch.h)
foreach(part torch torch_cpu c10)
  find_library(TORCH_LIBRARY_${part} ${part})
endforeach()
if(NOT CXXRUN_WITH_TORCH)
  set(cxxrun_torch_missing "CXXRUN_WITH_TORCH is OFF")
elseif(CXXRUN_SANITIZE)
  set(cxxrun_torch_missing "it is not compiled with sanitizers")
elseif(NOT TORCH_INCLUDE_DIR)
  set(cxxrun_torch_missing "its headers were not found")
elseif(NOT TORCH_LIBRARY_torch OR NOT TORCH_LIBRARY_torch_cpu OR NOT TORCH_LIBRARY_c10)
  set(cxxrun_torch_missing "its libraries were not found")
endif()
set_property(GLOBAL PROPERTY cxxrun_torch_missing "${cxxrun_torch_missing}")
if(cxxrun_torch_missing)
  message(STATUS "libtorch: not used, ${cxxrun_torch_missing}")
  return()
endif()

add_library(train_libtorch INTERFACE)
target_include_directories(train_libtorch SYSTEM INTERFACE
  ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_libraries(train_libtorch INTERFACE ${TORCH_LIBRARY_torch} ${TORCH_LIBRARY_torch_cpu} ${TORCH_LIBRARY_c10})
message(STATUS "libtorch: ${TORCH_LIBRARY_torch}")
