// The programs that one file holds. Shell.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// Each gets its arguments without its name and returns its exit code.
int run_rendezvous(std::vector<std::string> const& arguments);
int run_store(std::vector<std::string> const& arguments);

}  // namespace cxxrun::launcher
