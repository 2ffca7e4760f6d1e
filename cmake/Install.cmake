# Installed, by component: launcher (programs, what Python and C workers load, manual pages, completions), dev (library,
# headers, CMake and pkg-config files), cuda (the plugin). scripts/release makes a package of each.
include(CMakePackageConfigHelpers)
install(TARGETS cxxrun cxxrun_c EXPORT cxxrunTargets
  ARCHIVE COMPONENT dev
  LIBRARY COMPONENT launcher NAMELINK_COMPONENT dev)
install(DIRECTORY include/cxxrun DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cxxrun)
install(EXPORT cxxrunTargets NAMESPACE cxxrun:: DESTINATION ${config_dir} COMPONENT dev)
configure_package_config_file(cmake/cxxrunConfig.cmake.in ${PROJECT_BINARY_DIR}/cxxrunConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cxxrunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cxxrunConfig.cmake ${PROJECT_BINARY_DIR}/cxxrunConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT dev)
# From where the file lies, so that what `cmake --install --prefix` was told, or a later move, needs no other file.
file(RELATIVE_PATH CXXRUN_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" CXXRUN_PREFIX_FROM_PC "${CXXRUN_PREFIX_FROM_PC}")
configure_file(cmake/cxxrun.pc.in ${PROJECT_BINARY_DIR}/cxxrun.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cxxrun.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

if(NOT CXXRUN_PROGRAMS)
  return()
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME launcher)
install(TARGETS cxxrun_program cxxrunctl_program)
install(FILES $<TARGET_FILE_DIR:cxxrun_program>/cxxrun-rendezvous $<TARGET_FILE_DIR:cxxrun_program>/cxxrun-store
  TYPE BIN)  # links
install(FILES docs/use/cxxrun.1 docs/use/cxxrun-rendezvous.1 docs/use/cxxrun-store.1 docs/use/cxxrunctl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(program cxxrun cxxrun-rendezvous cxxrun-store cxxrunctl)
  install(FILES scripts/completion/cxxrun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME ${program})
  install(FILES scripts/completion/cxxrun.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    RENAME ${program}.fish)
endforeach()
install(FILES scripts/completion/_cxxrun DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# For Python workers. Debian's interpreter looks there below /usr; elsewhere the module file says so. Other distributions'
# interpreters search directories with their own version in the name alone.
install(DIRECTORY src/runtime/python/cxxrun DESTINATION lib/python3/dist-packages FILES_MATCHING
  PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)

# `module use PREFIX/share/modulefiles`: the file finds PREFIX from where it lies.
install(FILES cmake/packaging/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/cxxrun
  RENAME ${PROJECT_VERSION})
install(FILES cmake/packaging/Containerfile cmake/packaging/cxxrun.def DESTINATION ${CMAKE_INSTALL_DATADIR}/cxxrun)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE TYPE DOC)
install(FILES ${PROJECT_BINARY_DIR}/NOTICES TYPE DOC OPTIONAL)  # scripts/release writes it
install(DIRECTORY docs TYPE DOC FILES_MATCHING PATTERN "*.md" PATTERN "*.1" PATTERN "*.svg")  # all that pages link to
install(DIRECTORY examples TYPE DOC PATTERN __pycache__ EXCLUDE)
include(cmake/Packages.cmake)
