// Stands in for libnvidia-ml.so.1, as the variable NVML_DOUBLE says: "fine", "lost" (its second GPU), "mismatch" (of
// library and kernel module), "hangs", "dies" (with its second GPU), "forbids" (it, as a control
// group does), "hot" (its second GPU). With "stalls" the calls for how busy a GPU is return no more while the file
// NVML_STALLED is there.
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace {

int devices[2];

bool is_second(void* device) {
  return device == &devices[1];
}

std::string_view mood() {
  auto const* const set = std::getenv("NVML_DOUBLE");
  return set == nullptr ? "fine" : set;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names
extern "C" {

int nvmlInit_v2() {
  while (mood() == "hangs") {
    pause();
  }
  return mood() == "mismatch" ? 18 : 0;
}

char const* nvmlErrorString(int error) {
  return error == 18 ? "Driver/library version mismatch" : error == 15 ? "GPU is lost" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "550.54.15", size);
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index == 1 && mood() == "dies") {
    abort();
  }
  *device = &devices[index];
  return index == 0 ? 0 : mood() == "lost" ? 15 : mood() == "forbids" ? 4 : 0;
}

int nvmlDeviceGetName(void* /*device*/, char* text, unsigned size) {
  std::strncpy(text, "NVIDIA Double", size);
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::strncpy(text, is_second(device) ? "GPU-7a1d0c55-1c2d" : "GPU-2f2c8d6a-0f3a", size);
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  while (mood() == "stalls" && access(std::getenv("NVML_STALLED"), F_OK) == 0) {
    usleep(10'000);
  }
  gpu_and_memory[0] = is_second(device) ? 97 : 61;
  gpu_and_memory[1] = 5;
  return 0;
}

int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  *mhz = is_second(device) && mood() == "hot" ? 1290 : 1980;
  return kind == 1 ? 0 : 2;
}

int nvmlDeviceGetMaxClockInfo(void* /*device*/, int kind, unsigned* mhz) {
  *mhz = 1980;
  return kind == 1 ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = is_second(device) && mood() == "hot" ? 0x48 : 0x1;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
