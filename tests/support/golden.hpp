// Golden files: a text is compared with tests/golden/NAME; CXXRUN_REWRITE=1 writes the file instead, for review by
// diff.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

namespace cxxrun::testing {

inline void check_golden(std::string const& name, std::string const& text) {
  std::string const path = std::string(CXXRUN_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("CXXRUN_REWRITE") != nullptr) {
    std::ofstream(path) << text;
  }
  CHECK(text == read_file(path));
}

}  // namespace cxxrun::testing
