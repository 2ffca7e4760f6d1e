#include "src/base/os/system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sys/resource.h>

#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {
namespace {

std::optional<std::uint64_t> nofile_before;  // global, because the limit is

bool names_gpu(std::string_view entry, std::uint32_t devices) {
  if (auto const index = number_in<std::uint32_t>(entry)) {
    return *index < devices;
  }
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

}  // namespace

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string const text = *entry;
    if (auto const equals = text.find('='); equals != std::string::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

std::optional<std::string> take_variable(char const* name) {
  char* const value = std::getenv(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  std::string text = value;
  explicit_bzero(value, text.size());
  unsetenv(name);
  return text;
}

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<int> open_among(std::vector<int> descriptors) {
  std::erase_if(descriptors, [](int fd) { return fcntl(fd, F_GETFD) < 0; });
  return descriptors;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string worker_host_name() {
  auto set = variable(variables::kHost);
  return set.empty() ? host_name() : set;
}

std::string short_hostname() {
  std::string const full = host_name();
  return full.substr(0, full.find('.'));
}

bool has_terminal() {
  return static_cast<bool>(UniqueFd(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)));
}

std::vector<std::uint32_t> allowed_cpus() {
  for (int limit = 1024; limit <= 1024 * 64; limit *= 4) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> const set(CPU_ALLOC(static_cast<std::size_t>(limit)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    std::size_t const bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(limit));
    if (set && sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<std::uint32_t> cpus;
      for (std::size_t cpu = 0; cpu < bytes * 8; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set.get())) {
          cpus.push_back(static_cast<std::uint32_t>(cpu));
        }
      }
      return cpus;
    }
  }
  return {};
}

std::uint32_t usable_cpus() {
  return std::max(1U, static_cast<std::uint32_t>(allowed_cpus().size()));
}

void raise_nofile_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) {
    return;
  }
  std::uint64_t const before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    nofile_before = before;
  }
}

std::optional<std::uint64_t> original_nofile_limit() {
  return nofile_before;
}

std::uint32_t count_gpus(std::optional<std::string_view> visible, std::uint32_t devices) {
  if (!visible || devices == 0) {
    return devices;
  }
  auto const entries = split(*visible, ',');
  auto const end = std::find_if_not(entries.begin(), entries.end(),
                                    [devices](std::string const& entry) { return names_gpu(trim(entry), devices); });
  return static_cast<std::uint32_t>(end - entries.begin());
}

UniqueFd make_memory_file(char const* name) {
#ifdef MFD_NOEXEC_SEAL
  constexpr unsigned kNoExec = MFD_NOEXEC_SEAL;
#else
  constexpr unsigned kNoExec = 0x0008U;  // Linux 6.3; newer kernels warn in their log if it is missing
#endif
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec));
  if (!fd && errno == EINVAL) {
    fd.reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  return fd;
}

bool may_write_to(std::uint64_t bytes) {
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY || bytes <= most.rlim_cur) {
    return true;
  }
  errno = EFBIG;
  return false;
}

std::vector<std::string> entries_of(std::string const& directory) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> const open(opendir(directory.c_str()), closedir);
  while (dirent const* const entry = open ? readdir(open.get()) : nullptr) {  // NOLINT(concurrency-mt-unsafe): our own
    names.emplace_back(entry->d_name);
  }
  return names;
}

std::uint32_t gpu_devices() {
  auto const names = entries_of("/dev");
  // access(), because open() initialises an unused GPU, which takes seconds
  return static_cast<std::uint32_t>(std::count_if(names.begin(), names.end(), [](std::string const& name) {
    return name.starts_with("nvidia") && number_in<std::uint32_t>(std::string_view(name).substr(6)) &&
           access(("/dev/" + name).c_str(), R_OK | W_OK) == 0;
  }));
}

std::vector<std::uint32_t> partitioned_gpus(std::string const& capabilities) {
  std::vector<std::uint32_t> numbers;
  for (auto const& name : entries_of(capabilities)) {
    auto const number =
        name.starts_with("gpu") ? number_in<std::uint32_t>(std::string_view(name).substr(3)) : std::nullopt;
    auto const instances = number ? entries_of(capabilities + "/" + name + "/mig") : std::vector<std::string>();
    if (std::any_of(instances.begin(), instances.end(), [](auto const& each) { return each.starts_with("gi"); })) {
      numbers.push_back(*number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool amd_gpus() {
  return gpu_devices() == 0 && access("/dev/kfd", R_OK | W_OK) == 0;
}

std::uint32_t intel_gpus(std::string const& classes, std::string const& devices) {
  auto const names = entries_of(classes);
  return static_cast<std::uint32_t>(std::count_if(names.begin(), names.end(), [&](std::string const& name) {
    std::string maker;
    return name.starts_with("renderD") && std::getline(std::ifstream(classes + "/" + name + "/device/vendor"), maker) &&
           maker == "0x8086" && access((devices + "/" + name).c_str(), R_OK | W_OK) == 0;
  }));
}

}  // namespace cxxrun::os
