#include "src/runtime/gpu/choice.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <climits>

#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::gpu {

namespace {

// Values of cudaError_t: this file includes no CUDA header.
constexpr int kInitializationError = 3;
constexpr int kStubLibrary = 34;
constexpr int kInsufficientDriver = 35;
constexpr int kDevicesUnavailable = 46;
constexpr int kNoDevice = 100;
constexpr int kSystemNotReady = 802;
constexpr int kDriverMismatch = 803;
constexpr int kNotSupportedOnDevice = 804;

constexpr char const* kOrHost = ", or set CXXRUN_BACKEND=host on all ranks to train on the CPUs";

std::string text_of(cxxrun_cuda_facts const& facts) {
  return {facts.count_text, strnlen(facts.count_text, sizeof facts.count_text)};
}

/// The reason why there is no GPU here, or nothing.
std::optional<std::string> no_gpu(cxxrun_cuda_facts const& facts) {
  switch (facts.count_error) {
    case 0:
      return facts.devices > 0 ? std::nullopt
                               : std::optional<std::string>(
                                     "CUDA finds no GPU; look at CUDA_VISIBLE_DEVICES and what Slurm was asked for");
    case kStubLibrary:
      return "libcuda.so.1 is the stub of the CUDA toolkit; take its folder off LD_LIBRARY_PATH, and start containers "
             "with the GPU option of their runtime";
    case kInsufficientDriver:
      return facts.driver_found != 0 || facts.cuda_driver > 0
                 ? std::nullopt
                 : std::optional<std::string>(
                       "there is no CUDA driver (libcuda.so.1); install it, or start the container with "
                       "the GPU option of its runtime");
    case kNoDevice: return "the CUDA driver finds no GPU; look at CUDA_VISIBLE_DEVICES and what Slurm was asked for";
    default: return std::nullopt;
  }
}

std::string remedy_of(cxxrun_cuda_facts const& facts) {
  switch (facts.count_error) {
    case kInsufficientDriver:
      return "the driver is for CUDA " + cuda_version(facts.cuda_driver) + " and too old for the runtime " +
             cuda_version(facts.cuda_runtime) + ": update the driver";
    case kInitializationError: return "the driver does not start: see nvidia-smi and dmesg";
    case kDevicesUnavailable: return "all GPUs are busy or in exclusive mode: see nvidia-smi";
    case kSystemNotReady: return "start nvidia-fabricmanager";
    case kDriverMismatch: return "the kernel's driver and libcuda are of different versions: reboot the node";
    case kNotSupportedOnDevice: return "remove the cuda-compat libraries from LD_LIBRARY_PATH";
    default: return "see nvidia-smi";
  }
}

Error refusal(std::string what) {
  return fail(Errc::environment, std::move(what));
}

/// The release of the CUDA runtime in a file: 13 for libcudart.so.13.0.96, 11 for libcudart-d0da41ae.so.11.0; else "".
std::string_view runtime_of(std::string_view path) {
  auto const name = path.substr(path.rfind('/') + 1);
  auto const so = name.find(".so.");
  if (!name.starts_with("libcudart") || so == std::string_view::npos) {
    return {};
  }
  auto const release = name.substr(so + 4);
  return release.substr(0, release.find_first_not_of("0123456789"));
}

/// The files of the CUDA runtimes in this process, one per release.
std::map<std::string_view, std::string> runtimes_of(std::vector<std::string> const& loaded) {
  std::map<std::string_view, std::string> runtimes;
  for (auto const& path : loaded) {
    if (auto const release = runtime_of(path); !release.empty()) {
      runtimes.try_emplace(release, path);
    }
  }
  return runtimes;
}

}  // namespace

Result<int> choose(Findings const& found) {
  auto const& facts = found.facts;
  if (found.unusable) {
    return refusal(*found.unusable + kOrHost);
  }
  if (auto const why = no_gpu(facts)) {
    return refusal("NCCL was asked for, but " + *why + kOrHost);
  }
  if (facts.count_error != 0) {
    return refusal("CUDA cannot use this node's GPUs: " + text_of(facts) + " (error " +
                   std::to_string(facts.count_error) + "); " + remedy_of(facts) + kOrHost);
  }
  if (facts.nccl < kOldestNccl) {
    return refusal("NCCL " + comm::nccl_version(facts.nccl) + " was loaded, but 2.19 or newer is needed: install one" +
                   kOrHost);
  }
  if (facts.devices == 1 && found.own_device) {
    return 0;  // if other ranks of the node have the same device, they refuse each other by its UUID
  }
  if (facts.devices >= found.local_ranks) {
    return found.local_rank;
  }
  if (found.shared) {
    return found.local_rank % facts.devices;
  }
  return refusal("there are " + std::to_string(found.local_ranks) + " ranks on this node and " +
                 std::to_string(facts.devices) + (facts.devices == 1 ? " GPU" : " GPUs") +
                 " that they see: start one rank per GPU (--nproc-per-node)" + kOrHost);
}

std::optional<Backend> backend_named(std::string_view name) {
  return name == "auto"   ? std::optional(Backend::automatic)
         : name == "nccl" ? std::optional(Backend::nccl)
         : name == "host" ? std::optional(Backend::host)
                          : std::nullopt;
}

std::string with_remedy(std::string const& loader_error, std::vector<std::string> const& loaded) {
  auto const missing = [&](char const* library) {
    return loader_error.find(std::string(library) + ".so") != std::string::npos &&
           loader_error.find("cannot open shared object file") != std::string::npos;
  };
  if (missing("libnccl")) {
    return loader_error + "; install NCCL (package libnccl2), or put its folder on LD_LIBRARY_PATH";
  }
  if (!missing("libcudart")) {
    return loader_error;
  }
  auto const runtimes = runtimes_of(loaded);
  return loader_error + (runtimes.empty() ? "; install the CUDA runtime (package cuda-cudart), or put its folder on "
                                            "LD_LIBRARY_PATH"
                                          : "; this process has that of CUDA " + std::string(runtimes.begin()->first) +
                                                " (" + runtimes.begin()->second +
                                                "): take a PyTorch for the CUDA that the plugin was built with, or "
                                                "build the plugin with that one");
}

std::optional<std::string> clash(std::vector<std::string> const& loaded) {
  auto const runtimes = runtimes_of(loaded);
  if (runtimes.size() < 2) {
    return std::nullopt;
  }
  return "this process has two CUDA runtimes, " + runtimes.begin()->second + " and " + runtimes.rbegin()->second +
         ": use libraries of one CUDA, that of the plugin";
}

Error error_of(cxxrun_cuda_status const& status, std::string const& what) {
  std::string const words(status.text, strnlen(status.text, sizeof status.text));
  bool const nccl = status.code == CXXRUN_CUDA_NCCL;
  return fail(Errc::io, what + ": " + (words.empty() ? "no reason given" : words) +
                            (status.code == CXXRUN_CUDA_UNSUPPORTED ? ""
                             : nccl                                 ? "; NCCL_DEBUG=INFO says more"
                                                                    : "; nvidia-smi shows the state of the device"));
}

// ---- NcclSettings

namespace {

constexpr int kMostCtas = 64;  // the most blocks that NCCL's kernels have, although it accepts larger numbers
constexpr int kLargestCluster = 8;
constexpr int kLargestClass = 255;
constexpr std::size_t kLongestName = 64;
constexpr int kFirstWithClass = 22602;

struct Number {
  char const* name;
  std::optional<int> value;
  int least;
  int most;
};

std::array<Number, 4> numbers_of(NcclSettings const& settings) {
  return {Number{"min_ctas", settings.min_ctas, 1, kMostCtas}, Number{"max_ctas", settings.max_ctas, 1, kMostCtas},
          Number{"cga_cluster_size", settings.cga_cluster_size, 0, kLargestCluster},
          Number{"traffic_class", settings.traffic_class, 0, kLargestClass}};
}

}  // namespace

std::optional<std::string> refusal(NcclSettings const& settings) {
  for (auto const& [name, value, least, most] : numbers_of(settings)) {
    if (value && (*value < least || *value > most)) {
      return std::string("Options::nccl.") + name + " is " + std::to_string(*value) + "; give a number from " +
             std::to_string(least) + " to " + std::to_string(most);
    }
  }
  if (settings.min_ctas && settings.max_ctas && *settings.min_ctas > *settings.max_ctas) {
    return "Options::nccl.min_ctas is " + std::to_string(*settings.min_ctas) + " and max_ctas " +
           std::to_string(*settings.max_ctas) + "; the first must not exceed the second";
  }
  bool const plain =
      std::all_of(settings.name.begin(), settings.name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain || settings.name.size() > kLongestName) {
    return "Options::nccl.name is not a name of at most " + std::to_string(kLongestName) +
           " printable ASCII characters without spaces";
  }
  return std::nullopt;
}

std::optional<std::string> refusal(NcclSettings const& settings, int nccl) {
  if (settings.traffic_class && nccl < kFirstWithClass) {
    return "Options::nccl.traffic_class is set, and NCCL " + comm::nccl_version(nccl) +
           " does not support it; use 2.26.2 or newer, or set NCCL_IB_TC and NCCL_IB_SL instead";
  }
  return std::nullopt;
}

std::string describe(NcclSettings const& settings) {
  std::string text;
  for (auto const& [name, value, least, most] : numbers_of(settings)) {
    text += value ? (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(*value) : "";
  }
  if (!settings.name.empty()) {
    text += (text.empty() ? "name \"" : ", name \"") + settings.name + "\"";
  }
  return text.empty() ? "nothing" : text;
}

cxxrun_cuda_settings for_plugin(NcclSettings const& settings) {
  auto most = settings.max_ctas;
  if (settings.min_ctas && !most) {
    most = kMostCtas;  // NCCL takes a minimum without a maximum for a minimum above the maximum
  }
  return {.min_ctas = settings.min_ctas.value_or(INT_MIN),
          .max_ctas = most.value_or(INT_MIN),
          .cga_cluster_size = settings.cga_cluster_size.value_or(INT_MIN),
          .traffic_class = settings.traffic_class.value_or(INT_MIN),
          .name = settings.name.empty() ? nullptr : settings.name.c_str()};
}

}  // namespace cxxrun::gpu
