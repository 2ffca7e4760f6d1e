// CtlOptions: the command line of cxxrunctl. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"

namespace cxxrun::launcher::view {

enum class Verb : std::uint8_t {
  status,
  top,
  stacks,
  logs,
  events,
  page,
  metrics,
  trace,
  checkpoint,
  restart,
  drain,
  stop
};
[[nodiscard]] char const* name_of(Verb verb);
/// Whether the job is not only looked at.
[[nodiscard]] constexpr bool changes_job(Verb verb) {
  return verb >= Verb::checkpoint;
}

struct CtlOptions {
  Verb verb = Verb::status;
  std::string job;                   ///< as the user names it; "" = any that runs here
  std::string node;                  ///< for drain
  std::vector<std::uint32_t> ranks;  ///< for stacks and logs; empty: all
  bool slow = false;                 ///< of stacks: of the ranks that are slow
  bool json = false;
  bool check = false;
  bool all = false;  ///< -v: shows all nodes, frames and ranks, however many lines that takes
  bool follow = false;
  bool native = false;  ///< of stacks: by the debugger; the ranks were typed, or `all`
  bool yes = false;
  std::uint64_t lines = 20;
  std::uint64_t port = 0;  ///< of the page; 0: any
  std::string token_file;
};

[[nodiscard]] Command ctl_command(CtlOptions& options);
/// Moves the options to the front, so that options after a verb count, too.
[[nodiscard]] std::vector<std::string> options_first(Command const& command, std::vector<std::string> arguments);

/// The command line of the program that carries these arguments out: doctor and init, and trace of a file. Nothing:
/// this one does.
[[nodiscard]] std::optional<std::vector<std::string>> other_program(std::vector<std::string> const& arguments);

/// Whether `job`, as the user types it, names this run: by its id, its step ("4711.0") or the job of that step
/// ("4711").
[[nodiscard]] bool is_meant(std::string const& job, std::string const& run_id, std::string const& step);

}  // namespace cxxrun::launcher::view
