// The version of the library whose headers these are:
//
//   #if CXXRUN_VERSION_MAJOR > 0 || CXXRUN_VERSION_MINOR >= 2
//
// The other headers include it first, so that a compiler in an older language mode fails with the message below.
#pragma once

#if __cplusplus < 202002L
#error "cxxrun needs C++20: compile with -std=c++20 or later (g++ 11 or newer)"
#endif

// The build reads these lines.
#define CXXRUN_VERSION_MAJOR 0
#define CXXRUN_VERSION_MINOR 1
#define CXXRUN_VERSION_PATCH 0
