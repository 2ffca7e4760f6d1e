// What NVIDIA's driver says of some GPUs: a line each second, until nobody reads them. A process of its own, since a
// call of the driver may never return.
#include <array>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "launcher/live/gpus.hpp"
#include "launcher/programs/programs.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::chrono::seconds kEvery{1};
constexpr int kForbidden = 4;  // NVML_ERROR_NO_PERMISSION: a control group denies the device to the job
constexpr int kSm = 1;         // NVML_CLOCK_SM

/// The functions of nvml.h that are used. nvmlReturn_t is an int, 0 is success.
struct Nvml {
  using Device = void*;
  struct Utilization {
    unsigned gpu;
    unsigned memory;
  };
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*mhz)(Device, int, unsigned*) = nullptr;
  int (*max_mhz)(Device, int, unsigned*) = nullptr;
  int (*reasons)(Device, unsigned long long*) = nullptr;
};

bool find_functions(void* library, Nvml& nvml) {
  return os::find_function(library, "nvmlInit_v2", nvml.init) &&
         os::find_function(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         os::find_function(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         os::find_function(library, "nvmlDeviceGetUUID", nvml.uuid) &&
         os::find_function(library, "nvmlDeviceGetUtilizationRates", nvml.utilization) &&
         os::find_function(library, "nvmlDeviceGetClockInfo", nvml.mhz) &&
         os::find_function(library, "nvmlDeviceGetMaxClockInfo", nvml.max_mhz) &&
         os::find_function(library, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.reasons);
}

struct Found {
  unsigned number = 0;  ///< of NVML, which counts forbidden ones, too
  Nvml::Device device = nullptr;
};

/// A number counts the GPUs that are not forbidden, as CUDA does. A UUID may be shortened; no MIG device is found.
std::optional<Found> find(Nvml const& nvml, std::string const& name) {
  auto left = number_in<unsigned>(name);
  unsigned count = 0;
  (void)nvml.count(&count);
  for (unsigned i = 0; i < count; ++i) {
    Found found{i, nullptr};
    std::array<char, 96> uuid{};
    int const error = nvml.handle(i, &found.device);
    if (error == kForbidden || (error != 0 && !left)) {
      continue;
    }
    bool const is_it = left ? *left == 0
                            : nvml.uuid(found.device, uuid.data(), uuid.size() - 1) == 0 &&
                                  std::string_view(uuid.data()).starts_with(name);
    if (is_it) {
      return error == 0 ? std::optional(found) : std::nullopt;
    }
    if (left) {
      --*left;
    }
  }
  return std::nullopt;
}

/// Nothing of one that is lost, or does not tell how busy it is. A clock that it does not tell stays 0.
std::optional<live::Gpu> ask(Nvml const& nvml, Found const& found) {
  live::Gpu gpu{.number = found.number};
  Nvml::Utilization use{};
  unsigned long long reasons = 0;
  if (nvml.utilization(found.device, &use) != 0) {
    return std::nullopt;
  }
  gpu.percent = use.gpu;
  (void)nvml.mhz(found.device, kSm, &gpu.mhz);
  (void)nvml.max_mhz(found.device, kSm, &gpu.max_mhz);
  (void)nvml.reasons(found.device, &reasons);
  gpu.throttled = live::throttle_of(reasons);
  return gpu;
}

}  // namespace

int tell_gpus(std::vector<std::string> const& names) {
  prctl(PR_SET_NAME, "cxxrun-gpus", 0, 0, 0);
  Nvml nvml;
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || !find_functions(library, nvml) || nvml.init() != 0) {
    (void)os::write_all(STDOUT_FILENO, "no driver\n");
    return 1;
  }
  std::vector<std::optional<Found>> all;
  bool any = false;
  for (auto const& name : names) {
    all.push_back(find(nvml, name));
    any = any || all.back();
  }
  if (!any) {
    (void)os::write_all(STDOUT_FILENO, "no GPU\n");
    return 1;
  }
  for (;;) {
    live::Gpus gpus;
    for (auto const& found : all) {
      gpus.push_back(found ? ask(nvml, *found) : std::nullopt);
    }
    if (!os::write_all(STDOUT_FILENO, gpus_line(gpus) + "\n")) {
      return 0;
    }
    std::this_thread::sleep_for(kEvery);
  }
}

}  // namespace cxxrun::launcher
