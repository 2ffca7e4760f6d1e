// What a worker's page says, read and put into words. Pure: it reads memory, and asks nobody what time it is.
//
// The page belongs to another process that writes while we read, and may hold anything: every number is only shown or
// compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/control_page.hpp"
#include "src/base/worker/loss.hpp"

namespace cxxrun::worker {

/// `what` of a collective that the ring does not hold any more, or not yet.
constexpr std::uint32_t kUnknownOperation = 0xffff'ffffU;
/// The op in a `what` that has a kind and a type.
constexpr std::uint32_t kUnknownOp = 0xffU;
/// `what` of a collective that PyTorch has counted as begun. Whether it is done its `count` says, if anything does; the
/// page never does, because learning it later is no movement.
constexpr std::uint32_t kBegunOperation = 0xffff'fffeU;
constexpr std::uint64_t kInBackward = 1;  ///< the program is in a backward pass, whose collectives add up gradients
constexpr std::uint64_t kIsDone = 2;
[[nodiscard]] constexpr bool is_in_backward(std::uint32_t what, std::uint64_t count) {
  return what == kBegunOperation && count == kInBackward;
}

/// How far a worker is, and in what.
struct Figures {
  std::uint64_t generation = 0;
  std::uint64_t entered = 0;
  std::uint64_t done = 0;                  ///< never more than `entered`
  std::uint32_t what = kUnknownOperation;  ///< packed(), of collective number `entered`
  std::uint64_t count = 0;                 ///< its elements
  bool elsewhere = false;                  ///< it waits in a call of a group, or one has failed
  std::vector<GroupCount> groups = {};     ///< sorted
  bool idle = false;                       ///< it waits in no collective
  bool operator==(Figures const&) const = default;
};
[[nodiscard]] Figures read_figures(ControlPage const& page);

/// Whom a Communicator of that generation has given up; nothing: nobody.
[[nodiscard]] std::optional<Loss> read_loss(ControlPage const& page, std::uint64_t generation);

/// One entry of the ring; times on CLOCK_BOOTTIME, in nanoseconds.
struct SeenOperation {
  std::uint64_t sequence = 0;
  std::int64_t entered = 0;
  std::int64_t done = 0;  ///< 0: under way
  std::uint64_t count = 0;
  std::uint32_t what = 0;
  bool operator==(SeenOperation const&) const = default;
};
/// The entries that were whole while we looked, newest first.
[[nodiscard]] std::vector<SeenOperation> read_operations(ControlPage const& page);

/// "all_reduce of 25 f32, sum"
[[nodiscard]] std::string describe_operation(std::uint32_t what, std::uint64_t count);
/// "all_reduce #812 (25 f32)", "barrier #3"
[[nodiscard]] std::string number_operation(std::uint64_t sequence, std::uint32_t what, std::uint64_t count);
/// "#812 all_reduce of 25 f32, sum: entered 62.1 s ago, not done", or "…, done after 0.003 s".
[[nodiscard]] std::string describe_entry(SeenOperation const& operation, TimePoint now);

}  // namespace cxxrun::worker
