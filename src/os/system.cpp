#include "src/os/system.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/core/text.hpp"

namespace cxxrun::os {
namespace {

std::optional<std::uint64_t>& saved_nofile_limit() {
  static std::optional<std::uint64_t> limit;  // one limit per process, so one value per process
  return limit;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool names_gpu(std::string_view entry, std::uint32_t devices) {
  if (all_digits(entry)) {
    std::uint32_t index = 0;
    auto const parsed = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    return parsed.ec == std::errc{} && index < devices;
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

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string worker_host_name() {
  char const* const set = std::getenv("CXXRUN_HOST");
  return set != nullptr && *set != '\0' ? set : host_name();
}

std::string short_hostname() {
  std::string const full = host_name();
  return full.substr(0, full.find('.'));
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
  std::uint64_t const before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    saved_nofile_limit() = before;
  }
}

std::optional<std::uint64_t> original_nofile_limit() {
  return saved_nofile_limit();
}

std::uint32_t count_gpus(std::optional<std::string_view> visible, std::uint32_t devices) {
  if (!visible || devices == 0) {
    return devices;
  }
  std::uint32_t count = 0;
  std::string_view rest = *visible;
  while (!rest.empty()) {
    auto const comma = rest.find(',');
    if (!names_gpu(trim(rest.substr(0, comma)), devices)) {
      break;
    }
    ++count;
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return count;
}

std::uint32_t gpu_devices() {
  std::uint32_t count = 0;
  std::unique_ptr<DIR, int (*)(DIR*)> const directory(opendir("/dev"), closedir);
  while (directory) {
    dirent const* const entry = readdir(directory.get());  // NOLINT(concurrency-mt-unsafe): a stream of our own
    if (entry == nullptr) {
      break;
    }
    std::string_view const name = static_cast<char const*>(entry->d_name);
    // access, not open: opening a GPU that nobody uses initialises it, which takes seconds
    if (name.starts_with("nvidia") && all_digits(name.substr(6)) &&
        access(("/dev/" + std::string(name)).c_str(), R_OK | W_OK) == 0) {
      ++count;
    }
  }
  return count;
}

}  // namespace cxxrun::os
