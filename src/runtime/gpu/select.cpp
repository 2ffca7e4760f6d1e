#include "src/runtime/gpu/select.hpp"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "src/base/os/system.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::gpu {
namespace {

constexpr char const* kFile = "libcxxrun_cuda.so";

bool is_there(std::string const& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// The folder of the library or program that contains this code: libcxxrun_c.so.0 if Python has loaded it. "" if
/// unknown.
std::string own_folder() {
  Dl_info own{};
  bool const known = ::dladdr(kFile, &own) != 0 && own.dli_fname != nullptr && *own.dli_fname == '/';
  return known ? std::filesystem::path(own.dli_fname).parent_path().string() : std::string();
}

/// The path of the plugin, or its bare name if the loader has to search for it.
std::string find_plugin() {
  std::error_code error;
  std::string const own = own_folder();
  std::string const here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (std::string const& folder : {own, own.empty() ? own : own + "/cxxrun", here, here + "/../lib",
                                    here + "/../lib/cxxrun", std::string(CXXRUN_PLUGIN_DIR)}) {
    if (!folder.empty() && is_there(folder + "/" + kFile)) {
      return folder + "/" + kFile;
    }
  }
  return kFile;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* any, std::size_t, void* to) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(any->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

/// Loads the plugin and returns its table. The file is CXXRUN_CUDA_PLUGIN, else the first that exists in: the folder of
/// this library and cxxrun in it; the program's folder, ../lib and ../lib/cxxrun beside it; where cxxrun was installed;
/// the loader's path. It stays loaded. Errors (not_found): no such file, an error of the loader, another version of the
/// table, two CUDA runtimes.
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
                                              " was not found beside libcxxrun or the program, in ../lib of it or "
                                              "where cxxrun was installed: build cxxrun with CUDA, or name the file in "
                                              "CXXRUN_CUDA_PLUGIN"
                                        : "the CUDA plugin is not usable: " + with_remedy(words, loaded_libraries()));
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
  if (auto const why = clash(loaded_libraries())) {
    return fail(Errc::not_found, "the CUDA plugin is not usable: " + *why);
  }
  return api;
}

/// CXXRUN_BACKEND overrides `asked`.
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
  Selection selected;
  if (*backend != Backend::nccl) {
    return selected;
  }
  selected.backend = Backend::nccl;
  Findings found;
  found.local_rank = env.local_rank;
  found.local_ranks = env.local_world_size;
  auto const visible = os::variable("CUDA_VISIBLE_DEVICES");
  found.own_device = !visible.empty() && visible.find(',') == std::string::npos;
  selected.nccl_host = os::variable("NCCL_HOSTID");
  found.shared = !selected.nccl_host.empty();
  if (auto const plugin = load_plugin()) {
    selected.api = *plugin;
    selected.api->facts(&found.facts);
  } else {
    found.unusable = plugin.error().context;
  }
  auto const device = choose(found);
  if (!device) {
    return device.error();
  }
  selected.nccl = found.facts.nccl;
  selected.nccl_settings = std::min(found.facts.nccl, found.facts.nccl_header);
  static std::atomic<bool> used_before{false};
  cxxrun_cuda_status status{};
  if (selected.api->open_device(*device, &selected.device, &status) != CXXRUN_CUDA_OK) {
    auto refusal = error_of(status, "GPU " + std::to_string(*device) + " cannot be used");
    cxxrun_cuda_status of_any{};
    bool const lost =
        selected.api->is_device_memory(&status, &of_any) < 0;  // then CUDA answers every question with that error
    if (used_before && lost && env.world_size > 1) {           // the others can go on without this process
      os::end_process(kDeviceLost, "rank " + std::to_string(env.rank) + ": " + refusal.context + lost_device_text());
    }
    return refusal;
  }
  used_before = true;
  return selected;
}

}  // namespace cxxrun::gpu
