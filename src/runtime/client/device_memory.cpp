#include "src/runtime/client/device_memory.hpp"

#include <dlfcn.h>
#include <link.h>

#include "src/runtime/client/access.hpp"

namespace cxxrun::client {
namespace {

// Values from cuda.h: this file includes no CUDA header.
constexpr int kMemoryType = 2;
constexpr int kIsManaged = 8;
constexpr unsigned kOfDevice = 2;

/// Counts the libraries loaded so far. dlopen() reads files to find out that a library is not loaded; this does not.
unsigned long long libraries_loaded() {
  unsigned long long number = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* any, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = any->dlpi_adds;
        return 1;
      },
      &number);
  return number;
}

}  // namespace

DeviceMemory& DeviceMemory::own() noexcept {
  static constinit DeviceMemory memory;
  return memory;
}

DeviceMemory::Driver DeviceMemory::driver() noexcept {
  if (Driver const known = driver_.load(std::memory_order_acquire)) {
    return known;
  }
  auto const loaded = libraries_loaded();
  if (loaded_.exchange(loaded, std::memory_order_relaxed) == loaded) {
    return nullptr;
  }
  void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  Driver found = nullptr;
  if (library != nullptr) {  // the library stays loaded from now on
    found = reinterpret_cast<Driver>(::dlsym(library, "cuPointerGetAttributes"));
    driver_.store(found, std::memory_order_release);
  }
  return found;
}

bool DeviceMemory::ask(void const* memory) noexcept {
  Driver const answering = driver();
  if (answering == nullptr) {
    return false;
  }
  unsigned type = 0;
  unsigned managed = 0;
  std::array<int, 2> which{kMemoryType, kIsManaged};
  std::array<void*, 2> answers{&type, &managed};
  // An error means that this is not CUDA memory: cuInit() was not called, or CUDA does not know the address.
  int const error = answering(2, which.data(), answers.data(), reinterpret_cast<std::uintptr_t>(memory));
  return error == 0 && type == kOfDevice && managed == 0;
}

std::optional<std::string> out_of_reach(comm::Call const& call) {
  auto& device = DeviceMemory::own();
  bool const in = call.in != call.out && comm::in_bytes(call, 1) > 0 && device.holds(call.in);
  bool const out = comm::out_bytes(call, 1) > 0 && device.holds(call.out);
  return in || out ? std::optional(comm::describe(call) + out_of_reach_text()) : std::nullopt;
}

}  // namespace cxxrun::client
