// Reads, writes and removes discovery files (facts/discovery.hpp), and reads other private files. Calls block as long
// as the file system does.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/discovery.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {

struct Options;

/// Reads at most `most` bytes of a file that only this user can access; follows no link. Errors name the path:
/// not_found; permission (another user owns it, others may access it, or this user may not read it); protocol (a link,
/// or not a regular file); io. `remedy`: what to do about a file that is not private or not regular.
[[nodiscard]] Result<std::string> read_private_file(std::string const& path, std::size_t most,
                                                    std::string const& remedy);

/// The contents of the file; empty if it does not exist. Errors are those of read_private_file(), and protocol for
/// other contents.
[[nodiscard]] Result<std::optional<Discovery>> read_discovery(std::string const& path);
/// The discovery of this process, which listens on `port`: `host` and the machine's addresses, the Slurm job, the
/// process id. `name` is the file name in discovery_dir(); without such a directory `path` is "".
[[nodiscard]] Discovery describe_self(Environment const& environment, std::string const& name, std::string const& host,
                                      std::uint16_t port, std::string const& nonce);
/// The coordinator of the job to --join, as its file says now. Errors: those of choose_discovery(), with the problem of
/// a file that was skipped.
[[nodiscard]] Result<Discovery> find_job(std::string const& dir, JoinTarget const& target,
                                         Environment const& environment);
/// The discovery of the job to --join, which is looked for until `join_until`, or of the step's own job. An unusable
/// file of the own job is not an error but a line in `trouble`.
[[nodiscard]] Result<std::optional<Discovery>> discover(Options const& options, Environment const& environment,
                                                        TimePoint join_until, std::vector<std::string>& trouble);
/// Writes `discovery.path` atomically, unless the file there supersedes it. File and directory are made for this user
/// alone. Errors: permission, io; they name the path and CXXRUN_DISCOVERY_DIR.
Result<void> write_discovery(Discovery const& discovery);
/// Removes the file if it still has that nonce.
void remove_discovery(std::string const& path, std::string const& nonce) noexcept;

inline constexpr Millis kDirectoryPatience{5000};
/// Pause of a node that is added, between two looks for the job.
inline constexpr Millis kBetweenLooks{1000};

/// Runs `work`, which accesses the directory, on a thread and returns its Result, or Errc::timeout after
/// kDirectoryPatience: the file server may be gone, and then any access hangs. The thread may outlive the call, so
/// `work` must own all that it uses.
template <class Work>
[[nodiscard]] auto within_patience(std::string const& dir, Work const& work) -> decltype(work()) {
  auto const found = std::make_shared<std::optional<decltype(work())>>();
  auto const thread = os::BoundedThread::start("cxxrun-find", [found, work] { *found = work(); });
  if (!thread) {
    return work();
  }
  if (!thread->join_until(Clock::now() + kDirectoryPatience)) {
    return fail(Errc::timeout, dir + " did not answer within " + seconds_text(kDirectoryPatience) +
                                   " (choose another directory that all nodes share with CXXRUN_DISCOVERY_DIR)");
  }
  return **found;
}

}  // namespace cxxrun::launcher
