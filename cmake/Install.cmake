# Installed: the programs, the library for workers, its headers.
install(TARGETS cxxrun EXPORT cxxrunTargets)
install(DIRECTORY include/cxxrun DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/cxxrun.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES scripts/completion/cxxrun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME cxxrun)
