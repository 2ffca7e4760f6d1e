#include <array>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/doctor/job_script.hpp"
#include "launcher/doctor/look.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/spawn.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kMostText = std::size_t{256} * 1024;

/// Says what it finds as facts; torch is read, not imported: that takes seconds and CPUs.
constexpr char const* kAboutPython = R"(
import sys
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

struct Ran {
  std::string text;
  int status = 0;
};

Result<Ran> run_program(std::vector<std::string> argv, Environment const& environment) {
  auto const started = os::spawn_piped(std::move(argv), as_words(environment));
  if (!started) {
    return started.error();
  }
  Ran ran{os::read_all(started->output.get(), kMostText).value_or(""), 0};
  static_cast<void>(os::retried([&] { return ::waitpid(started->pid, &ran.status, 0); }));
  return ran;
}

std::string last_line(std::string const& text) {
  auto const whole = std::string(trim(text));
  return whole.substr(whole.rfind('\n') + 1);
}

}  // namespace

void look_at_python(Wanted const& wanted, Environment const& environment, Say const& say) {
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
  if (!ran || ran->status != 0) {
    tell(say, "python.error", ran ? last_line(ran->text) : ran.error().message());
    return;
  }
  say(ran->text);
}

void look_at_slurm(Environment const& environment, Say const& say) {
  static constexpr std::array kKeys{"KillWait",        "ProctrackType",         "TaskPlugin",
                                    "SlurmdTimeout",   "UnkillableStepTimeout", "SignalChildrenProcesses",
                                    "TaskPluginParam", "ConstrainDevices"};
  auto const ran = run_program({"scontrol", "show", "config"}, environment);
  if (!ran || ran->status != 0) {
    tell(say, "slurm.error", ran ? last_line(ran->text) : ran.error().message());
    return;
  }
  for (auto const& line : split(ran->text, '\n')) {
    auto const at = line.find('=');
    auto const key = std::string(trim(line.substr(0, at)));
    for (auto const* const wanted : kKeys) {
      if (at != std::string::npos && key == wanted) {
        tell(say, "slurm." + key, std::string(trim(line.substr(at + 1))));
      }
    }
  }
}

void look_at_partitions(Environment const& environment, Say const& say) {
  auto const ran = run_program({"sinfo", "-h", "-o", kSinfoFormat}, environment);
  if (!ran || ran->status != 0) {
    say(kNoPartitions + (ran ? last_line(ran->text) : ran.error().message()));
    return;
  }
  say(ran->text);
}

}  // namespace cxxrun::launcher::doctor
