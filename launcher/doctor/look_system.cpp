#include <cerrno>
#include <cstring>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "launcher/doctor/look.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/report/death.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::launcher::doctor {
namespace {

void look_at_kernel(Facts& facts) {
  utsname names{};
  uname(&names);
  facts["kernel.release"] = names.release;
  facts["kernel.libc"] = gnu_get_libc_version();
  facts["kernel.proc"] = os::read_stat(getpid()) ? "" : "not mounted";
  os::UniqueFd const pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  facts["kernel.pidfd"] = pidfd ? "" : std::strerror(errno);
  timex state{};
  int const synced = adjtimex(&state);
  facts["clock.synced"] = synced < 0 ? "" : synced == TIME_ERROR || (state.status & STA_UNSYNC) != 0 ? "0" : "1";
}

void look_at_limits(Facts& facts) {
  struct Limit {
    __rlimit_resource which;
    char const* soft;
    char const* hard;
  };
  for (auto const& limit :
       {Limit{RLIMIT_NOFILE, "nofile.soft", "nofile.hard"}, Limit{RLIMIT_NPROC, "nproc.soft", "nproc.hard"},
        Limit{RLIMIT_MEMLOCK, "memlock.soft", "memlock.hard"}}) {
    rlimit found{};
    getrlimit(limit.which, &found);
    facts[limit.soft] = found.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(found.rlim_cur);
    facts[limit.hard] = found.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(found.rlim_max);
  }
  facts["rdma.devices"] = join(os::entries_of("/sys/class/infiniband"), " ");
}

/// The smallest limit of all groups is the one in effect.
void keep_least(Facts& facts, std::string const& key, std::optional<double> value) {
  auto const known = number(facts, key);
  if (value && (!known || *value < *known)) {
    facts[key] = std::to_string(*value);
  }
}

std::optional<double> limit_in(std::string const& file) {
  return number(std::string(trim(os::read_text(file))));
}

/// The control groups (version 1 or 2) that limit this process, from its own up.
GroupHierarchy groups_with(char const* controller) {
  return find_groups(os::read_text("/proc/self/cgroup"), os::read_text("/proc/self/mountinfo"), controller)
      .value_or(GroupHierarchy{});
}

void look_at_groups(Facts& facts) {
  auto const pids = groups_with("pids");
  for (auto const& below : pids.below) {
    if (auto const most = limit_in(pids.mount + below + "/pids.max")) {
      keep_least(facts, "pids.left", *most - limit_in(pids.mount + below + "/pids.current").value_or(0));
    }
  }
  keep_least(facts, "cpus.quota", os::cpu_quota());
}

void look_at_memory(Facts& facts) {
  for (auto const& line : split(os::read_text("/proc/meminfo"), '\n')) {
    auto const words = split(line, ' ');
    if (words.size() > 2 && words.front() == "MemAvailable:") {
      auto const kilobytes = number(words[words.size() - 2]).value_or(0);
      facts["memory.available"] = std::to_string(static_cast<std::uint64_t>(kilobytes) * 1024);
    }
  }
  std::uint64_t least = ~std::uint64_t{0};
  for (auto const& limit : os::MemoryGroup().read().limits) {
    auto const left = limit.bytes - std::min(limit.bytes, limit.usage);
    if (left < least) {
      least = left;
      facts["memory.limit"] = std::to_string(limit.bytes);
      facts["memory.usage"] = std::to_string(limit.usage);
      facts["memory.group"] = group_name(limit.group);
    }
  }
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) != 0) {
    facts["shm.error"] = std::strerror(errno);
  } else if (access("/dev/shm", W_OK | X_OK) != 0) {
    facts["shm.error"] = std::string("not writable: ") + std::strerror(errno);
  } else {
    facts["shm.size"] = std::to_string(space.f_blocks * space.f_frsize);
    facts["shm.free"] = std::to_string(space.f_bavail * space.f_frsize);
  }
}

/// "" if this node can connect to its own address, else the error.
std::string call_error(std::string const& address, std::uint16_t port) {
  auto const found = os::resolve(address, port, SOCK_STREAM, AI_NUMERICHOST);
  if (!found) {
    return found.error().context;
  }
  os::UniqueFd caller;
  int const error = connect_to(**found, caller, Clock::now() + Millis{1000});
  // No socket: a filter forbids the family, so the listener does not use it either.
  return error == 0 || !caller ? "" : address + ": " + std::strerror(error);
}

void look_at_ports(Facts& facts) {
  auto const range = split(std::string(trim(os::read_text("/proc/sys/net/ipv4/ip_local_port_range"))), '\t');
  facts["port.range"] = range.size() == 2 ? range[0] + "-" + range[1] : "";
  std::vector<std::string> taken;
  for (auto const port : {std::uint16_t{29400}, std::uint16_t{29500}}) {
    if (auto const there = os::listen_at({port, false}); !there && there.error().code == Errc::in_use) {
      taken.push_back(std::to_string(port));
    }
  }
  facts["port.taken"] = join(taken, " ");
  auto const listening = os::listen_at({});
  facts["port.error"] = listening ? "" : listening.error().message();
  std::vector<std::string> interfaces;
  std::vector<std::string> loopback;
  for (auto const& each : os::interface_addresses()) {
    (each.loopback ? loopback : interfaces).push_back(each.name + "=" + each.address);
    bool const sound = listening && value_of(facts, "port.error").empty();
    facts["port.error"] = sound ? call_error(each.address, listening->port) : value_of(facts, "port.error");
  }
  facts["net.interfaces"] = join(interfaces, " ");
  facts["net.loopback"] = join(loopback, " ");
}

}  // namespace

Facts look_at_system(Environment const& environment) {
  Facts facts;
  look_at_kernel(facts);
  look_at_limits(facts);
  look_at_groups(facts);
  look_at_memory(facts);
  look_at_ports(facts);
  facts["cpus.usable"] = std::to_string(os::usable_cpus());
  facts["cpus.online"] = std::to_string(get_nprocs());
  auto const devices = os::gpu_devices();
  facts["gpu.devices"] = std::to_string(devices);
  auto const visible = os::count_gpus(find_value(environment, "CUDA_VISIBLE_DEVICES"), devices);
  facts["gpu.workers"] = std::to_string(slurm_devices(environment).value_or(visible));
  for (auto const& [variable, key] :
       {std::pair{"CUDA_VISIBLE_DEVICES", "gpu.visible"}, std::pair{"NCCL_SOCKET_IFNAME", "net.wanted"},
        std::pair{"SLURM_JOB_ID", "slurm.job"}, std::pair{"SLURM_STEP_ID", "slurm.step"},
        std::pair{"SLURM_NO_KILL", "slurm.no_kill"}, std::pair{"SLURM_STEP_NUM_NODES", "slurm.nodes"},
        std::pair{"SLURM_STEPMGR", "slurm.step_manager"}}) {
    if (auto const value = find_value(environment, variable)) {
      facts[key] = *value;
    }
  }
  return facts;
}

}  // namespace cxxrun::launcher::doctor
