// Choice: which backend a rank uses, from what was found on its node. Pure.
//
// automatic takes the host backend only where there is no GPU. A GPU that is there and cannot be used is a refusal, in
// one line with its remedy: a node whose driver is broken must not train on its CPUs in silence
// (docs/design/nccl_backend.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cxxrun/communicator.hpp"
#include "cxxrun/error.hpp"
#include "src/cuda/plugin_api.h"

namespace cxxrun::gpu {

/// The oldest NCCL that can be used: 2.19 has ncclMemAlloc.
inline constexpr int kOldestNccl = 21900;

/// What shows without CUDA whether there may be a GPU.
struct Signs {
  bool device = false;  ///< /dev/nvidia0 or the like
  bool driver = false;  ///< libcuda.so.1 can be loaded
  bool named = false;   ///< CXXRUN_CUDA_PLUGIN is set
};

struct Findings {
  Backend asked = Backend::automatic;
  int local_rank = 0;
  int local_ranks = 1;
  Signs signs{};
  std::optional<std::string> unusable{};  ///< why the plugin is not; nothing: it is loaded and `facts` are its
  cxxrun_cuda_facts facts{};
  bool own_device = false;  ///< CUDA_VISIBLE_DEVICES names one, as each rank's may: LOCAL_RANK may be 0 for all
  bool shared = false;      ///< NCCL_HOSTID is set: several ranks may share a device, for tests
};

struct Choice {
  Backend backend = Backend::host;  ///< never automatic
  int device = 0;                   ///< ordinal, for nccl
};

/// Whether the plugin is to be loaded at all; it brings 200 MB of NCCL with it.
[[nodiscard]] constexpr bool worth_loading(Backend asked, Signs const& signs) {
  return asked == Backend::nccl || (asked == Backend::automatic && (signs.device || signs.driver || signs.named));
}

/// Errors (environment): the refusal.
[[nodiscard]] Result<Choice> choose(Findings const& found);

/// "auto", "nccl", "host".
[[nodiscard]] std::optional<Backend> backend_named(std::string_view name);

/// The loader's words with what to do about them.
[[nodiscard]] std::string with_remedy(std::string const& loader_error);

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
