// The version of the library whose headers these are:
//
//   #if CXXRUN_VERSION_MAJOR > 0 || CXXRUN_VERSION_MINOR >= 2
//
// Included by the other headers, so that an older language is named before anything else goes wrong.
#pragma once

#if __cplusplus < 202002L
#error "cxxrun needs C++20: compile with -std=c++20 or later (g++ 11 or newer)"
#endif

// The build reads them here.
#define CXXRUN_VERSION_MAJOR 0
#define CXXRUN_VERSION_MINOR 1
#define CXXRUN_VERSION_PATCH 0
