// CtlOptions: the command line of cxxrunctl. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"

namespace cxxrun::launcher::view {

enum class Verb : std::uint8_t { status, stacks, logs, events };

struct CtlOptions {
  Verb verb = Verb::status;
  std::string job;                   ///< as the user names it; "" = whatever runs here
  std::vector<std::uint32_t> ranks;  ///< of stacks and logs; empty: all
  bool json = false;
  bool check = false;
  bool all = false;  ///< -v: all nodes, ranks and so on, however many lines it takes
  bool follow = false;
  std::uint64_t lines = 20;
};

[[nodiscard]] Command ctl_command(CtlOptions& options);
/// The same words, options first: those behind a verb are options, too.
[[nodiscard]] std::vector<std::string> options_first(Command const& command, std::vector<std::string> arguments);

/// Whether the user means this run: its id, its step ("4711.0") or the job of that ("4711").
[[nodiscard]] bool is_meant(std::string const& job, std::string const& run_id, std::string const& step);

}  // namespace cxxrun::launcher::view
