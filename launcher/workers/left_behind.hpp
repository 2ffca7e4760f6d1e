// LeftBehind: what workers have left running when they ended, and was killed for it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher {

struct LeftBehind {
  int pid = 0;
  std::string name;                   ///< what program_name() says
  std::optional<std::uint32_t> rank;  ///< of the worker that it was left by; nothing: not known
};

/// "python3 upload.py" of /proc/PID/cmdline, without the program's directory and not long; `comm` where that is empty.
[[nodiscard]] std::string program_name(std::string const& cmdline, std::string const& comm);
/// RANK in /proc/PID/environ.
[[nodiscard]] std::optional<std::uint32_t> rank_in(std::string const& variables);
/// "killed 2 processes that rank 1 had left: wandb-service (4711), sh (4712); …"; the first few are named.
[[nodiscard]] std::string killed_line(std::vector<LeftBehind> const& killed);

}  // namespace cxxrun::launcher
