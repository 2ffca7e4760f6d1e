// Figures: what the figures of all workers amount to, and which ranks stand out. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

/// A worker, and the node that it is on.
struct Placed {
  Worker const* worker;
  Node const* node;
};
/// The workers of the current generation, by rank. They refer into the table.
[[nodiscard]] std::vector<Placed> workers_now(Table const& table);

/// The median of the ranks' times of a step.
[[nodiscard]] std::optional<Millis> usual_step(std::vector<Placed> const& workers);
/// Time since any worker completed a step, including the time since its node sent a pulse.
[[nodiscard]] std::optional<Millis> newest_step(std::vector<Placed> const& workers);
[[nodiscard]] std::uint64_t most_of(std::vector<Placed> const& workers, std::uint64_t Worker::*number);

/// "90.2 %", of 902.
[[nodiscard]] std::string percent_text(std::uint64_t permille);

/// Whether the worker is a slow one, or on a slow node.
[[nodiscard]] bool is_slow(Table const& table, Worker const& worker);

/// Where thousands of ranks are too many: so many of them, by rank. Slow ones come first, then those that are stopped
/// or have ended, then those that are furthest behind.
inline constexpr std::size_t kFurthest = 64;
[[nodiscard]] std::vector<Placed> furthest(Table const& table, std::size_t most = kFurthest);

/// The text in ASCII: other bytes become '?'. The name of a host may hold anything.
[[nodiscard]] std::string plain(std::string text);

}  // namespace cxxrun::launcher::view
