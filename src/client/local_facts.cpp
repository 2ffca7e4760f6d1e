#include "src/client/local_facts.hpp"

#include <arpa/inet.h>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <ifaddrs.h>
#include <limits>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "src/os/fd.hpp"

namespace cxxrun::client {
namespace {

std::string variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Numeric text of an IPv4 or IPv6 address; empty for other families and for link-local ones, which mean nothing
// without an interface.
std::string text_of(sockaddr const* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address != nullptr && address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in const*>(address)->sin_addr, text.data(), text.size());
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    in6_addr const& v6 = reinterpret_cast<sockaddr_in6 const*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      ::inet_ntop(AF_INET, &v6.s6_addr[12], text.data(), text.size());
    } else if (!IN6_IS_ADDR_LINKLOCAL(&v6)) {
      ::inet_ntop(AF_INET6, &v6, text.data(), text.size());
    }
  }
  return text.data();
}

bool is_loopback(std::string const& address) {
  return address.starts_with("127.") || address == "::1";
}

struct Interface {
  std::string name;
  std::string address;
};

// Those that are up, IPv4 before IPv6.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return {};
  }
  std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> const owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (int const family : {AF_INET, AF_INET6}) {
    for (ifaddrs const* each = list; each != nullptr; each = each->ifa_next) {
      bool const up = (each->ifa_flags & static_cast<unsigned>(IFF_UP)) != 0;
      if (up && each->ifa_addr != nullptr && each->ifa_addr->sa_family == family) {
        if (auto address = text_of(each->ifa_addr); !address.empty()) {
          found.push_back({each->ifa_name, std::move(address)});
        }
      }
    }
  }
  return found;
}

Result<std::string> address_of_interface(std::string const& wanted) {
  std::string names;
  for (auto const& [name, address] : interfaces()) {
    if (name == wanted) {
      return address;
    }
    names.append(names.empty() ? "" : ", ").append(name).append(" (").append(address).append(")");
  }
  return fail(Errc::environment, "CXXRUN_SOCKET_IFNAME is \"" + wanted +
                                     "\", but no interface of that name is up with an address here; there are " +
                                     names);
}

// From where packets to the store leave; a connected UDP socket knows and sends nothing.
std::string address_towards(StoreAddress const& store) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(store.host.c_str(), std::to_string(store.port).c_str(), &hints, &found) != 0) {
    return "";
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> const owner(found, ::freeaddrinfo);
  for (addrinfo const* each = found; each != nullptr; each = each->ai_next) {
    os::UniqueFd const fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage mine{};
    socklen_t length = sizeof mine;
    if (fd && ::connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&mine), &length) == 0) {
      if (auto text = text_of(reinterpret_cast<sockaddr const*>(&mine)); !text.empty()) {
        return text;
      }
    }
  }
  return "";
}

std::vector<int> own_cpus() {
  constexpr int kMost = 1 << 16;  // the kernel refuses a set that is smaller than its own
  for (int size = 1024; size <= kMost; size *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> const set(CPU_ALLOC(static_cast<std::size_t>(size)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    std::size_t const bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
    if (set != nullptr && ::sched_getaffinity(0, bytes, set.get()) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) {
          cpus.push_back(cpu);
        }
      }
      return cpus;
    }
  }
  return {0};
}

std::uint64_t random_nonce() {
  std::uint64_t nonce = 0;
  if (::getrandom(&nonce, sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce)) {
    std::abort();  // never for so few bytes, on any kernel this library supports
  }
  return nonce;
}

}  // namespace

std::string own_host_name() {
  if (auto given = variable("CXXRUN_HOST"); !given.empty()) {
    return given;
  }
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Error from_here(Error error) {
  std::string const rank = variable("RANK");
  bool const number = !rank.empty() && rank.find_first_not_of("0123456789") == std::string::npos;
  error.context = (number ? "rank " + rank + " " : "") + "on " + own_host_name() + ": " + error.context;
  return error;
}

std::string own_host_key() {
  if (auto given = variable("CXXRUN_HOST_ID"); !given.empty()) {
    return given;
  }
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> network{};
  if (::readlink("/proc/self/ns/net", network.data(), network.size() - 1) < 0) {
    network[0] = '\0';
  }
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return boot + " " + network.data() + " " + name.data();
}

Result<std::string> own_address(WorkerEnv const& env) {
  if (auto const wanted = variable("CXXRUN_SOCKET_IFNAME"); !wanted.empty()) {
    return address_of_interface(wanted);
  }
  std::string const towards = env.store ? address_towards(*env.store) : "";
  bool const other_nodes = env.group_world_size > 1 || env.world_size > env.local_world_size;
  if (towards.empty() || (is_loopback(towards) && other_nodes)) {
    for (auto const& [name, address] : interfaces()) {
      if (!is_loopback(address)) {
        return address;
      }
    }
  }
  return towards.empty() ? "127.0.0.1" : towards;
}

comm::JoinRecord own_record(WorkerEnv const& env) {
  comm::JoinRecord record;
  record.library = CXXRUN_VERSION;
  record.rank = env.rank;
  record.host = own_host_name();
  record.pid = ::getpid();
  record.nonce = random_nonce();
  record.world = env.world_size;
  record.local_rank = env.local_rank;
  record.host_key = own_host_key();
  record.cpus = comm::cpu_bits(own_cpus());
  return record;
}

Result<std::chrono::milliseconds> seconds_from_environment(char const* name, std::chrono::milliseconds fallback) {
  std::string const text = variable(name);
  if (text.empty()) {
    return fallback;
  }
  char* end = nullptr;
  double const seconds = std::strtod(text.c_str(), &end);
  constexpr double kMost = 1e9;
  if (*end != '\0' || !(seconds >= 0.001) || seconds > kMost) {
    return fail(Errc::environment, std::string(name) + " is \"" + text + "\", not a number of seconds from 0.001 up");
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace cxxrun::client
