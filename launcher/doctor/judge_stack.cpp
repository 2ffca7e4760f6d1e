#include <algorithm>

#include "launcher/doctor/judge.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr double kSlowOpens = 2000;  // ms for 1,000 files; importing PyTorch opens about 3,000

/// Whether a word of NCCL_SOCKET_IFNAME matches the interface: as a prefix, or with '=' in front of the list exactly.
bool chosen(std::string const& word, std::string const& interface, bool exact) {
  return exact ? interface == word : interface.starts_with(word);
}

/// Those of `interfaces` ("eth0=10.0.0.1") that NCCL_SOCKET_IFNAME selects; all for "".
std::vector<std::string> selected_by(std::string wanted, std::vector<std::string> const& interfaces) {
  bool const without = wanted.starts_with('^');
  wanted.erase(0, without ? 1 : 0);
  bool const exact = wanted.starts_with('=');
  wanted.erase(0, exact ? 1 : 0);
  std::vector<std::string> left;
  for (auto const& each : interfaces) {
    auto const name = each.substr(0, each.find('='));
    bool named = false;
    for (auto const& word : split(wanted, ',')) {
      named = named || chosen(word, name, exact);
    }
    if (wanted.empty() || named != without) {
      left.push_back(each);
    }
  }
  return left;
}

/// With ConstrainDevices a control group denies the GPUs of other jobs, but NVML still counts them as devices.
std::string gpus_text(Facts const& facts, double devices, double count) {
  auto const forbidden = number(facts, "gpu.forbidden").value_or(0);
  return value_of(facts, "gpu.names") + (count + forbidden < devices ? " (device files: " + whole(devices) + ")" : "") +
         ", driver " + value_of(facts, "gpu.driver") +
         (forbidden > 0 ? ", " + whole(forbidden) + " forbidden to this job" : "");
}

std::vector<std::string> words_of(std::string const& text) {
  return text.empty() ? std::vector<std::string>() : split(text, ' ');
}

/// NCCL uses loopback if the variable selects nothing else.
Finding judge_wanted(Facts const& facts, std::string const& wanted, std::vector<std::string> const& all,
                     std::string const& has) {
  std::string const remedy = "unset it, or name one that every node has, for example NCCL_SOCKET_IFNAME=" +
                             (all.empty() ? "eth0" : all.front().substr(0, all.front().find('=')));
  std::string const setting = "NCCL_SOCKET_IFNAME=" + wanted;
  auto const left = selected_by(wanted, all);
  auto const loopback = selected_by(wanted, words_of(value_of(facts, "net.loopback")));
  if (left.empty() && loopback.empty()) {
    bool const used = number(facts, "gpu.count").value_or(0) > 0;  // without GPUs nothing uses NCCL
    return {used ? Grade::failure : Grade::warning, "interfaces", setting + " leaves none of: " + has, remedy};
  }
  if (left.empty() && number(facts, "nodes").value_or(1) > 1) {
    return {Grade::warning, "interfaces", setting + " leaves only loopback, which reaches no other node", remedy};
  }
  return {Grade::fine, "interfaces", join(left.empty() ? loopback : left, ", ") + " by " + setting, ""};
}

}  // namespace

Finding judge_gpus(Facts const& facts) {
  auto const devices = number(facts, "gpu.devices").value_or(0);
  auto const count = number(facts, "gpu.count").value_or(0);
  auto const visible = value_of(facts, "gpu.visible");
  std::string const chosen_text = facts.contains("gpu.visible") ? ", CUDA_VISIBLE_DEVICES=" + visible : "";
  if (facts.contains("gpu.hung")) {
    return {Grade::failure, "GPUs", "the driver did not answer within " + value_of(facts, "gpu.hung"),
            "the node needs its administrator (nvidia-smi hangs too): srun --exclude=" + value_of(facts, "host")};
  }
  bool const missing = facts.contains("gpu.missing");
  auto const error = value_of(facts, "gpu.error");
  if (devices == 0 && (missing || !error.empty())) {
    return {Grade::fine, "GPUs", "none", ""};
  }
  if (missing) {
    return {Grade::warning, "GPUs", whole(devices) + " device files, but no libnvidia-ml.so.1",
            "workers cannot use the GPUs without the driver's library: in a container give --nv or --gpus all"};
  }
  if (!error.empty()) {
    return {
        Grade::failure, "GPUs", whole(devices) + " devices, but NVML fails: " + error,
        "compare the driver's library with the kernel's module (nvidia-smi); reboot after an update; in a container: "
        "--nv, --gpus all"};
  }
  if ((devices > 0 || facts.contains("gpu.count")) && !facts.contains("gpu.sick")) {  // the child reports it last
    return {Grade::failure, "GPUs",
            whole(std::max(devices, count)) + " devices, but the process that asked the driver about them died",
            "run nvidia-smi on that node; if it fails too: srun --exclude=" + value_of(facts, "host")};
  }
  if (count == 0) {
    return devices == 0 ? Finding{Grade::fine, "GPUs", "none", ""}
                        : Finding{Grade::warning, "GPUs", "none, but device files: " + whole(devices),
                                  "under Slurm: ask for some with --gpus-per-node; else the driver has lost them: "
                                  "nvidia-smi"};
  }
  auto const text = gpus_text(facts, devices, count) + chosen_text;
  if (facts.contains("gpu.visible") && number(facts, "gpu.workers").value_or(0) == 0) {
    return {Grade::warning, "GPUs", text, "none is visible to workers: ask for some with --gpus-per-node"};
  }
  if (auto const sick = value_of(facts, "gpu.sick"); !sick.empty()) {
    return {Grade::failure, "GPUs", text + "; " + sick,
            "the node needs its administrator: srun --exclude=" + value_of(facts, "host")};
  }
  return {Grade::fine, "GPUs", text, ""};
}

Finding judge_nccl(Facts const& facts) {
  if (auto const hung = value_of(facts, "nccl.hung"); !hung.empty()) {
    return {Grade::failure, "NCCL", "libnccl.so.2 was not loaded within " + hung,
            "a directory of LD_LIBRARY_PATH hangs"};
  }
  bool const gpus = number(facts, "gpu.count").value_or(0) > 0;
  auto const version = value_of(facts, "nccl.version");
  if (version.empty()) {
    return {gpus ? Grade::note : Grade::fine, "NCCL", "no libnccl.so.2 on the search path",
            gpus ? "PyTorch brings its own; C++ workers with GPUs need it (LD_LIBRARY_PATH)" : ""};
  }
  return {Grade::fine, "NCCL", version, ""};
}

Finding judge_interfaces(Facts const& facts) {
  auto const all = words_of(value_of(facts, "net.interfaces"));
  std::string const has = all.empty() ? "none but loopback" : join(all, ", ");
  if (auto const wanted = value_of(facts, "net.wanted"); !wanted.empty()) {
    return judge_wanted(facts, wanted, all, has);
  }
  if (all.size() > 1 && number(facts, "gpu.count").value_or(0) > 0) {
    return {Grade::note, "interfaces", has,
            "NCCL prefers ib*, then the first that is neither docker nor loopback: NCCL_SOCKET_IFNAME chooses"};
  }
  return {Grade::fine, "interfaces", has, ""};
}

Finding judge_python(Facts const& facts) {
  auto const path = value_of(facts, "python.path");
  if (facts.contains("python.hung")) {
    return {
        Grade::warning, "Python",
        (path.empty() ? "not found in PATH within " : path + " did not start within ") + value_of(facts, "python.hung"),
        "its file system is slow or hangs: put the environment on a local disk or into one image file"};
  }
  if (auto const wanted = value_of(facts, "python.missing");
      !wanted.empty() && (wanted != "python3" || facts.contains("python.needed"))) {
    return {Grade::failure, "Python", "cannot find " + printable(wanted) + ", which is to run the workers",
            "load its module or environment before srun, or name another one (PYTHON_EXEC)"};
  }
  if (path.empty()) {
    return {Grade::note, "Python", "no python3 in PATH",
            "load its module or environment before srun, if workers need it"};
  }
  if (auto const error = value_of(facts, "python.error"); !error.empty()) {
    return {Grade::failure, "Python", path + ": " + error, "repair or reload that environment"};
  }
  auto const version = value_of(facts, "python.version");
  if (version.empty()) {
    return {Grade::warning, "Python", path + " ran a line of Python, but printed no version",
            "it is not Python, or prints other output: name another one (PYTHON_EXEC)"};
  }
  std::string text = version + " at " + path;
  auto const torch = value_of(facts, "torch.version");
  auto const cuda = value_of(facts, "torch.cuda");
  text += torch.empty() ? ", without torch" : ", torch " + torch + (cuda.empty() ? " for CPUs" : " for CUDA " + cuda);
  if (!torch.empty() && cuda.empty() && number(facts, "gpu.count").value_or(0) > 0) {
    return {Grade::warning, "Python", text, "this torch cannot use the GPUs here: install a build for CUDA"};
  }
  return {Grade::fine, "Python", text, ""};
}

Finding judge_directory(Facts const& facts) {
  auto const where = value_of(facts, "fs.dir") + " (" + value_of(facts, "fs.type") + ")";
  bool const timed = facts.contains("fs.open_ms");
  if (facts.contains("fs.hung") && !timed) {
    return {Grade::failure, "directory",
            value_of(facts, "fs.dir") + " did not answer within " + value_of(facts, "fs.hung"),
            "its server is gone or overloaded; start from another directory"};
  }
  if (auto const error = value_of(facts, "fs.error"); !error.empty()) {
    return {Grade::warning, "directory", where + ": " + error,
            "workers start here; write checkpoints and logs elsewhere (--log-dir)"};
  }
  for (auto const& [key, what] : {std::pair{"fs.rename", "rename over a file"}, std::pair{"fs.lock", "file locks"}}) {
    if (auto const error = value_of(facts, key); !error.empty()) {
      return {Grade::warning, "directory", join({where, what, error}, ": "),
              key == std::string("fs.rename") ? "checkpoints here may be torn by a crash; use another file system"
                                              : "programs that lock files fail here; mount it with locks (flock)"};
    }
  }
  auto const opened = number(facts, "fs.opened").value_or(0);
  auto const ms = number(facts, "fs.open_ms").value_or(0);
  if (!timed || opened == 0) {
    return {Grade::warning, "directory", where + ": none of the files that were made there could be opened",
            "its server is overloaded: start from another directory"};
  }
  double const per_thousand = ms * 1000 / opened;
  std::string const text = where + ", locks, atomic rename, 1,000 files opened in " + whole(per_thousand) + " ms";
  if (per_thousand >= kSlowOpens) {
    return {Grade::warning, "directory", text,
            "imports of Python take long from here: put the environment on a local disk or into one image file"};
  }
  return {Grade::fine, "directory", text, ""};
}

Finding judge_logs(Facts const& facts) {
  auto const dir = value_of(facts, "log.dir");
  if (auto const hung = value_of(facts, "log.hung"); !hung.empty()) {
    return {Grade::failure, "logs", dir + " did not answer within " + hung, "choose another --log-dir, or TMPDIR"};
  }
  if (auto const error = value_of(facts, "log.error"); !error.empty()) {
    return {Grade::failure, "logs", error, "choose another --log-dir"};
  }
  if (auto const unused = value_of(facts, "log.unused"); !unused.empty()) {
    return {Grade::warning, "logs", unused + "; jobs use " + dir, "set TMPDIR to a directory that you may write to"};
  }
  auto const free = number(facts, "log.free");
  if (free && *free < 100.0 * 1024 * 1024) {
    return {Grade::warning, "logs", dir + ", " + size_text(*free) + " free", "choose another --log-dir, or TMPDIR"};
  }
  if (dir.empty()) {
    return {Grade::note, "logs", "not known", ""};
  }
  return {Grade::fine, "logs", dir + (free ? ", " + size_text(*free) + " free" : ""), ""};
}

Finding judge_home(Facts const& facts) {
  auto const home = value_of(facts, "home.dir");
  if (auto const hung = value_of(facts, "home.hung"); !hung.empty()) {
    return {Grade::failure, "home", home + " did not answer within " + hung,
            "its server is gone or overloaded, and Python looks there for modules: set HOME to another directory"};
  }
  auto const error = value_of(facts, "home.error");
  if (!error.empty()) {
    return {
        Grade::note, "home", error,
        "without munge a job on several nodes keeps its key there: set CXXRUN_SECRET_FILE, and CXXRUN_DISCOVERY_DIR"};
  }
  return {home.empty() ? Grade::note : Grade::fine, "home", home.empty() ? "not known" : home, ""};
}

}  // namespace cxxrun::launcher::doctor
