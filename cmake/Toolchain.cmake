# Language level, warnings, sanitizers and ccache; nothing here is exported to users of the library.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CXXRUN_CCACHE ccache)
if(CXXRUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What it asks for before it looks at precompiled headers; nothing here uses __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CXXRUN_CCACHE})
endif()

add_library(cxxrun_options INTERFACE)
target_compile_options(cxxrun_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion
  $<$<BOOL:${CXXRUN_WERROR}>:-Werror>)
# g++ 12 at -O2 sees uninitialised members in every std::variant of structs with numbers; ASan and tidy look instead.
# At -O3 it also takes "text" + string for an overlap.
target_compile_options(cxxrun_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
target_include_directories(cxxrun_options INTERFACE ${PROJECT_SOURCE_DIR})
# Both warn of what is right when the files of a room are compiled together.
set(by_room $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(cxxrun_options INTERFACE
  $<$<NOT:${by_room}>:-Wshadow> $<$<AND:${by_room},$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>)
if(CXXRUN_SANITIZE)
  list(JOIN CXXRUN_SANITIZE "," sanitizers)
  target_compile_options(cxxrun_options INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g1)
  target_link_options(cxxrun_options INTERFACE -fsanitize=${sanitizers})
  target_compile_definitions(cxxrun_options INTERFACE CXXRUN_SANITIZED)
  # As by g++: looking for uses of a stack that is left costs a quarter of the time.
  target_compile_options(cxxrun_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fsanitize-address-use-after-return=never>)
  if("undefined" IN_LIST CXXRUN_SANITIZE)
    # This check opens a pipe to look at memory, and reports healthy objects when no descriptor is left.
    target_compile_options(cxxrun_options INTERFACE -fno-sanitize=vptr)
    # In the tests' own code these two cost a quarter of its compile time; what is tested is compiled with all.
    target_compile_options(cxxrun_options INTERFACE $<$<BOOL:$<TARGET_PROPERTY:CXXRUN_IS_TEST>>:-fno-sanitize=null,alignment>)
  endif()
  if("thread" IN_LIST CXXRUN_SANITIZE)
    # ThreadSanitizer does not model the fences in Asio's headers; g++ says so at each.
    target_compile_options(cxxrun_options INTERFACE -Wno-tsan)
  endif()
elseif(PROJECT_IS_TOP_LEVEL)  # a static library hands such options on to whoever links it
  # Start-up time: shared libstdc++ costs more than a millisecond per process (docs/evidence/performance.md).
  # A program with C++ libraries of others has to use theirs: its target has the property CXXRUN_SHARED_STDCXX.
  target_link_options(cxxrun_options INTERFACE
    "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:CXXRUN_SHARED_STDCXX>>>:-static-libstdc++;-static-libgcc>")
endif()

# cxxrun_compile_by_room(TARGET [FILES…]): with CXXRUN_UNITY one compilation for all its files of a folder, but FILES and
# those with options or definitions of their own, which CMake leaves out.
function(cxxrun_compile_by_room target)
  if(NOT CXXRUN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  list(REMOVE_ITEM sources ${ARGN})
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH room)
    if(NOT room)
      set(room ${target})
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${room}")
  endforeach()
endfunction()
