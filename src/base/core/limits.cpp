#include "src/base/core/limits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/core/text.hpp"

namespace cxxrun {
namespace {

/// Threads and processes of the failed start that have ended before the group is counted.
constexpr std::uint64_t kEndedMeanwhile = 8;
/// The address space of a thread or two: their stacks and the arenas of malloc.
constexpr std::uint64_t kThreadBytes = std::uint64_t{128} << 20U;

/// slurm.conf(5): slurmd gives a job the soft limits of the shell that submitted it (PropagateResourceLimits, by
/// default all of them), below its own hard ones.
std::string remedy_for(Limit const& limit, char letter, char const* name, std::uint64_t wanted, bool of_slurm) {
  std::string const option = std::string("ulimit -") + letter;
  std::string const systemd = std::string("Limit") + name;
  auto const& hard = limit.hard;
  if (!hard || *hard > limit.soft.value_or(0)) {
    auto const most = hard ? std::min(*hard, wanted) : wanted;
    return "raise it with `" + option + " " + std::to_string(most) + "` " +
           (of_slurm ? std::string("in the job script; Slurm takes it from the shell that submits, see "
                                   "PropagateResourceLimits in slurm.conf")
                     : "before cxxrun");
  }
  std::string const flag = lower(name);
  return "it is the hard limit (`ulimit -H" + std::string(1, letter) + "`), which an administrator raises: " +
         (of_slurm ? systemd + " of slurmd, PropagateResourceLimitsExcept=" + name + " in slurm.conf"
                   : "/etc/security/limits.conf, " + systemd + " of a service, --ulimit " + flag + " of a container");
}

std::string amount(std::uint64_t bytes) {
  constexpr std::uint64_t kKi = 1024;
  return bytes < kKi * kKi ? std::to_string(bytes / kKi) + " KiB" : std::to_string(bytes / (kKi * kKi)) + " MiB";
}

ReachedLimit of_files(Limits const& limits) {
  constexpr std::uint64_t kPlenty = 65536;
  if (!limits.files.soft) {
    return {};
  }
  return {"the limit is " + std::to_string(*limits.files.soft) + " open files (ulimit -n)",
          remedy_for(limits.files, 'n', "NOFILE", kPlenty, limits.of_slurm)};
}

std::optional<ReachedLimit> of_memory(Limits const& limits) {
  auto const& space = limits.address_space.soft;
  if (space && *space < limits.mapped + kThreadBytes) {
    return ReachedLimit{"the limit is " + amount(*space) + " of address space (ulimit -v)",
                        lifting('v') + "; a limit on memory is --mem of Slurm"};
  }
  auto const& data = limits.data.soft;
  if (data && *data < kThreadBytes) {
    return ReachedLimit{"the limit is " + amount(*data) + " of data (ulimit -d)", lifting('d')};
  }
  return std::nullopt;
}

ReachedLimit of_tasks(Limits const& limits) {
  constexpr std::uint64_t kPlenty = 65536;
  auto const full = std::find_if(limits.groups.begin(), limits.groups.end(),
                                 [](TaskGroup const& group) { return group.now + kEndedMeanwhile >= group.most; });
  if (full != limits.groups.end()) {
    return {
        "the limit is " + std::to_string(full->most) + " processes and threads in control group " +
            printable(full->group.empty() ? "/" : full->group) + " (pids.max), and " + std::to_string(full->now) +
            " are there",
        "raise it: TasksMax of its systemd unit, --pids-limit of its container; or start fewer workers and threads"};
  }
  if (auto memory = of_memory(limits)) {
    return *std::move(memory);  // a thread without room for its stack fails with the same error
  }
  if (!limits.tasks.soft || limits.privileged) {
    return {};
  }
  return {"the limit is " + std::to_string(*limits.tasks.soft) +
              " processes and threads of this user on this node (ulimit -u)",
          remedy_for(limits.tasks, 'u', "NPROC", kPlenty, limits.of_slurm) +
              "; or end what runs here: ps -L -u $USER shows it"};
}

ReachedLimit of_file_size(Limits const& limits) {
  if (!limits.file_size.soft) {
    return {};
  }
  return {"the limit is " + amount(*limits.file_size.soft) + " per file (ulimit -f)", lifting('f')};
}

/// Where to look if none of this process's limits explains it.
std::string where_to_look(int error) {
  switch (error) {
    case EAGAIN: return "see ulimit -u, pids.max of the control group, and sysctl kernel.threads-max kernel.pid_max";
    case ENFILE: return "all open files of the node: sysctl fs.file-nr shows them, fs.file-max is the limit";
    case ENOMEM: return "the node or its control group is short of memory: see free -m, and --mem of Slurm";
    default: return "see the limits with: ulimit -a";
  }
}

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62U;  // version 1 has the largest number, rounded to pages

struct CgroupMount {
  std::string root;
  std::string point;
};

/// mountinfo writes blanks, tabs, newlines and backslashes as \040 and the like.
std::string unescaped(std::string_view text) {
  auto const octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// "36 35 0:33 ROOT POINT rw,relatime shared:1 - cgroup cgroup rw,memory"
std::optional<CgroupMount> mount_of(std::string_view mountinfo, std::string_view controller) {
  for (auto const& line : split(mountinfo, '\n')) {
    auto const words = split(line, ' ');
    auto const dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) {
      continue;
    }
    auto const options = split(dash[3], ',');
    bool const has_it = std::find(options.begin(), options.end(), controller) != options.end();
    if (controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has_it) {
      return CgroupMount{unescaped(words[3]), unescaped(words[4])};
    }
  }
  return std::nullopt;
}

/// From "4:memory:/a/b", "0::/a/b". A group's name may contain colons, a controller's may not.
std::optional<std::string> group_in(std::string_view cgroup, std::string_view controller) {
  for (auto const& line : split(cgroup, '\n')) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    auto const controllers = split(line.substr(first + 1, second - first - 1), ',');
    bool const has_it = std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (controller.empty() ? line.starts_with("0::") : has_it) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// `controller`: of version 1; "" for version 2.
std::optional<GroupHierarchy> find_in_version(std::string_view cgroup, std::string_view mountinfo,
                                              std::string_view controller) {
  auto group = group_in(cgroup, controller);
  auto mount = mount_of(mountinfo, controller);
  if (!group || !mount || !group->starts_with('/') || !mount->root.starts_with('/')) {
    return std::nullopt;
  }
  std::string const top = mount->root == "/" ? "" : mount->root;
  std::string below = *group == "/" ? "" : *group;
  bool const inside = below == top || below.starts_with(top + "/");
  if (!inside || (below + "/").find("/../") != std::string::npos) {
    return std::nullopt;
  }
  below.erase(0, top.size());
  GroupHierarchy found{controller.empty(), mount->point, top, {}};
  for (; !below.empty(); below.erase(below.rfind('/'))) {
    found.below.push_back(below);
  }
  found.below.emplace_back();
  return found;
}

}  // namespace

ReachedLimit reached_limit(int error, Limits const& limits) {
  switch (error) {
    case EMFILE: return of_files(limits);
    case EAGAIN: return of_tasks(limits);
    case ENOMEM: return of_memory(limits).value_or(ReachedLimit{});
    case EFBIG: return of_file_size(limits);
    default: return {};
  }
}

std::string explain_refusal(std::string const& what, int error, Limits const& limits) {
  auto const reached = reached_limit(error, limits);
  std::string const line = what + ": " + std::strerror(error);  // NOLINT(concurrency-mt-unsafe)
  return reached.limit.empty() ? line + "; " + where_to_look(error)
                               : line + ": " + reached.limit + "; " + reached.remedy;
}

std::string lifting(char letter) {
  return std::string("`ulimit -") + letter + " unlimited` before cxxrun takes it away, where the hard limit allows it";
}

std::string room_for(std::string const& path, int error) {
  switch (error) {
    case ENOSPC: return "free space there: df -h " + shell_quote(path) + " and df -i show it";
    case EDQUOT: return "your quota there is used up: quota -s shows it";
    case EFBIG: return "the limit on the size of files is reached: raise `ulimit -f`";
    default: return {};
  }
}

std::optional<GroupHierarchy> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                          std::string_view controller) {
  auto found = find_in_version(cgroup, mountinfo, controller);
  return found ? found : find_in_version(cgroup, mountinfo, {});
}

std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view key) {
  for (auto const& line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return number_in<std::uint64_t>(trim(std::string_view(line).substr(key.size())));
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> limit_in(std::string_view text) {
  auto const number = number_in<std::uint64_t>(trim(text));
  return number && *number < kNoLimit ? number : std::nullopt;
}

}  // namespace cxxrun
