// DiscoveryFile: reads, writes and removes the files of discovery.hpp. Blocks as the file system does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/discovery.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/bounded_thread.hpp"

namespace cxxrun::launcher {

struct Options;

/// The file's content, nothing when there is no such file. A file of another user, one that others may read or write,
/// one that is no regular file or holds something else is an Error that names it: permission, protocol, io.
[[nodiscard]] Result<std::optional<Discovery>> read_discovery(std::string const& path);
/// What this process, which listens on `port`, writes about itself: `host` and the machine's addresses, the Slurm job
/// of the environment, this process id. `name`: of the file, in discovery_dir. `path` is "" when there is no such
/// directory.
[[nodiscard]] Discovery describe_self(Environment const& environment, std::string const& name, std::string const& host,
                                      std::uint16_t port, std::string const& nonce);
/// Where the job to --join is to be called, as its file says now. Errors: those of choose_discovery(), with what is
/// wrong with a file that was left out.
[[nodiscard]] Result<Discovery> find_job(std::string const& dir, JoinTarget const& target,
                                         Environment const& environment);
/// The file that leads to the coordinator: of the job to --join, which is looked for until `join_until`, or of the
/// step's own job. One that is of no use to a step is a line in `trouble`.
[[nodiscard]] Result<std::optional<Discovery>> discover(Options const& options, Environment const& environment,
                                                        TimePoint join_until, std::vector<std::string>& trouble);
/// Writes `discovery.path` whole or not at all, replacing what is there: for this user alone, the directory too. What
/// supersedes it stays. Errors: permission, io; they name the path and CXXRUN_DISCOVERY_DIR.
Result<void> write_discovery(Discovery const& discovery);
/// Removes the file if it still is the one with that nonce.
void remove_discovery(std::string const& path, std::string const& nonce) noexcept;

inline constexpr Millis kDirectoryPatience{5000};
/// Of a node that is added, while nobody lets it in.
inline constexpr Millis kBetweenLooks{1000};

/// What `work`, which asks the directory, returns, a Result, or Errc::timeout when it has not returned within
/// kDirectoryPatience: the server of the directory may be gone, and whoever asks it hangs. `work` must own all that it
/// uses.
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
