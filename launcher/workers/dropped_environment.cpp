#include "launcher/workers/dropped_environment.hpp"

#include <algorithm>
#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

/// A wrapper that may drop the variables, known by its name in a command or by its process.
struct Wrapper {
  char const* name;
  char const* process;  ///< name of the process that stays
  char const* remedy;
};

constexpr std::array kWrappers{
    Wrapper{"apptainer", "starter", "leave out --cleanenv and --containall (-e, -C, APPTAINER_CLEANENV)"},
    Wrapper{"singularity", "starter-suid", "leave out --cleanenv and --containall (-e, -C, SINGULARITY_CLEANENV)"},
    Wrapper{"enroot", "enroot", "name them: enroot start --env RANK --env LOCAL_RANK --env WORLD_SIZE and so on"},
    Wrapper{"podman", "conmon", "podman run --env-host"},
    Wrapper{"docker", "docker", "name them: docker run --env RANK --env LOCAL_RANK --env WORLD_SIZE and so on"},
    Wrapper{"bwrap", "bwrap", "leave out --clearenv"},
    Wrapper{"ch-run", "ch-run", "leave out --unset-env"},
    Wrapper{"sudo", "sudo", "sudo --preserve-env"},
    Wrapper{"doas", "doas", "keepenv in doas.conf"},
    Wrapper{"su", "su", "su --preserve-environment, without -"},
    Wrapper{"runuser", "runuser", "runuser --preserve-environment, without -"},
    Wrapper{"env", "env", "leave out env -i"},
};

Wrapper const* by_process(std::string const& comm) {
  auto const it = std::ranges::find_if(
      kWrappers, [&](Wrapper const& wrapper) { return comm == wrapper.process || comm == wrapper.name; });
  return it == kWrappers.end() ? nullptr : &*it;
}

/// Whether processes of this name only run another one and wait for it.
bool only_runs_another(std::string const& comm) {
  static constexpr std::array kOthers{"appinit", "sinit",     "crun",    "runc",    "youki",  "catatonit", "tini",
                                      "podman",  "dumb-init", "unshare", "nsenter", "chroot", "setsid",    "timeout",
                                      "time",    "setpriv",   "su-exec", "gosu",    "script", "stdbuf",    "proot",
                                      "sh",      "bash",      "dash",    "ash",     "zsh",    "ksh",       "fish"};
  auto const is = [&](char const* name) { return comm == name; };
  return by_process(comm) != nullptr || std::ranges::any_of(kOthers, is);
}

bool is_shell(std::string const& comm) {
  return comm.ends_with("sh");
}

/// NAME=VALUE, with a name that does not occur in process titles.
bool is_variable(std::string const& entry) {
  auto const name = entry.substr(0, entry.find('='));
  return name.size() < entry.size() && !name.empty() && name.find_first_of(" \t:/") == std::string::npos;
}

bool is_ours(std::string const& entry) {
  static constexpr std::array kOurs{"RANK=", "LOCAL_RANK=", "WORLD_SIZE=", "MASTER_ADDR=", "CXXRUN_"};
  return std::ranges::any_of(kOurs, [&](char const* ours) { return entry.starts_with(ours); });
}

/// The programs at or below a process. One program with the variables outweighs any without them.
struct Findings {
  bool fine = false;
  std::optional<Dropped> dropped{};
};

/// `behind`: the nearest wrapper above that may have dropped the variables.
Findings inspect_tree(pid_t pid, std::string const& behind, ProcessView const& view, int depth) {
  constexpr int kDeepest = 30;
  auto const process = depth < kDeepest ? view.program(pid) : std::nullopt;
  if (!process) {
    return {};
  }
  bool const wrapper = only_runs_another(process->comm);
  auto const children = wrapper ? view.children(pid) : std::vector<pid_t>{};
  if (!wrapper || (children.empty() && is_shell(process->comm))) {
    return process->arrived == Arrived::no ? Findings{false, Dropped{pid, process->comm, behind}}
                                           : Findings{true, std::nullopt};  // an unreadable one may have them
  }
  Findings all;
  // If a process between them still has the variables, the wrappers above it have passed them on.
  auto const next = by_process(process->comm) != nullptr ? process->comm
                    : process->arrived == Arrived::yes   ? ""
                                                         : behind;
  for (pid_t const child : children) {
    auto found = inspect_tree(child, next, view, depth + 1);
    all.fine = all.fine || found.fine;
    all.dropped = all.dropped ? std::move(all.dropped) : std::move(found.dropped);
  }
  return all;
}

/// The words of a command without directories, including those of a `sh -c` script.
std::vector<std::string> names_in(std::vector<std::string> const& argv) {
  std::vector<std::string> words;
  for (auto const& argument : argv) {
    for (auto const& word : split(replace_all(argument, "\n", " "), ' ')) {
      words.push_back(word.substr(word.rfind('/') + 1));  // npos + 1 is 0
    }
  }
  return words;
}

/// The first wrapper in the command; `env` only when it is told to drop the environment.
Wrapper const* in_command(std::vector<std::string> const& argv) {
  auto const words = names_in(argv);
  for (auto word = words.begin(); word != words.end(); ++word) {
    auto const it = std::ranges::find_if(kWrappers, [&](Wrapper const& wrapper) { return *word == wrapper.name; });
    bool const drops = *word != "env" || (word + 1 != words.end() && (*(word + 1) == "-" || *(word + 1) == "-i" ||
                                                                      *(word + 1) == "--ignore-environment"));
    if (it != kWrappers.end() && drops) {
      return &*it;
    }
  }
  return nullptr;
}

}  // namespace

Arrived arrived(std::optional<std::string> const& variables) {
  if (!variables) {
    return Arrived::unknown;
  }
  auto entries = split(*variables, '\0');
  if (!entries.empty() && entries.back().empty()) {  // after the last NUL
    entries.pop_back();
  }
  if (std::ranges::any_of(entries, is_ours)) {
    return Arrived::yes;
  }
  return std::ranges::all_of(entries, is_variable) ? Arrived::no : Arrived::unknown;
}

std::optional<Dropped> find_dropped(pid_t worker, ProcessView const& view) {
  auto found = inspect_tree(worker, "", view, 0);
  return found.fine ? std::nullopt : std::move(found.dropped);
}

std::string dropped_line(Dropped const& dropped, std::vector<std::string> const& argv) {
  auto const* wrapper = by_process(dropped.behind);
  wrapper = wrapper != nullptr ? wrapper : in_command(argv);
  std::string const program = printable(dropped.comm) + " (pid " + std::to_string(dropped.pid) + ")";
  std::string const first = argv.empty() ? "its wrapper" : printable(argv.front(), 60);
  return program +
         " was started without the variables that cxxrun has set for it, RANK and WORLD_SIZE among them, so " +
         "each worker trains alone: " + (wrapper != nullptr ? wrapper->name : first) + " has dropped them; " +
         (wrapper != nullptr ? wrapper->remedy : "make it pass them on");
}

}  // namespace cxxrun::launcher
