#include "launcher/doctor/look.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "launcher/doctor/job_script.hpp"
#include "launcher/job_end/end_watch.hpp"
#include "launcher/logs/log_dir.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

// ---- libraries: NVML and NCCL

constexpr int kNoPermission = 4;  // NVML_ERROR_NO_PERMISSION: a control group denies the device to the job

/// The functions of nvml.h that are used. nvmlReturn_t is an int, 0 is success.
struct Nvml {
  using Device = void*;
  int (*init)() = nullptr;
  char const* (*error_text)(int) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
};

bool find_functions(void* library, Nvml& nvml) {
  return os::find_function(library, "nvmlInit_v2", nvml.init) &&
         os::find_function(library, "nvmlErrorString", nvml.error_text) &&
         os::find_function(library, "nvmlSystemGetDriverVersion", nvml.driver) &&
         os::find_function(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         os::find_function(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         os::find_function(library, "nvmlDeviceGetName", nvml.name);
}

void look_at_each(Nvml const& nvml, unsigned count, Say const& say) {
  std::map<std::string, unsigned> names;
  std::vector<std::string> sick;
  unsigned forbidden = 0;
  for (unsigned i = 0; i < count; ++i) {
    Nvml::Device device = nullptr;
    std::array<char, 96> name{};
    int error = nvml.handle(i, &device);
    error = error == 0 ? nvml.name(device, name.data(), name.size() - 1) : error;
    if (error == kNoPermission) {
      ++forbidden;
    } else if (error != 0) {
      sick.push_back("GPU " + std::to_string(i) + ": " + nvml.error_text(error));
    } else {
      ++names[name.data()];
    }
  }
  auto const words = list_of(names, [](auto const& each) { return std::to_string(each.second) + " x " + each.first; });
  tell(say, "gpu.count", std::to_string(count - forbidden));
  tell(say, "gpu.forbidden", std::to_string(forbidden));
  tell(say, "gpu.names", join(words, ", "));
  tell(say, "gpu.sick", join(sick, ", "));
}

void look_at_nccl(Say const& say) {
  int (*get_version)(int*) = nullptr;
  int version = 0;
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr && os::find_function(library, "ncclGetVersion", get_version) && get_version(&version) == 0) {
    int const major = version < 10'000 ? version / 1000 : version / 10'000;
    int const rest = version < 10'000 ? version % 1000 : version % 10'000;
    tell(say, "nccl.version",
         std::to_string(major) + "." + std::to_string(rest / 100) + "." + std::to_string(rest % 100));
  }
}

void look_at_gpus(Say const& say) {
  Nvml nvml;
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    tell(say, "gpu.missing", "libnvidia-ml.so.1");
    return;
  }
  if (!find_functions(library, nvml)) {
    tell(say, "gpu.error", "libnvidia-ml.so.1 lacks functions: another program's?");
    return;
  }
  std::array<char, 96> driver{};
  unsigned count = 0;
  int error = nvml.init();
  error = error == 0 ? nvml.driver(driver.data(), driver.size() - 1) : error;
  error = error == 0 ? nvml.count(&count) : error;
  if (error != 0) {
    tell(say, "gpu.error", nvml.error_text(error));
    return;
  }
  tell(say, "gpu.driver", driver.data());
  tell(say, "gpu.count", std::to_string(count));  // of the node; look_at_each() replaces it by that of the job
  look_at_each(nvml, count, say);
}

// ---- programs: Python and Slurm

constexpr std::size_t kMostText = std::size_t{256} * 1024;

/// Prints facts. Reads the version of torch from its files: an import takes seconds and many CPUs. Imports nothing from
/// the working directory, which Python puts first with -c: others may be able to write there.
constexpr char const* kAboutPython = R"(
import sys
sys.path[:] = [each for each in sys.path if each]
print("python.version=" + sys.version.split()[0])
print("python.path=" + sys.executable)
import importlib.util, os, re
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
        text = file.read()
    found = re.search(r"^__version__\s*=\s*'([^']+)'", text, re.M)
    print("torch.version=" + (found.group(1) if found else "unknown"))
    found = re.search(r"^cuda\b[^=]*=\s*'([^']+)'", text, re.M)
    print("torch.cuda=" + (found.group(1) if found else ""))
)";

/// What it prints; of one that fails the last line, as an error.
Result<std::string> run_program(std::vector<std::string> argv, Environment const& environment) {
  auto const started = os::spawn_piped(std::move(argv), as_words(environment));
  if (!started) {
    return started.error();
  }
  auto text = os::read_all(started->output.get(), kMostText).value_or("");
  int status = 0;
  static_cast<void>(os::retried([&] { return ::waitpid(started->pid, &status, 0); }));
  if (status != 0) {
    auto const whole = std::string(trim(text));
    return fail(Errc::io, whole.substr(whole.rfind('\n') + 1));
  }
  return text;
}

void look_at_python(LookOptions const& wanted, Environment const& environment, Say const& say) {
  auto const found = os::find_program(wanted.python, as_words(environment));
  if (found.error != 0) {
    tell(say, "python.missing", wanted.python);
    if (wanted.needs_python) {
      tell(say, "python.needed", "yes");
    }
    return;
  }
  tell(say, "python.path", found.path);
  auto const ran = run_program({wanted.python, "-c", kAboutPython}, environment);
  if (!ran) {
    tell(say, "python.error", ran.error().message());
    return;
  }
  say(*ran);
}

void look_at_slurm(Environment const& environment, Say const& say) {
  static constexpr std::array kKeys{"KillWait",        "ProctrackType",         "TaskPlugin",
                                    "SlurmdTimeout",   "UnkillableStepTimeout", "TaskPluginParam",
                                    "ConstrainDevices"};
  // scontrol does not show this setting of cgroup.conf.
  if (auto const conf = read_slurm_conf(environment); conf && conf->signals_children) {
    tell(say, "slurm.SignalChildrenProcesses", "yes");
  }
  auto const ran = run_program({"scontrol", "show", "config"}, environment);
  if (!ran) {
    tell(say, "slurm.error", ran.error().message());
    return;
  }
  for (auto const& line : split(*ran, '\n')) {
    auto const at = line.find('=');
    auto const key = std::string(trim(line.substr(0, at)));
    for (auto const* const wanted : kKeys) {
      if (at != std::string::npos && key == wanted) {
        tell(say, "slurm." + key, std::string(trim(line.substr(at + 1))));
      }
    }
  }
}

// ---- directories

constexpr std::uint32_t kFiles = 1000;  // of all nodes together: they may share one metadata server
constexpr std::uint32_t kFewestFiles = 20;
constexpr Millis kLongestLook{2000};  // to create files, and to open them; a slow directory gets fewer files

std::string type_of(std::string const& dir) {
  struct Named {
    std::uint32_t magic;
    char const* name;
  };
  static constexpr std::array kTypes{
      Named{0x6969, "nfs"},        Named{0x0bd00bd0, "lustre"}, Named{0x47504653, "gpfs"},
      Named{0x19830326, "beegfs"}, Named{0xef53, "ext4"},       Named{0x58465342, "xfs"},
      Named{0x9123683e, "btrfs"},  Named{0x01021994, "tmpfs"},  Named{0x794c7630, "overlay"},
      Named{0x00c36400, "ceph"},   Named{0x65735546, "fuse"},   Named{0xff534d42, "cifs"},
      Named{0xfe534d42, "smb2"},   Named{0x2fc12fc1, "zfs"},    Named{0x73717368, "squashfs"}};
  struct statfs info {};
  if (statfs(dir.c_str(), &info) != 0) {
    return std::strerror(errno);
  }
  for (auto const& type : kTypes) {
    if (static_cast<std::uint32_t>(info.f_type) == type.magic) {
      return type.name;
    }
  }
  return "another file system";
}

/// "" or the error. Leaves two files. Writes and syncs: a quota may allow a new file but refuse the first byte.
std::string write_error(os::Folder const& dir) {
  auto const file = dir.create("old");
  bool const written = file && ::write(file.get(), "cxxrun", 6) == 6 && ::fsync(file.get()) == 0;
  return written && dir.create("new") ? "" : std::strerror(errno);
}

/// "" or the error. One file for each kind of lock: on NFS flock and fcntl locks of one file exclude each other.
std::string lock_error(os::Folder const& dir) {
  auto const flocked = dir.open_own("old");
  auto const posix = dir.open_own("new");
  struct flock whole {};
  whole.l_type = F_WRLCK;
  bool const locked = ::flock(flocked.get(), LOCK_EX | LOCK_NB) == 0 && ::fcntl(posix.get(), F_SETLK, &whole) == 0;
  return locked ? "" : std::strerror(errno);
}

/// Creates up to `files` files, opens them, and reports how many and how long opening took.
void time_opens(os::Folder const& dir, std::uint32_t files, Say const& say) {
  std::uint32_t made = 0;
  for (auto const end = Clock::now() + kLongestLook; made < files && Clock::now() < end; ++made) {
    if (!dir.create(std::to_string(made))) {
      break;
    }
  }
  auto const begin = Clock::now();
  std::uint32_t opened = 0;
  while (opened < made && Clock::now() < begin + kLongestLook && dir.open_file(std::to_string(opened))) {
    ++opened;
  }
  tell(say, "fs.open_ms", std::to_string(std::chrono::duration<double, std::milli>(Clock::now() - begin).count()));
  tell(say, "fs.opened", std::to_string(opened));
}

void look_at_directory(LookOptions const& wanted, os::Caretaker const& caretaker, Say const& say) {
  std::error_code failed;
  auto const here = std::filesystem::current_path(failed).string();
  if (failed) {
    tell(say, "fs.error", "the working directory: " + failed.message());
    return;
  }
  tell(say, "fs.dir", here);
  tell(say, "fs.type", type_of(here));
  auto const name = ".cxxrun-doctor-" + random_hex(16);
  auto const scratch = here + "/" + name;
  caretaker.remove_at_end(scratch);
  auto const above = os::Folder::open(here);
  auto const dir = above ? above.make_marked(name) : os::Folder();
  auto const error = dir ? write_error(dir) : std::strerror(errno);
  if (error.empty()) {
    tell(say, "fs.lock", lock_error(dir));
    tell(say, "fs.rename", dir.rename("new", "old") ? "" : std::strerror(errno));
    time_opens(dir, std::max(kFewestFiles, kFiles / std::max(1U, wanted.nodes)), say);
  } else {
    tell(say, "fs.error", "cannot write there: " + error);
  }
  if (above) {
    (void)above.remove_marked(name);
  }
}

void look_at_logs(LookOptions const& wanted, Environment const& environment, Say const& say) {
  if (wanted.log_dir == "/dev/null") {
    tell(say, "log.dir", "no files (--log-dir /dev/null)");
    return;
  }
  auto const temporary = value_of(environment, "TMPDIR");
  std::string dir = !wanted.log_dir.empty() ? wanted.log_dir : !temporary.empty() ? temporary : "/tmp";
  tell(say, "log.dir", dir);  // before anything that may hang
  if (auto const usable = check_log_dir(wanted.log_dir, temporary); !usable) {
    tell(say, "log.error", usable.error().message());
  } else if (auto const first = check_temporary(dir); wanted.log_dir.empty() && !first) {
    tell(say, "log.unused", first.error().message());
    dir = "/tmp";
    tell(say, "log.dir", dir);
  }
  struct statvfs space {};
  std::filesystem::path there = dir;
  while (statvfs(there.c_str(), &space) != 0 && there.has_relative_path()) {
    there = there.parent_path();
  }
  tell(say, "log.free", std::to_string(space.f_bavail * space.f_frsize));
}

void look_at_home(Environment const& environment, Say const& say) {
  auto const home = value_of(environment, "HOME");
  tell(say, "home.dir", home);
  if (home.empty()) {
    tell(say, "home.error", "HOME is not set");
  } else if (::access(home.c_str(), W_OK | X_OK) != 0) {
    tell(say, "home.error", home + ": " + std::strerror(errno));
  }
}

// ---- the children

/// A child, the prefix of its facts, and its time limit.
struct Question {
  os::LimitedChild child;
  std::string about;
  Millis limit;
};

void take_lines(std::string const& said, Facts& facts) {
  for (auto const& line : split(said, '\n')) {
    if (auto const at = line.find('='); at != std::string::npos) {
      facts[line.substr(0, at)] = line.substr(at + 1);
    }
  }
}

}  // namespace

void look_at_partitions(Environment const& environment, Say const& say) {
  auto const ran = run_program({"sinfo", "-h", "-o", kSinfoFormat}, environment);
  if (!ran) {
    say(kNoPartitions + ran.error().message());
    return;
  }
  say(*ran);
}

void tell(Say const& say, std::string const& key, std::string const& value) {
  say(key + "=" + replace_all(value, "\n", " ") + "\n");
}

std::function<Facts()> start_looking(LookOptions const& wanted, Environment const& environment,
                                     os::Caretaker const& caretaker) {
  TimePoint const begin = Clock::now();
  auto const questions = std::make_shared<std::vector<Question>>();
  auto const ask = [&questions](char const* about, Millis limit, std::function<void(Say const&)> const& work) {
    questions->push_back({os::LimitedChild(work), about, limit});
  };
  ask("name", Millis{15'000}, [&](Say const& say) { look_at_names(wanted, say); });
  ask("gpu", Millis{10'000}, [](Say const& say) { look_at_gpus(say); });
  ask("nccl", Millis{10'000}, [](Say const& say) { look_at_nccl(say); });
  ask("fs", Millis{10'000}, [&](Say const& say) { look_at_directory(wanted, caretaker, say); });
  ask("log", Millis{10'000}, [&](Say const& say) { look_at_logs(wanted, environment, say); });
  ask("home", Millis{10'000}, [&](Say const& say) { look_at_home(environment, say); });
  ask("python", Millis{20'000}, [&](Say const& say) { look_at_python(wanted, environment, say); });
  if (wanted.slurm) {
    ask("slurm", Millis{5'000}, [&](Say const& say) { look_at_slurm(environment, say); });
  }
  Facts facts = look_at_system(environment);
  auto use = wanted.cpus;
  use.usable = os::usable_cpus();
  facts["cpus.warning"] = join(cpu_warnings(environment, use), "; ");
  facts["host"] = facts["name.own"] = wanted.host;
  facts["nodes"] = std::to_string(wanted.nodes);
  facts["name.needless"] = wanted.by_address ? "1" : "";
  return [begin, questions, facts = std::move(facts)]() mutable {
    for (auto& each : *questions) {
      auto const words = each.child.wait_until(begin + each.limit);
      take_lines(words.said, facts);
      if (!words.error.empty()) {
        facts["fork.error"] = words.error;
        facts[each.about + ".unasked"] = words.error;
      } else if (!words.ended) {
        facts[each.about + ".hung"] = seconds_text(each.limit);
      }
    }
    return std::move(facts);
  };
}

}  // namespace cxxrun::launcher::doctor
