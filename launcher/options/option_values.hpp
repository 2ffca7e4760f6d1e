// Parsers for the values of options. Errors say what is expected; the caller adds the name of the option. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/options/options.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

/// N or MIN:MAX with 1 <= MIN <= MAX <= 65536.
[[nodiscard]] Result<NodeRange> parse_nnodes(std::string_view text);
/// A number from 1 to 4096, or auto, gpu, xpu or cpu. A GPU request as in Slurm's variables ("a100:4", "gpu:2,gpu:2")
/// stands for its number.
[[nodiscard]] Result<NprocPerNode> parse_nproc(std::string_view text);
/// 0..3 for every local rank, or RANK:0..3,RANK:0..3. "" = 0.
[[nodiscard]] Result<StreamChoice> parse_streams(std::string_view text);
/// Local ranks, comma-separated; "" = all (an empty set).
[[nodiscard]] Result<std::set<std::uint32_t>> parse_rank_list(std::string_view text);
/// Global ranks and ranges of them, 0,8-15; "" = all (none listed).
[[nodiscard]] Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text);
/// SIZE or SIZE:COUNT; SIZE in bytes, or with a suffix K, M or G (powers of 1024), at least 4K.
[[nodiscard]] Result<Rotation> parse_rotation(std::string_view text);
/// KEY=VALUE,KEY=VALUE. Drops blanks around keys and values, and quotes around all. Checks only the syntax.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_rdzv_conf(std::string_view text);
/// Seconds with up to three decimals, at most a year; zero only where `zero_allowed`.
[[nodiscard]] Result<Millis> parse_seconds(std::string_view text, bool zero_allowed);
[[nodiscard]] Result<Millis> parse_grace(std::string_view text);  ///< zero is allowed
[[nodiscard]] Result<Millis> parse_delay(std::string_view text);
template <std::uint64_t Most>
[[nodiscard]] Result<std::uint32_t> parse_number(std::string_view text) {
  auto const number = parse_unsigned(text, 0, Most);
  return number ? Result<std::uint32_t>(static_cast<std::uint32_t>(*number)) : number.error();
}
/// The words of torchrun: 1 true t yes y, 0 false f no n, in any case.
[[nodiscard]] Result<bool> parse_bool(std::string_view text);

/// Applies the keys of rdzv_conf to the options. A key without effect gets a note that says why; an unknown one is an
/// error that lists the keys.
[[nodiscard]] Result<void> apply_rdzv_conf(Options& options);

/// SIGNAME,SIGNAME: signals that end a job besides TERM, INT, HUP and QUIT. These may be named, too, without effect.
[[nodiscard]] Result<std::set<int>> parse_stop_signals(std::string_view text);
/// WORD,WORD; a comma in a word is doubled. "" = none. Refuses an empty word, which would match every line.
[[nodiscard]] Result<std::vector<std::string>> parse_filters(std::string_view text);

/// The number of workers of one agent. `gpus` (Intel's for xpu) and `cpus` are the numbers that this process sees.
/// `one_per_task`: srun started several tasks on some node, so each task gets one worker; any other number is refused.
[[nodiscard]] Result<std::uint32_t> resolve_nproc(NprocPerNode const& nproc, unsigned gpus, unsigned cpus,
                                                  bool one_per_task);

}  // namespace cxxrun::launcher
