// Makes and removes the directories of one agent: its logs, its sockets, and temporary ones that killed agents have
// left. Shell. Names: log_names.hpp. Layout: docs/use/logs.md.
//
// An error is permission, not_found or io, and one line that says what to choose instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/logs/log_names.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

/// Creates the directory with its parents, unless it exists. Ignores "/dev/null" and "".
[[nodiscard]] Result<void> make_log_dir(std::string const& log_dir);
/// Whether a directory could be made in `base`, which must exist; creates nothing.
[[nodiscard]] Result<void> check_temporary(std::string const& base);
/// Whether make_log_root would succeed; creates nothing.
[[nodiscard]] Result<void> check_log_dir(std::string const& log_dir, std::string const& temporary_base);
/// Creates the agent's log directory. `log_dir` is --log-dir, created with its parents when missing. Inside it, the
/// first free name of `<run_id>_<host>`, `<run_id>_<host>-2`, … is made exclusively: two agents never share one.
/// "" makes a private directory under `temporary_base` ($TMPDIR), or under /tmp when that is empty or unusable.
/// "/dev/null" makes none.
[[nodiscard]] Result<LogRoot> make_log_root(std::string const& log_dir, std::string const& run_id,
                                            std::string const& host, std::string const& temporary_base);
/// A private directory for sockets under `temporary_base`, or under /tmp when that is empty, unusable or too long for
/// the name of a socket. "": neither can be used.
[[nodiscard]] std::string make_socket_dir(std::string const& temporary_base);
/// Removes it with its content.
void remove_socket_dir(std::string const& dir) noexcept;
/// Removes a temporary directory with its content; leaves any other alone.
void remove_log_root(LogRoot const& root) noexcept;
/// Creates `attempt_<generation>/<local_rank>` for local ranks 0..count-1. Existing files stay. Does nothing when
/// `root` is "".
[[nodiscard]] Result<void> make_worker_dirs(std::string const& root, std::uint64_t generation, std::uint32_t count);

/// Marks a directory of this process as one that a later sweep may remove once the descriptor is closed, here and in
/// processes forked from here; exec closes it. None where the file system has no locks: then no sweep removes it.
[[nodiscard]] os::UniqueFd claim_temporary(std::string const& dir);
/// Removes directories of this user that killed agents have left in `temporary_base` ($TMPDIR; "": none) and in /tmp.
/// Returns how many. Follows no link, waits for no lock, skips what cannot be removed, and examines a bounded number of
/// entries.
[[nodiscard]] std::size_t sweep_temporary(std::string const& temporary_base);

}  // namespace cxxrun::launcher
