#include "launcher/workers/dropped_environment.hpp"

#include <algorithm>
#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

/// Of a wrapper, by its process or in a command.
struct Wrapper {
  char const* name;
  char const* process;  ///< name of the process that stays, where it is another one
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
  auto const it = std::find_if(kWrappers.begin(), kWrappers.end(),
                               [&](Wrapper const& wrapper) { return comm == wrapper.process || comm == wrapper.name; });
  return it == kWrappers.end() ? nullptr : &*it;
}

/// Names of processes that run another one and wait for it.
bool only_runs_another(std::string const& comm) {
  static constexpr std::array kOthers{"appinit", "sinit",     "crun",    "runc",    "youki",  "catatonit", "tini",
                                      "podman",  "dumb-init", "unshare", "nsenter", "chroot", "setsid",    "timeout",
                                      "time",    "setpriv",   "su-exec", "gosu",    "script", "stdbuf",    "proot",
                                      "sh",      "bash",      "dash",    "ash",     "zsh",    "ksh",       "fish"};
  auto const is = [&](char const* name) { return comm == name; };
  return by_process(comm) != nullptr || std::any_of(kOthers.begin(), kOthers.end(), is);
}

bool is_shell(std::string const& comm) {
  return comm.ends_with("sh");
}

/// NAME=VALUE with a name that no title of a process has.
bool is_variable(std::string const& entry) {
  auto const name = entry.substr(0, entry.find('='));
  return name.size() < entry.size() && !name.empty() && name.find_first_of(" \t:/") == std::string::npos;
}

bool is_ours(std::string const& entry) {
  static constexpr std::array kOurs{"RANK=", "LOCAL_RANK=", "WORLD_SIZE=", "MASTER_ADDR=", "CXXRUN_"};
  return std::any_of(kOurs.begin(), kOurs.end(), [&](char const* ours) { return entry.starts_with(ours); });
}

/// What was found below a process: one that has them outweighs those that have none.
struct Found {
  bool fine = false;
  std::optional<Dropped> dropped{};
};

Found look_below(pid_t pid, std::string const& behind, LookAt const& look, int depth) {
  constexpr int kDeepest = 30;
  auto const seen = depth < kDeepest ? look.program(pid) : std::nullopt;
  if (!seen) {
    return {};
  }
  bool const wrapper = only_runs_another(seen->comm);
  auto const children = wrapper ? look.children(pid) : std::vector<pid_t>{};
  if (!wrapper || (children.empty() && is_shell(seen->comm))) {
    return seen->arrived == Arrived::no ? Found{false, Dropped{pid, seen->comm, behind}}
                                        : Found{true, std::nullopt};  // what cannot be read may have them
  }
  Found all;
  // Where one that nobody knows has them, those before it have handed them on.
  auto const next = by_process(seen->comm) != nullptr ? seen->comm : seen->arrived == Arrived::yes ? "" : behind;
  for (pid_t const child : children) {
    auto found = look_below(child, next, look, depth + 1);
    all.fine = all.fine || found.fine;
    all.dropped = all.dropped ? std::move(all.dropped) : std::move(found.dropped);
  }
  return all;
}

/// The words of a command, those in a script of `sh -c` too, without directories.
std::vector<std::string> words_of(std::vector<std::string> const& argv) {
  std::vector<std::string> words;
  for (auto const& argument : argv) {
    for (auto const& word : split(replace_all(argument, "\n", " "), ' ')) {
      words.push_back(word.substr(word.rfind('/') + 1));  // npos + 1 is 0
    }
  }
  return words;
}

/// The first of them in the command; `env` only where it is told to drop them.
Wrapper const* in_command(std::vector<std::string> const& argv) {
  auto const words = words_of(argv);
  for (auto word = words.begin(); word != words.end(); ++word) {
    auto const it =
        std::find_if(kWrappers.begin(), kWrappers.end(), [&](Wrapper const& wrapper) { return *word == wrapper.name; });
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
  if (!entries.empty() && entries.back().empty()) {  // behind the last NUL
    entries.pop_back();
  }
  if (std::any_of(entries.begin(), entries.end(), is_ours)) {
    return Arrived::yes;
  }
  return std::all_of(entries.begin(), entries.end(), is_variable) ? Arrived::no : Arrived::unknown;
}

std::optional<Dropped> find_dropped(pid_t worker, LookAt const& look) {
  auto found = look_below(worker, "", look, 0);
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
         (wrapper != nullptr ? wrapper->remedy : "have it hand them on");
}

}  // namespace cxxrun::launcher
