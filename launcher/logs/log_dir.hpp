// LogDir: the directories of one agent's logs (names: log_names.hpp). Shell. Layout in docs/use/logs.md.
#pragma once

#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/logs/log_names.hpp"

namespace cxxrun::launcher {

/// Creates it with its parents, unless it is there; "/dev/null" and "" are left alone. Errors as below.
[[nodiscard]] Result<void> make_log_dir(std::string const& log_dir);
/// Whether a directory could be made in `base`, which has to be there; creates nothing. Errors as below.
[[nodiscard]] Result<void> check_temporary(std::string const& base);
/// Whether make_log_root could make one of these; creates nothing. Errors as below.
[[nodiscard]] Result<void> check_log_dir(std::string const& log_dir, std::string const& temporary_base);
/// Creates the agent's log directory. `log_dir`: --log-dir; created with its parents when missing. Inside it, the
/// first free name of `<run_id>_<host>`, `<run_id>_<host>-2`, …, made exclusively: two agents never share one.
/// "": a private directory under `temporary_base` ($TMPDIR), or under /tmp when that is empty or unusable.
/// "/dev/null": none. Errors: permission, not_found, io; one line that says what to choose instead.
[[nodiscard]] Result<LogRoot> make_log_root(std::string const& log_dir, std::string const& run_id,
                                            std::string const& host, std::string const& temporary_base);
/// A private directory for sockets under `temporary_base`, or under /tmp when that is empty, unusable or too long for
/// the name of a socket. "": neither can be used.
[[nodiscard]] std::string make_socket_dir(std::string const& temporary_base);
/// Removes it with all in it.
void remove_socket_dir(std::string const& dir) noexcept;
/// Removes a temporary directory with all in it; leaves any other alone.
void remove_log_root(LogRoot const& root) noexcept;
/// Creates `attempt_<generation>/<local_rank>` for local ranks 0..count-1. What is there already stays. Does
/// nothing when `root` is "". Errors as above.
[[nodiscard]] Result<void> make_worker_dirs(std::string const& root, std::uint64_t generation, std::uint32_t count);

}  // namespace cxxrun::launcher
