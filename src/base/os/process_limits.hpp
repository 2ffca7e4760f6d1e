// The limits of this process, the memory counters of its control groups and the kernel's log, read from the kernel.
// Shell.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Reads a few files, so call it to explain a refusal and not at each start.
[[nodiscard]] Limits read_limits();
/// The limits of workers, which do not get the raised limit on descriptors.
[[nodiscard]] Limits worker_limits();

/// "WHAT: why", with the limit of this process that was reached and a remedy.
[[nodiscard]] std::string explain_refusal(std::string const& what, int error);
/// The same for an exception of the standard library or of Asio.
[[nodiscard]] std::string explain_refusal(std::string const& what, std::exception const& error);

/// What a program ends with: `code`, or kExitSystem and a line if its standard output could not be written and `code`
/// is 0. A reader of a pipe may stop early.
[[nodiscard]] int after_output(std::string const& program, int code);

/// The error's message, with the limit and a remedy if a limit caused its errno.
[[nodiscard]] std::string explain(Error const& error);

/// Gives new threads of this process stacks of 2 MiB, whatever `ulimit -s` says: with 64 KiB they would crash, and a
/// few of 8 MiB would use up a limited address space. Call before threads.
void set_stack_size_of_threads();

/// Errc::io when the limits on this process's memory are too low for a program to even report a failure.
Result<void> check_memory();

/// The CPUs that the control groups let this process use, as a quota of time; empty without one.
[[nodiscard]] std::optional<double> cpu_quota();

/// Whether `count` more descriptors can be opened below this process's limit.
[[nodiscard]] bool descriptors_left(std::uint64_t count);

/// Reads the kernel's memory counters of the control groups that this process is in. Opens the files once, at the
/// start: then the process is in the group that Slurm has made for it. Leaves out silently what is missing.
class MemoryGroup {
 public:
  /// `root`: a prefix of all paths, for tests.
  explicit MemoryGroup(std::string const& root = "");
  /// Reads some files of /proc and /sys: about 0.1 ms.
  [[nodiscard]] MemoryCounters read() const;

 private:
  struct Group {
    std::string name;
    UniqueFd limit;
    UniqueFd usage;
    UniqueFd parts;  ///< of which kinds of memory the usage consists
    UniqueFd hits;
  };
  bool unified_ = false;
  UniqueFd kills_;
  UniqueFd machine_;
  std::vector<Group> groups_;  // the groups that had a limit at the start
};

/// What the kernel has logged since this object was made, if this user may read it.
class KernelLog {
 public:
  /// Opens the log. access() would not tell whether it can be read, because the kernel may refuse what the mode allows.
  /// A log that cannot be read stays empty, without a message.
  explicit KernelLog(char const* path = "/dev/kmsg");
  /// The records since the last call, at most 1 MiB.
  [[nodiscard]] std::string read_new();

 private:
  UniqueFd file_;
};

}  // namespace cxxrun::os
