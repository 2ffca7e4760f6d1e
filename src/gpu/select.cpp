#include "src/gpu/select.hpp"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "src/os/system.hpp"
#include "src/os/watchdog.hpp"

namespace cxxrun::gpu {
namespace {

constexpr char const* kFile = "libcxxrun_cuda.so";

bool is_there(std::string const& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// Where it is, or its bare name for the loader to look for.
std::string find_plugin() {
  std::error_code error;
  std::string const here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (std::string const& folder : {here, here + "/../lib", here + "/../lib/cxxrun", std::string(CXXRUN_PLUGIN_DIR)}) {
    if (!folder.empty() && is_there(folder + "/" + kFile)) {
      return folder + "/" + kFile;
    }
  }
  return kFile;
}

/// Looks for device files and libcuda.so.1; a fraction of a millisecond where there is neither.
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

/// The plugin's table: from the file CXXRUN_CUDA_PLUGIN, else from the first there is of: the program's folder,
/// ../lib and ../lib/cxxrun beside it, where cxxrun was installed, the loader's own path. It stays loaded.
/// Errors (not_found): no such file, the loader's own words, another version of the table.
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

/// CXXRUN_BACKEND has the last word.
Result<Backend> backend_or(Backend asked) {
  auto const name = os::variable("CXXRUN_BACKEND");
  auto const backend = name.empty() ? std::optional(asked) : backend_named(name);
  return backend ? Result<Backend>(*backend)
                 : fail(Errc::environment, "CXXRUN_BACKEND is \"" + name + "\", not auto, nccl or host");
}

}  // namespace

Result<Selection> select(Backend asked, WorkerEnv const& env) {
  auto const backend = backend_or(asked);
  if (!backend) {
    return backend.error();
  }
  Findings found;
  found.asked = *backend;
  found.local_rank = env.local_rank;
  found.local_ranks = env.local_world_size;
  found.signs = found.asked == Backend::host ? Signs{} : look_for_signs();
  auto const visible = os::variable("CUDA_VISIBLE_DEVICES");
  found.own_device = !visible.empty() && visible.find(',') == std::string::npos;
  Selection selected;
  selected.nccl_host = os::variable("NCCL_HOSTID");
  found.shared = !selected.nccl_host.empty();
  if (worth_loading(found.asked, found.signs)) {
    auto const plugin = load_plugin();
    if (plugin) {
      selected.api = *plugin;
      selected.api->facts(&found.facts);
    } else {
      found.unusable = plugin.error().context;
    }
  }
  auto const choice = choose(found);
  if (!choice) {
    return choice.error();
  }
  selected.backend = choice->backend;
  if (selected.backend == Backend::host) {
    return selected;
  }
  selected.nccl = found.facts.nccl;
  selected.nccl_settings = std::min(found.facts.nccl, found.facts.nccl_header);
  static std::atomic<bool> used_before{false};
  cxxrun_cuda_status status{};
  if (selected.api->open_device(choice->device, &selected.device, &status) != CXXRUN_CUDA_OK) {
    auto refusal = error_of(status, "GPU " + std::to_string(choice->device) + " cannot be used");
    cxxrun_cuda_status of_any{};
    bool const lost = selected.api->is_device_memory(&status, &of_any) < 0;  // then CUDA answers every question so
    if (used_before && lost && env.world_size > 1) {  // the others can go on without this process
      os::end_process(kDeviceLost, "rank " + std::to_string(env.rank) + ": " + refusal.context + lost_device_text());
    }
    return refusal;
  }
  used_before = true;
  return selected;
}

}  // namespace cxxrun::gpu
