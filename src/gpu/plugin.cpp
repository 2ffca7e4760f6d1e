#include "src/gpu/plugin.hpp"

#include <array>
#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

#include "src/os/system.hpp"

#ifndef CXXRUN_PLUGIN_DIR
#define CXXRUN_PLUGIN_DIR ""
#endif

namespace cxxrun::gpu {
namespace {

constexpr char const* kFile = "libcxxrun_cuda.so";

std::string folder_of_program() {
  std::array<char, 4096> path{};
  ssize_t const size = ::readlink("/proc/self/exe", path.data(), path.size());
  std::string_view const whole(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  auto const slash = whole.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(whole.substr(0, slash));
}

bool is_there(std::string const& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// Where it is, or its bare name for the loader to look for.
std::string find_plugin() {
  std::string const here = folder_of_program();
  std::string const installed = CXXRUN_PLUGIN_DIR;
  for (auto const& folder : {here, here + "/../lib", here + "/../lib/cxxrun", installed}) {
    if (!folder.empty() && is_there(folder + "/" + kFile)) {
      return folder + "/" + kFile;
    }
  }
  return kFile;
}

}  // namespace

Signs look_for_signs() {
  Signs signs;
  signs.named = !os::variable("CXXRUN_CUDA_PLUGIN").empty();
  for (char const* const file : {"/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/gpus", "/dev/dxg"}) {
    signs.device = signs.device || is_there(file);
  }
  if (void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    signs.driver = true;
    ::dlclose(driver);
  }
  return signs;
}

Result<cxxrun_cuda_api const*> load_plugin() {
  std::string const named = os::variable("CXXRUN_CUDA_PLUGIN");
  std::string const path = named.empty() ? find_plugin() : named;
  if (!named.empty() && !is_there(named)) {
    return fail(Errc::not_found, "there is no file " + named + ", which CXXRUN_CUDA_PLUGIN names");
  }
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    char const* const why = ::dlerror();
    std::string const words = why == nullptr ? path + " cannot be loaded" : why;
    bool const absent = path == kFile && words.rfind(kFile, 0) == 0;
    return fail(Errc::not_found, absent ? std::string(kFile) +
                                              " was not found beside the program, in ../lib of it or "
                                              "where cxxrun was installed: build cxxrun with CUDA, or name the file in "
                                              "CXXRUN_CUDA_PLUGIN"
                                        : "the CUDA plugin is not usable: " + with_remedy(words));
  }
  auto const get = reinterpret_cast<cxxrun_cuda_api_function>(::dlsym(library, CXXRUN_CUDA_SYMBOL));
  if (get == nullptr) {
    return fail(Errc::not_found, path + " is not a CUDA plugin of cxxrun's: it has no " CXXRUN_CUDA_SYMBOL);
  }
  cxxrun_cuda_api const* const api = get(CXXRUN_CUDA_ABI);
  if (api == nullptr || api->abi != CXXRUN_CUDA_ABI) {
    return fail(Errc::not_found, path + " is of another version of cxxrun (it has no table of version " +
                                     std::to_string(CXXRUN_CUDA_ABI) + "); install both from the same build");
  }
  return api;
}

}  // namespace cxxrun::gpu
