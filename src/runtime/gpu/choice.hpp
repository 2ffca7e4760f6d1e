// Choice: which GPU a rank uses if it asked for NCCL, from the facts of its node. Pure.
//
// Only a rank that asks for NCCL gets it: automatic means the host backend, whatever the node has
// (docs/decisions/0015-nccl-is-asked-for.md). A rank that asks for NCCL and cannot have it is refused with one line
// that has the remedy: a node with a broken driver must not silently train on its CPUs (docs/design/nccl_backend.md).
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
  std::optional<std::string>
      unusable{};  ///< why the plugin cannot be used; nothing: it is loaded and `facts` are valid
  cxxrun_cuda_facts facts{};
  bool own_device = false;  ///< CUDA_VISIBLE_DEVICES names exactly one device, perhaps a different one for each rank
  bool shared = false;      ///< NCCL_HOSTID is set: several ranks may share a device, for tests
};

/// Returns the ordinal of the device. Errors (environment): the reason why this rank is refused.
[[nodiscard]] Result<int> choose(Findings const& found);

/// "auto", "nccl", "host".
[[nodiscard]] std::optional<Backend> backend_named(std::string_view name);

/// Adds the remedy to an error of the loader. `loaded`: paths of the libraries in this process.
[[nodiscard]] std::string with_remedy(std::string const& loader_error, std::vector<std::string> const& loaded = {});

/// Why a process with these libraries must not call the plugin it has loaded, or nothing.
[[nodiscard]] std::optional<std::string> clash(std::vector<std::string> const& loaded);

/// 13000 as "13.0".
[[nodiscard]] inline std::string cuda_version(int code) {
  return std::to_string(code / 1000) + "." + std::to_string(code / 10 % 100);
}

/// Exit code of a process that has lost its device to a kernel's fault.
inline constexpr int kDeviceLost = 74;  // sysexits.h: an I/O error
/// The end of its last line.
[[nodiscard]] inline std::string lost_device_text() {
  return "; this process has lost its GPU: exiting with code " + std::to_string(kDeviceLost) + ", to be restarted\n";
}

/// The Error for a failed call of the plugin: the plugin's own words and a remedy.
[[nodiscard]] Error error_of(cxxrun_cuda_status const& status, std::string const& what);

// ---- NcclSettings: checks, the text that ranks compare, and the plugin's form

/// Why no NCCL accepts the settings, or in the second form why version `nccl` (22809) does not; or nothing.
[[nodiscard]] std::optional<std::string> refusal(NcclSettings const& settings);
[[nodiscard]] std::optional<std::string> refusal(NcclSettings const& settings, int nccl);

/// "max_ctas 8, name \"trainer\"", or "nothing". Equal settings give equal texts.
[[nodiscard]] std::string describe(NcclSettings const& settings);

/// The result points to the name in `settings`.
[[nodiscard]] cxxrun_cuda_settings for_plugin(NcclSettings const& settings);

}  // namespace cxxrun::gpu
