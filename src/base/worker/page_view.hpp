// Reads a worker's ControlPage and describes its collectives in words. Pure: it reads memory, but no clock.
//
// Another process writes the page while we read it, and may write anything. So its numbers are only shown or compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/control_page.hpp"
#include "src/base/worker/page_values.hpp"

namespace cxxrun::worker {

/// `what` of a collective that the ring does not hold: not yet, or no longer.
constexpr std::uint32_t kUnknownOperation = 0xffff'ffffU;
/// The op of a `what` of which only the kind and the type are known.
constexpr std::uint32_t kUnknownOp = 0xffU;
/// `what` of a collective that PyTorch has counted as begun. `count` says whether it is done, if that is known. The
/// page's `done` never does: it would change later, and that would look like progress.
constexpr std::uint32_t kBegunOperation = 0xffff'fffeU;
constexpr std::uint64_t kInBackward = 1;  ///< the program is in a backward pass, whose collectives reduce gradients
constexpr std::uint64_t kIsDone = 2;
[[nodiscard]] constexpr bool is_in_backward(std::uint32_t what, std::uint64_t count) {
  return what == kBegunOperation && count == kInBackward;
}

/// How far a worker is, and in which collective.
struct Figures {
  std::uint64_t generation = 0;
  std::uint64_t entered = 0;
  std::uint64_t done = 0;                  ///< never more than `entered`
  std::uint32_t what = kUnknownOperation;  ///< packed(), of collective number `entered`
  std::uint64_t count = 0;                 ///< its elements
  bool elsewhere = false;                  ///< it waits in a call of a group, or such a call has failed
  std::vector<GroupCount> groups = {};     ///< sorted
  bool idle = false;                       ///< it waits in no collective
  bool operator==(Figures const&) const = default;
};
[[nodiscard]] Figures read_figures(ControlPage const& page);

/// The peer that a Communicator of that generation has given up.
[[nodiscard]] std::optional<Loss> read_loss(ControlPage const& page, std::uint64_t generation);

/// One entry of the ring; times on CLOCK_BOOTTIME, in nanoseconds.
struct SeenOperation {
  std::uint64_t sequence = 0;
  std::int64_t entered = 0;
  std::int64_t done = 0;  ///< 0: in progress
  std::uint64_t count = 0;
  std::uint32_t what = 0;
  bool operator==(SeenOperation const&) const = default;
};
/// The entries that did not change while they were read, newest first.
[[nodiscard]] std::vector<SeenOperation> read_operations(ControlPage const& page);

/// "all_reduce of 25 f32, sum"
[[nodiscard]] std::string describe_operation(std::uint32_t what, std::uint64_t count);
/// "all_reduce #812 (25 f32)", "barrier #3"
[[nodiscard]] std::string number_operation(std::uint64_t sequence, std::uint32_t what, std::uint64_t count);
/// "#812 all_reduce of 25 f32, sum: entered 62.1 s ago, not done", or "…, done after 0.003 s".
[[nodiscard]] std::string describe_entry(SeenOperation const& operation, TimePoint now);

}  // namespace cxxrun::worker
