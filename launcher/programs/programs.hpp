// The programs in the one executable. Shell.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// `arguments`: without the name of the program. Each returns its exit code.
int run_rendezvous(std::vector<std::string> const& arguments);
int run_store(std::vector<std::string> const& arguments);
/// What an agent starts to hear of GPUs (launcher/agent/gpu_watch.hpp). `names`: of each, as CUDA_VISIBLE_DEVICES has
/// it.
int tell_gpus(std::vector<std::string> const& names);

}  // namespace cxxrun::launcher
