#include "src/runtime/client/local_facts.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <unistd.h>
#include <vector>

#include "src/base/core/endpoint.hpp"
#include "src/base/core/variables.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::client {
namespace {

std::string variable(Lookup const& lookup, char const* name) {
  char const* const value = lookup(name);
  return value == nullptr ? "" : value;
}

Result<std::string> address_of_interface(std::string const& wanted) {
  std::string names;
  for (auto const& [name, address, loopback] : os::interface_addresses()) {
    if (name == wanted) {
      return address;
    }
    names.append(names.empty() ? "" : ", ").append(name).append(" (").append(address).append(")");
  }
  return fail(Errc::environment, "CXXRUN_SOCKET_IFNAME is \"" + wanted +
                                     "\", but no interface of that name is up with an address here; there are " +
                                     names);
}

}  // namespace

Error from_here(Error error) {
  std::string const rank = os::variable("RANK");
  bool const number = !rank.empty() && rank.find_first_not_of("0123456789") == std::string::npos;
  error.context = (number ? "rank " + rank + " " : "") + "on " + os::worker_host_name() + ": " + error.context;
  return error;
}

std::string own_host_key(Lookup const& lookup) {
  if (auto given = variable(lookup, "CXXRUN_HOST_ID"); !given.empty()) {
    return given;
  }
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> network{};
  if (::readlink("/proc/self/ns/net", network.data(), network.size() - 1) < 0) {
    network[0] = '\0';
  }
  return boot + " " + network.data() + " " + os::host_name();
}

Result<std::string> own_address(WorkerEnv const& env, Lookup const& lookup) {
  if (auto const wanted = variable(lookup, "CXXRUN_SOCKET_IFNAME"); !wanted.empty()) {
    return address_of_interface(wanted);
  }
  std::string const towards = env.store ? os::address_towards(env.store->host, env.store->port, kForever) : "";
  bool const other_nodes = env.group_world_size > 1 || env.world_size > env.local_world_size;
  if (towards.empty() || (is_loopback(towards) && other_nodes)) {
    for (auto const& [name, address, loopback] : os::interface_addresses()) {
      if (!is_loopback(address)) {
        return address;
      }
    }
  }
  return towards.empty() ? "127.0.0.1" : towards;
}

comm::JoinRecord own_record(WorkerEnv const& env, Lookup const& lookup) {
  comm::JoinRecord record;
  record.library = CXXRUN_VERSION;
  record.rank = env.rank;
  auto const host = variable(lookup, variables::kHost);
  record.host = host.empty() ? os::host_name() : host;
  record.pid = ::getpid();
  record.nonce = random_number();
  record.world = env.world_size;
  record.local_rank = env.local_rank;
  record.host_key = own_host_key(lookup);
  auto const cpus = os::allowed_cpus();
  record.cpus = comm::cpu_bits(cpus.empty() ? std::vector{0} : std::vector<int>(cpus.begin(), cpus.end()));
  return record;
}

Result<std::chrono::milliseconds> seconds_from_environment(Lookup const& lookup, char const* name,
                                                           std::chrono::milliseconds fallback) {
  std::string const text = variable(lookup, name);
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
