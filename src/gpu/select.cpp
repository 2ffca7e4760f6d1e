#include "src/gpu/select.hpp"

#include "src/gpu/plugin.hpp"
#include "src/os/system.hpp"

namespace cxxrun::gpu {

Result<Selection> select(Backend asked, WorkerEnv const& env) {
  if (auto const name = os::variable("CXXRUN_BACKEND"); !name.empty()) {
    auto const backend = backend_named(name);
    if (!backend) {
      return fail(Errc::environment, "CXXRUN_BACKEND is \"" + name + "\", not auto, nccl or host");
    }
    asked = *backend;
  }
  Findings found;
  found.asked = asked;
  found.local_rank = env.local_rank;
  found.local_ranks = env.local_world_size;
  found.signs = asked == Backend::host ? Signs{} : look_for_signs();
  Selection selected;
  selected.nccl_host = os::variable("NCCL_HOSTID");
  found.shared = !selected.nccl_host.empty();
  if (worth_loading(asked, found.signs)) {
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
  cxxrun_cuda_status status{};
  if (selected.api->open_device(choice->device, &selected.device, &status) != CXXRUN_CUDA_OK) {
    return error_of(status, "GPU " + std::to_string(choice->device) + " cannot be used");
  }
  return selected;
}

}  // namespace cxxrun::gpu
