#include "src/base/worker/page_view.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "src/base/core/text.hpp"

namespace cxxrun::worker {
namespace {

using comm::Kind;

constexpr std::array<std::string_view, 8> kKinds{"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                 "all_to_all", "barrier",        "memory",     "split"};
constexpr std::array<std::string_view, 7> kTypes{"f32", "f64", "f16", "bf16", "i32", "i64", "u8"};
constexpr std::array<std::string_view, 3> kOps{"sum", "min", "max"};

template <std::size_t N>
std::string name_in(std::array<std::string_view, N> const& names, std::uint32_t number) {
  return number < N ? std::string(names[number]) : "number " + std::to_string(number);
}

std::uint32_t kind_of(std::uint32_t what) {
  return what & 0xffU;
}

bool is_nameless(std::uint32_t what) {
  return what == kUnknownOperation || what == kBegunOperation;
}

std::string kind_name(std::uint32_t what) {
  return is_nameless(what) ? "collective" : name_in(kKinds, kind_of(what));
}

/// "25 f32"; "" for a call without elements.
std::string elements(std::uint32_t what, std::uint64_t count) {
  auto const is = [what](Kind kind) { return kind_of(what) == static_cast<std::uint32_t>(kind); };
  if (is_nameless(what) || is(Kind::barrier) || is(Kind::split)) {
    return "";
  }
  bool const bytes = is(Kind::allocate);
  return std::to_string(count) + " " + (bytes ? "bytes" : name_in(kTypes, what >> 8U & 0xffU));
}

/// The entry, if it did not change while it was read: its sequence is the same before and after.
std::optional<SeenOperation> read_entry(Operation const& entry) {
  SeenOperation seen;
  seen.sequence = entry.sequence.load(std::memory_order_acquire);
  seen.entered = entry.entered.load(std::memory_order_relaxed);
  seen.done = entry.done.load(std::memory_order_relaxed);
  seen.count = entry.count.load(std::memory_order_relaxed);
  seen.what = entry.what.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  bool const whole = seen.sequence != 0 && entry.sequence.load(std::memory_order_relaxed) == seen.sequence;
  return whole ? std::optional(seen) : std::nullopt;
}

/// The groups that did not change while they were read.
std::vector<GroupCount> read_groups(ControlPage const& page) {
  std::vector<GroupCount> groups;
  for (auto const& words : page.groups) {
    GroupCount seen{words.id.load(std::memory_order_acquire)};
    seen.begun = words.begun.load(std::memory_order_relaxed);
    seen.size = words.size.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (seen.id != 0 && words.id.load(std::memory_order_relaxed) == seen.id) {
      groups.push_back(seen);
    }
  }
  std::sort(groups.begin(), groups.end(), [](auto const& a, auto const& b) { return a.id < b.id; });
  return groups;
}

/// Milliseconds for what is shorter than a second, else tenths of a second.
std::string seconds_between(std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;  // the page may hold anything: the difference must not overflow
  std::int64_t const span = std::clamp(to, std::int64_t{0}, kMost) - std::clamp(from, std::int64_t{0}, kMost);
  auto const ms = std::max(span, std::int64_t{0}) / 1'000'000;
  return seconds_text(Millis(ms < 1000 ? ms : ms / 100 * 100));
}

}  // namespace

Figures read_figures(ControlPage const& page) {
  Figures figures;
  figures.generation = page.generation.load(std::memory_order_acquire);
  figures.done = page.done.load(std::memory_order_acquire);  // before `entered`, which never falls behind it
  figures.entered = std::max(page.entered.load(std::memory_order_acquire), figures.done);
  auto const entry = read_entry(page.operations[figures.entered % kOperations]);
  if (entry && entry->sequence == figures.entered) {
    figures.what = entry->what;
    figures.count = entry->count;
  }
  figures.elsewhere = page.elsewhere.load(std::memory_order_relaxed) > 0;
  figures.groups = read_groups(page);
  figures.idle = page.idle.load(std::memory_order_relaxed) != 0;
  return figures;
}

std::optional<Loss> read_loss(ControlPage const& page, std::uint64_t generation) {
  if (page.lost_in.load(std::memory_order_acquire) != generation) {
    return std::nullopt;
  }
  auto const lost = page.lost.load(std::memory_order_relaxed);
  auto const why = lost >> 32U;
  bool const names_a_peer = why < static_cast<std::uint64_t>(PeerFailure::Why::stopped);
  return names_a_peer ? std::optional(Loss{static_cast<std::uint32_t>(lost), static_cast<PeerFailure::Why>(why)})
                      : std::nullopt;
}

std::vector<SeenOperation> read_operations(ControlPage const& page) {
  std::vector<SeenOperation> operations;
  for (auto const& entry : page.operations) {
    if (auto const seen = read_entry(entry)) {
      operations.push_back(*seen);
    }
  }
  std::sort(operations.begin(), operations.end(), [](SeenOperation const& a, SeenOperation const& b) {
    return a.entered != b.entered ? a.entered > b.entered : a.sequence > b.sequence;
  });
  return operations;
}

std::string describe_operation(std::uint32_t what, std::uint64_t count) {
  auto const size = elements(what, count);
  auto const op = what >> 16U & 0xffU;
  bool const has_op = comm::reduces(static_cast<Kind>(kind_of(what))) && op != kUnknownOp;
  return kind_name(what) + (size.empty() ? "" : " of " + size) + (has_op ? ", " + name_in(kOps, op) : "");
}

std::string number_operation(std::uint64_t sequence, std::uint32_t what, std::uint64_t count) {
  auto const size = elements(what, count);
  return kind_name(what) + " #" + std::to_string(sequence) + (size.empty() ? "" : " (" + size + ")");
}

std::string describe_entry(SeenOperation const& operation, TimePoint now) {
  auto text = "#" + std::to_string(operation.sequence) + " " + describe_operation(operation.what, operation.count) +
              ": entered " + seconds_between(operation.entered, now.time_since_epoch().count()) + " ago";
  if (operation.what == kBegunOperation) {
    return text;
  }
  return operation.done == 0 ? text + ", not done"
                             : text + ", done after " + seconds_between(operation.entered, operation.done);
}

}  // namespace cxxrun::worker
