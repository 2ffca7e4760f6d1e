// What /proc says about processes: parents, children, caught signals, usage, and why one does not die. Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cxxrun::os {

/// Part of /proc/PID/stat.
struct ProcessStat {
  std::string comm;  ///< program name, at most 15 bytes
  char state = '?';  ///< R S D Z T t X
  pid_t parent = 0;
  unsigned flags = 0;       ///< the kernel's PF_*
  std::uint64_t start = 0;  ///< clock ticks after boot; 0 = not known
  std::uint64_t ticks = 0;  ///< processor time in clock ticks
  std::uint64_t pages = 0;  ///< of memory, resident
  bool operator==(ProcessStat const&) const = default;
};

/// A file of /proc or /sys; "" when it cannot be read.
[[nodiscard]] std::string read_text(std::string const& path);
/// /proc/PID/environ: the variables that it was started with. Nothing when it may not be read.
[[nodiscard]] std::optional<std::string> variables_of(pid_t pid);
/// Decodes /proc/PID/stat; the name may hold spaces and parentheses. Pure and total.
[[nodiscard]] std::optional<ProcessStat> parse_stat(std::string_view text);
/// Whether the SigCgt line of /proc/PID/status has `signal`. Pure and total.
[[nodiscard]] bool parse_catches(std::string_view status, int signal);
/// The same for the SigCgt or the SigBlk line: a process may block a signal and wait for it.
[[nodiscard]] bool parse_handles(std::string_view status, int signal);

/// Nothing when the process is gone.
[[nodiscard]] std::optional<ProcessStat> read_stat(pid_t pid);
/// Whether the process is exiting, or a SIGKILL is pending; false when it is gone. Freeing much memory takes the kernel
/// seconds, and until then the process is still listed.
[[nodiscard]] bool is_dying(pid_t pid);
/// Whether the process has a handler for the signal; false when it is gone.
[[nodiscard]] bool catches_signal(pid_t pid, int signal);
/// Whether the process reacts to the signal: by a handler, or by a thread that waits for it.
[[nodiscard]] bool handles_signal(pid_t pid, int signal);
/// The file that the process executes; "" when that is not known.
[[nodiscard]] std::string executable_of(pid_t pid);
/// The children of all threads of a process, including zombies. Empty when it is gone.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);
/// The ancestors of a process, nearest first, within our pid namespace. Empty when it is gone.
[[nodiscard]] std::vector<pid_t> ancestors_of(pid_t pid);
/// The nearest ancestor of this process with that name (at most 15 bytes). 0 when the chain leaves our pid namespace
/// first; signals from there have the sender 0, too. Nothing when there is none.
[[nodiscard]] std::optional<pid_t> find_ancestor(std::string_view comm);
/// One line about a process that does not die: "pid 7 (python3), state D, waiting in nfs_wait_bit_killable".
[[nodiscard]] std::string describe_stuck(pid_t pid);

/// Clock ticks as milliseconds.
[[nodiscard]] std::uint64_t ms_of_ticks(std::uint64_t ticks);
[[nodiscard]] std::uint64_t mib_of_pages(std::uint64_t pages);

}  // namespace cxxrun::os
