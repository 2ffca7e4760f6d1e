# CXXRUN_SYSROOT: what is shipped (scripts/release) is compiled with the machine's compiler and linked against the libc of that
# root, so that it runs wherever that libc or a newer one is. Programs and shared libraries link cxxrun_libc for it.
set(CXXRUN_SYSROOT "" CACHE PATH "Root with glibc 2.31 and its headers to link against")
add_library(cxxrun_libc INTERFACE)
if(CXXRUN_SYSROOT)
  enable_language(C)
  set(libraries ${CXXRUN_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} ${CXXRUN_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE})
  list(TRANSFORM libraries PREPEND -L OUTPUT_VARIABLE search)
  list(GET libraries 0 start)  # without -B and -L g++ takes the libc of the machine all the same
  target_sources(cxxrun_libc INTERFACE ${PROJECT_SOURCE_DIR}/src/base/os/newer_libc.c)
  target_link_libraries(cxxrun_libc INTERFACE -ldl -lpthread)
  target_link_options(cxxrun_libc INTERFACE --sysroot=${CXXRUN_SYSROOT} -B${start} ${search}
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie> LINKER:--gc-sections,-z,relro,-z,now,--build-id=sha1)
endif()
