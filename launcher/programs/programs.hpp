// The programs in the one executable. Shell.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// `arguments`: without the name of the program. Each returns its exit code.
int run_rendezvous(std::vector<std::string> const& arguments);
int run_store(std::vector<std::string> const& arguments);

}  // namespace cxxrun::launcher
