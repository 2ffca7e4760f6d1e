# Installed: the programs, the library for workers, its headers.
install(TARGETS cxxrun EXPORT cxxrunTargets)
install(DIRECTORY include/cxxrun DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
