#include <algorithm>

#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/numbers.hpp"
#include "launcher/facts/kernel_release.hpp"
#include "launcher/report/death.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string limit_text(std::optional<double> limit) {
  return limit ? std::to_string(static_cast<std::uint64_t>(*limit)) : "unlimited";
}

}  // namespace

Finding judge_ports(Facts const& facts) {
  if (auto const error = value_of(facts, "port.error"); !error.empty()) {
    return {Grade::failure, "ports", "cannot listen and be called here: " + error,
            "look at firewalls, and at what a container or seccomp forbids"};
  }
  auto const taken = value_of(facts, "port.taken");
  auto const range = value_of(facts, "port.range");
  std::string const free = "any free one of " + (range.empty() ? "the kernel's" : range);
  return taken.empty() ? Finding{Grade::fine, "ports", free, ""}
                       : Finding{Grade::note, "ports", free + "; taken: " + taken,
                                 "needed only by who gives them: choose another one with --rdzv-endpoint HOST:PORT"};
}

Finding judge_clock(Facts const& facts) {
  auto const synced = value_of(facts, "clock.synced");
  if (synced == "0") {
    return {Grade::warning, "clock", "the kernel does not know it to be set by NTP",
            "start chrony or ntpd: munge refuses what is older than 5 minutes, and logs of nodes do not line up"};
  }
  return {Grade::fine, "clock", synced.empty() ? "not known" : "set by NTP", ""};
}

Finding judge_kernel(Facts const& facts) {
  auto const release = value_of(facts, "kernel.release");
  std::string const text = "Linux " + release + ", glibc " + value_of(facts, "kernel.libc");
  if (kernel_too_old(release)) {
    return {Grade::warning, "kernel", text,
            "cxxrun is made for Linux 4.18 and newer, and may fail here: an older node is left out with --exclude"};
  }
  if (auto const proc = value_of(facts, "kernel.proc"); !proc.empty()) {
    return {Grade::warning, "kernel", text + "; /proc: " + proc,
            "what a worker starts is not found without it: mount /proc in the container or chroot"};
  }
  if (auto const pidfd = value_of(facts, "kernel.pidfd"); !pidfd.empty()) {
    return {Grade::note, "kernel", text + "; pidfd_open: " + pidfd,
            "cxxrun has another way; Linux 5.3 has it, and a container's seccomp profile may forbid it"};
  }
  return {Grade::fine, "kernel", text, ""};
}

Finding judge_cpus(Facts const& facts) {
  auto const usable = number(facts, "cpus.usable");
  auto const quota = number(facts, "cpus.quota");
  std::string const text = whole(usable) + " of " + whole(number(facts, "cpus.online"));
  if (quota && usable && *quota < *usable) {
    return {Grade::warning, "CPUs", text + ", and a quota of the control group of " + tenths(*quota),
            "workers of more threads are paused: ask for more with --cpus-per-task, or set OMP_NUM_THREADS"};
  }
  if (auto const warning = value_of(facts, "cpus.warning"); !warning.empty()) {
    return {Grade::warning, "CPUs", text, warning};
  }
  auto const gpus = number(facts, "gpu.workers");
  if (usable && gpus && *gpus > *usable) {
    return {Grade::warning, "CPUs", text + " for " + whole(gpus) + " GPUs",
            "one worker per GPU and several loaders each need more: srun --cpus-per-task=N, in the srun line too"};
  }
  bool const bound = value_of(facts, "slurm.TaskPlugin").find("affinity") != std::string::npos;
  if (bound && usable && *usable == 1 && number(facts, "cpus.online").value_or(1) > 1) {
    return {Grade::note, "CPUs", text + ", by task/affinity",
            "a task of srun has one CPU unless it asks for more, data loaders included: srun --cpus-per-task=N"};
  }
  return {Grade::fine, "CPUs", text, ""};
}

Finding judge_memory(Facts const& facts) {
  auto const available = number(facts, "memory.available");
  auto const limit = number(facts, "memory.limit");
  auto const used = number(facts, "memory.usage");
  if (!available) {
    return {Grade::note, "memory", "not known", ""};
  }
  auto free = *available;
  std::string text = size_text(*available) + " available";
  if (limit && used) {
    free = std::min(free, *limit - std::min(*limit, *used));
    text +=
        ", limit " + size_text(*limit) + " of " + value_of(facts, "memory.group") + ", " + size_text(*used) + " used";
  }
  if (free < kGiB) {
    return {free < kGiB / 16 ? Grade::failure : Grade::warning, "memory", text,
            limit ? "ask for more with --mem (0: all of the node)" : "other programs have it: look with top"};
  }
  return {Grade::fine, "memory", text, ""};
}

Finding judge_shm(Facts const& facts) {
  if (auto const error = value_of(facts, "shm.error"); !error.empty()) {
    return {Grade::warning, "/dev/shm", error, "mount it: data loaders and NCCL keep their memory there"};
  }
  auto const free = number(facts, "shm.free");
  auto const size = number(facts, "shm.size");
  if (!free || !size) {
    return {Grade::note, "/dev/shm", "not known", ""};
  }
  std::string const text = size_text(*free) + " free of " + size_text(*size);
  if (*free < kGiB) {
    return {Grade::warning, "/dev/shm", text,
            "data loaders of PyTorch die with a bus error when it is full: docker run --shm-size=16g or --ipc=host; "
            "else remove old files there"};
  }
  return {Grade::fine, "/dev/shm", text, ""};
}

Finding judge_descriptors(Facts const& facts) {
  auto const hard = number(facts, "nofile.hard");
  std::string const text = limit_text(number(facts, "nofile.soft")) + ", up to " + limit_text(hard);
  if (hard && *hard < 4096) {
    return {*hard < 256 ? Grade::failure : Grade::warning, "descriptors", text,
            "raise the hard limit (ulimit -Hn, LimitNOFILE of slurmd): the first node holds one for each worker"};
  }
  return {Grade::fine, "descriptors", text, ""};
}

Finding judge_processes(Facts const& facts) {
  if (auto const error = value_of(facts, "fork.error"); !error.empty()) {
    return {Grade::failure, "processes", "no process could be started: " + error,
            "raise `ulimit -u`, or TasksMax and pids.max of the container; end what runs there already"};
  }
  auto const user = number(facts, "nproc.soft");
  auto const left = number(facts, "pids.left");
  std::string const text =
      limit_text(user) + " for this user" + (left ? ", " + whole(left) + " left in the control group" : "");
  bool const few = (user && *user < 1024) || (left && *left < 1024);
  return few ? Finding{Grade::warning, "processes", text,
                       "threads count too: raise `ulimit -u`, or TasksMax and pids.max of the container"}
             : Finding{Grade::fine, "processes", text, ""};
}

Finding judge_locked_memory(Facts const& facts) {
  auto const soft = number(facts, "memlock.soft");
  auto const cards = value_of(facts, "rdma.devices");
  std::string const text = (soft ? size_text(*soft) : "unlimited") + (cards.empty() ? "" : ", with " + cards);
  if (soft && !cards.empty()) {
    return {Grade::warning, "locked memory", text,
            "InfiniBand and RoCE need it unlimited: LimitMEMLOCK=infinity of slurmd, "
            "PropagateResourceLimitsExcept=MEMLOCK"};
  }
  return {Grade::fine, "locked memory", text, ""};
}

}  // namespace cxxrun::launcher::doctor
