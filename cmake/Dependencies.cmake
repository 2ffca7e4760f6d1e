# Everything comes from Debian 12's packages; scripts/install-deps names them.
find_package(Threads REQUIRED)  # all that the library needs
if(NOT CXXRUN_PROGRAMS)
  return()
endif()

set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS filesystem)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
# Header-only: compiled into src/base/os/log.cpp.
find_path(CXXRUN_SPDLOG_INCLUDE spdlog/spdlog.h REQUIRED)
find_path(CXXRUN_FMT_INCLUDE fmt/format.h REQUIRED)
# Only its header: the library is loaded when workers are to be bound to CPUs, and may be missing (docs/use/binding.md).
find_path(CXXRUN_HWLOC_INCLUDE hwloc.h REQUIRED)
# The same: loaded where munged runs, when nodes have to be sent a key (docs/use/security.md).
find_path(CXXRUN_MUNGE_INCLUDE munge.h REQUIRED)

# Static, so that the programs need no package on the nodes.
find_path(CXXRUN_SODIUM_INCLUDE sodium.h REQUIRED)
find_library(CXXRUN_SODIUM libsodium.a REQUIRED)
add_library(cxxrun_sodium INTERFACE)
target_include_directories(cxxrun_sodium SYSTEM INTERFACE ${CXXRUN_SODIUM_INCLUDE})
target_link_libraries(cxxrun_sodium INTERFACE ${CXXRUN_SODIUM})

# Asio and Process are compiled once, in src/base/os/asio_impl.cpp.
add_library(cxxrun_boost INTERFACE)
target_link_libraries(cxxrun_boost INTERFACE Boost::headers Boost::filesystem Threads::Threads)
target_compile_definitions(cxxrun_boost INTERFACE BOOST_ASIO_SEPARATE_COMPILATION
  BOOST_ASIO_NO_DEPRECATED BOOST_PROCESS_V2_SEPARATE_COMPILATION)
