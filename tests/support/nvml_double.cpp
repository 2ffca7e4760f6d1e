// Stands in for libnvidia-ml.so.1, as the variable NVML_DOUBLE says: "fine", "lost" (its second GPU), "mismatch" (of
// library and kernel module), "hangs", "dies" (with its second GPU), "forbids" (it, as a control
// group does).
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unistd.h>

namespace {

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
  static int devices[2];
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
}
// NOLINTEND(readability-identifier-naming)
