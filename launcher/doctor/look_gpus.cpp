#include <array>
#include <map>

#include "launcher/doctor/look.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/library.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr int kNoPermission = 4;  // NVML_ERROR_NO_PERMISSION: a control group keeps this device from the job

/// The part of nvml.h that is needed; nvmlReturn_t is an int, 0 is success.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  char const* (*error_text)(int) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
};

bool find_functions(void* library, Nvml& nvml) {
  return os::find_function(library, "nvmlInit_v2", nvml.init) &&
         os::find_function(library, "nvmlErrorString", nvml.error_text) &&
         os::find_function(library, "nvmlSystemGetDriverVersion", nvml.driver) &&
         os::find_function(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         os::find_function(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         os::find_function(library, "nvmlDeviceGetName", nvml.name);
}

void look_at_each(Nvml const& nvml, unsigned count, Say const& say) {
  std::map<std::string, unsigned> names;
  std::vector<std::string> sick;
  unsigned forbidden = 0;
  for (unsigned i = 0; i < count; ++i) {
    Nvml::Device device = nullptr;
    std::array<char, 96> name{};
    int error = nvml.handle(i, &device);
    error = error == 0 ? nvml.name(device, name.data(), name.size() - 1) : error;
    if (error == kNoPermission) {
      ++forbidden;
    } else if (error != 0) {
      sick.push_back("GPU " + std::to_string(i) + ": " + nvml.error_text(error));
    } else {
      ++names[name.data()];
    }
  }
  std::vector<std::string> words;
  words.reserve(names.size());
  for (auto const& [name, number] : names) {
    words.push_back(std::to_string(number) + " x " + name);
  }
  tell(say, "gpu.count", std::to_string(count - forbidden));
  tell(say, "gpu.forbidden", std::to_string(forbidden));
  tell(say, "gpu.names", join(words, ", "));
  tell(say, "gpu.sick", join(sick, ", "));
}

}  // namespace

void look_at_nccl(Say const& say) {
  int (*get_version)(int*) = nullptr;
  int version = 0;
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && os::find_function(library, "ncclGetVersion", get_version) && get_version(&version) == 0) {
    int const major = version < 10'000 ? version / 1000 : version / 10'000;
    int const rest = version < 10'000 ? version % 1000 : version % 10'000;
    tell(say, "nccl.version",
         std::to_string(major) + "." + std::to_string(rest / 100) + "." + std::to_string(rest % 100));
  }
}

void look_at_gpus(Say const& say) {
  Nvml nvml;
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    tell(say, "gpu.missing", "libnvidia-ml.so.1");
    return;
  }
  if (!find_functions(library, nvml)) {
    tell(say, "gpu.error", "libnvidia-ml.so.1 lacks functions: another program's?");
    return;
  }
  std::array<char, 96> driver{};
  unsigned count = 0;
  int error = nvml.init();
  error = error == 0 ? nvml.driver(driver.data(), driver.size() - 1) : error;
  error = error == 0 ? nvml.count(&count) : error;
  if (error != 0) {
    tell(say, "gpu.error", nvml.error_text(error));
    return;
  }
  tell(say, "gpu.driver", driver.data());
  tell(say, "gpu.count", std::to_string(count));  // of the node: that of the job is told instead, if nobody dies
  look_at_each(nvml, count, say);
}

}  // namespace cxxrun::launcher::doctor
