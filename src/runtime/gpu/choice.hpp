// Choice: which GPU a rank uses that was asked for NCCL, from what was found on its node. Pure.
//
// Nothing is chosen for whoever does not ask: automatic is the host backend, whatever the node has
// (docs/decisions/0015-nccl-is-asked-for.md). Who asks and cannot have it is refused, in one line with its remedy: a
// node whose driver is broken must not train on its CPUs in silence (docs/design/nccl_backend.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "cxxrun/error.hpp"
#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::gpu {

/// The oldest NCCL that can be used: 2.19 has ncclMemAlloc.
inline constexpr int kOldestNccl = 21900;

struct Findings {
  int local_rank = 0;
  int local_ranks = 1;
  std::optional<std::string> unusable{};  ///< why the plugin is not; nothing: it is loaded and `facts` are its
  cxxrun_cuda_facts facts{};
  bool own_device = false;  ///< CUDA_VISIBLE_DEVICES names one, as each rank's may
  bool shared = false;      ///< NCCL_HOSTID is set: several ranks may share a device, for tests
};

/// The device's ordinal. Errors (environment): the refusal.
[[nodiscard]] Result<int> choose(Findings const& found);

/// "auto", "nccl", "host".
[[nodiscard]] std::optional<Backend> backend_named(std::string_view name);

/// The loader's words with what to do about them. `loaded`: paths of libraries that the process has loaded.
[[nodiscard]] std::string with_remedy(std::string const& loader_error, std::vector<std::string> const& loaded = {});

/// Why a process with these libraries is not to call a plugin that it has loaded, or nothing.
[[nodiscard]] std::optional<std::string> clash(std::vector<std::string> const& loaded);

/// "13.0" of 13000.
[[nodiscard]] inline std::string cuda_version(int code) {
  return std::to_string(code / 1000) + "." + std::to_string(code / 10 % 100);
}

/// Exit code of a process whose device a kernel's fault has taken from it.
inline constexpr int kDeviceLost = 74;  // sysexits.h: an I/O error
/// How its last line ends.
[[nodiscard]] inline std::string lost_device_text() {
  return "; this process cannot use its GPU any more and ends with code " + std::to_string(kDeviceLost) +
         ", to be started anew\n";
}

/// What a call of the plugin's failed with, for a person: its own words and what to do.
[[nodiscard]] Error error_of(cxxrun_cuda_status const& status, std::string const& what);

}  // namespace cxxrun::gpu
