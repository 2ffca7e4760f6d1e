# How tests are added. Their programs are all in ${PROJECT_BINARY_DIR}/tests, which is also where tests run.
set(tests_dir ${PROJECT_BINARY_DIR}/tests)

# cxxrun_command_test(NAME LABELS COMMAND…): every test is added here.
function(cxxrun_command_test name labels)
  get_property(names GLOBAL PROPERTY cxxrun_tests)
  if(name IN_LIST names)  # CMake compares within a folder alone, and ctest -R would run both
    message(FATAL_ERROR "two tests are called ${name}")
  endif()
  set_property(GLOBAL APPEND PROPERTY cxxrun_tests ${name})
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${tests_dir})
  set_tests_properties(${name} PROPERTIES LABELS "${labels}")
endfunction()

# cxxrun_pure_test(NAME): the target NAME needs no other process; without CXXRUN_PURE_TESTS only pure_tests builds it.
function(cxxrun_pure_test name)
  add_dependencies(pure_tests ${name})
  if(NOT CXXRUN_PURE_TESTS)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# cxxrun_test(NAME LABEL FILES… [ALONE FILES…] [LIBS …]): one Catch2 binary, one ctest entry; rooms that use the same NAME share them, for
# linking takes longer than most tests. With CXXRUN_UNITY some FILES are compiled together, those behind ALONE never, as
# they have a name that another one has. Compiled without optimisation in every build: what is tested is in libraries, and
# half of the time to build everything went there.
function(cxxrun_test name label)
  cmake_parse_arguments(arg "" "" "ALONE;LIBS" ${ARGN})
  if(NOT TARGET ${name})
    add_executable(${name})
    target_link_libraries(${name} PRIVATE cxxrun_test_main cxxrun_options)
    target_compile_definitions(${name} PRIVATE CXXRUN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    if(NOT label STREQUAL slow)
      target_compile_options(${name} PRIVATE -O0)
      target_precompile_headers(${name} REUSE_FROM cxxrun_test_main)
      set_target_properties(${name} PROPERTIES UNITY_BUILD ${CXXRUN_UNITY} UNITY_BUILD_MODE GROUP)
    endif()
    if(label MATCHES "unit|scenario")
      cxxrun_pure_test(${name})
    endif()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir} CXXRUN_IS_TEST ON)
    cxxrun_command_test(${name} ${label} ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900)
  endif()
  target_sources(${name} PRIVATE ${arg_UNPARSED_ARGUMENTS} ${arg_ALONE})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  # Six at a time: more take as long each, and no CPU is left over for them at the end.
  set(count 0)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME room)
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    math(EXPR group "${count} / 6")
    set_property(SOURCE ${source} TARGET_DIRECTORY ${name} PROPERTY UNITY_GROUP ${room}${group})
    math(EXPR count "${count} + 1")
  endforeach()
endfunction()

# cxxrun_old_kernel_test(NAME LABELS COMMAND…): twice, with ENOSYS and with EPERM for what is newer than Linux 4.18.
function(cxxrun_old_kernel_test name labels)
  cxxrun_command_test(${name}_old_kernel "${labels}" $<TARGET_FILE:old_kernel> ${ARGN})
  cxxrun_command_test(${name}_forbidden_calls "${labels}" $<TARGET_FILE:old_kernel> --eperm ${ARGN})
  set_tests_properties(${name}_old_kernel ${name}_forbidden_calls PROPERTIES TIMEOUT 300)
endfunction()

# cxxrun_skipped_test(NAMES… [WHY TEXT]): stands for tests of what is not built, without TEXT the CUDA plugin.
function(cxxrun_skipped_test)
  cmake_parse_arguments(arg "" "WHY" "" ${ARGN})
  if(NOT arg_WHY)
    set(arg_WHY "the CUDA plugin is not built: ${cxxrun_cuda_missing}")
  endif()
  foreach(name ${arg_UNPARSED_ARGUMENTS})
    cxxrun_command_test(${name} process sh -c "echo \"$0\" && exit 77" "skipped: ${arg_WHY}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
endfunction()

# cxxrun_torch_options(TARGETS…): programs of tests with libtorch.
function(cxxrun_torch_options)
  foreach(target ${ARGN})
    target_link_libraries(${target} PRIVATE train_libtorch)
    set_target_properties(${target} PROPERTIES CXXRUN_SHARED_STDCXX ON)
  endforeach()
endfunction()

# cxxrun_bench(NAME FILES… [LIBS …]): a program that a script measures or loads something with. Not a test.
function(cxxrun_bench name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE cxxrun_options ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
endfunction()

# cxxrun_c_options(TARGETS…): the warnings of the tests' C programs, and where they go.
function(cxxrun_c_options)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion
      $<$<BOOL:${CXXRUN_WERROR}>:-Werror>)
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${tests_dir} LIBRARY_OUTPUT_DIRECTORY ${tests_dir})
  endforeach()
endfunction()

# cxxrun_python_test(NAME LABEL SCRIPT ARGS…): a script that gets paths of programs; exit code 77 means skipped.
# Debian's interpreter, because Debian's torch belongs to it.
function(cxxrun_python_test name label script)
  cxxrun_command_test(${name} "${label};python" /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

# cxxrun_newest_python_test(…): the same with the newest PyTorch, where tests/support/todays_torch has fetched it.
function(cxxrun_newest_python_test name label script)
  cxxrun_command_test(${name} "${label};python;slow"
    ${PROJECT_SOURCE_DIR}/tests/support/todays_torch run /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

# cxxrun_todays_python_test(NAME_today …): that, and its twin NAME_trixie with the PyTorch of Debian 13.
function(cxxrun_todays_python_test name label script)
  cxxrun_newest_python_test(${name} "${label}" ${script} ${ARGN})
  string(REGEX REPLACE "_today$" "_trixie" twin ${name})
  cxxrun_command_test(${twin} "${label};python;slow" ${PROJECT_SOURCE_DIR}/tests/support/todays_torch trixie run
    /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
  set_tests_properties(${twin} PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
endfunction()

# cxxrun_fuzz(NAME FILES… [LIBS …]): a fuzz target with the driver that g++ lacks; ctest runs it for 10 s, NAME_long for 120.
function(cxxrun_fuzz name)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  add_executable(${name} driver.cpp ${arg_UNPARSED_ARGUMENTS})
  cxxrun_pure_test(${name})
  target_link_libraries(${name} PRIVATE cxxrun_options ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${tests_dir})
  string(REPLACE "fuzz_" "" corpus ${name})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${corpus})  # inputs worth keeping, crashes of the past among them
  if(NOT EXISTS ${corpus})
    set(corpus "")
  endif()
  cxxrun_command_test(${name} fuzz ${name} 1 10 ${corpus})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  cxxrun_command_test(${name}_long "fuzz;slow" ${name} 2 120 ${corpus})
  set_tests_properties(${name}_long PROPERTIES TIMEOUT 600)
endfunction()

# cxxrun_slurm_test(NAME SCRIPT [slow]): whole jobs on a real Slurm that the script starts; skipped where none can run.
# One after another: their clusters would not disturb each other, but this machine's few CPUs are shared. They come first,
# so that all others run beside them, while they wait for Slurm's daemons.
function(cxxrun_slurm_test name script)
  cxxrun_command_test(${name} "slurm;${ARGN}"
    /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${script} $<TARGET_FILE:cxxrun_program>)
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77 RESOURCE_LOCK slurm COST 100)
endfunction()

# cxxrun_todays_slurm_test(NAME SUITE run|guest SCRIPT [slow]): the same on a Slurm that tests/support/todays_slurm has fetched.
function(cxxrun_todays_slurm_test name suite place script)
  cxxrun_command_test(${name} "todays_slurm;${ARGN}" ${PROJECT_SOURCE_DIR}/tests/support/todays_slurm ${suite} ${place}
    /usr/bin/python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} $<TARGET_FILE:cxxrun_program>)
  set_tests_properties(${name} PROPERTIES TIMEOUT 3600 SKIP_RETURN_CODE 77 RESOURCE_LOCK slurm COST 100
    ENVIRONMENT CXXRUN_PATIENCE=1)
endfunction()
