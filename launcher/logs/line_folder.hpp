// LineFolder: lines of many ranks, in the order in which they come → the same line of several ranks once. Pure.
//
// A line is held for kHeldFor at most, for other ranks that say the same. Each rank's lines keep their order: a line
// joins an equal one only behind everything that its rank has said before. Expanding what comes out gives the lines of
// each rank again, none more and none less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// How long a line waits for others; nobody sees such a delay.
inline constexpr Millis kHeldFor{100};
/// So many ranks make one line; fewer are shown one by one.
inline constexpr std::size_t kFoldedFrom = 4;
/// With more held than this the oldest are given out before their time.
inline constexpr std::size_t kMostHeld = std::size_t{1} << 20;

class LineFolder {
 public:
  /// A stream of the worker `rank`; no other open one has the id. `prefix` is put before a line that is not folded.
  void open(std::uint64_t id, std::uint32_t rank, std::string prefix);
  /// What the stream has said stays.
  void close(std::uint64_t id);
  /// A line of an open stream with its end. Appends to `out` what need not be held any more.
  void feed(std::uint64_t id, std::string_view line, TimePoint now, std::string& out);
  /// Appends what is due: "[×512] line" when every stream has said it, "[×8: 0-6,9] line" when some have.
  void take(TimePoint now, std::string& out);
  /// Appends all that is held.
  void flush(std::string& out);
  /// When there is something to take; nothing: no line is held.
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  struct Stream {
    std::uint32_t rank;
    std::string prefix;
    std::uint64_t next = 0;  ///< its next line may join entries with this number or later ones
  };
  /// Equal lines that are held, by number: some text may be held several times.
  using Places = std::map<std::string, std::deque<std::uint64_t>, std::less<>>;
  struct Entry {
    Places::iterator text;
    TimePoint since;
    std::vector<std::shared_ptr<Stream const>> from;
  };
  void give_first(std::string& out);
  /// The number of the entry that the line is to join, made if there is none.
  [[nodiscard]] std::uint64_t place_for(Stream const& stream, std::string_view line, TimePoint now);

  std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::size_t whole_ = 0;  ///< streams when one was opened last: so many make a line everybody's
  Places places_;
  std::deque<Entry> held_;   ///< by number
  std::uint64_t first_ = 0;  ///< number of the first of them
  std::size_t bytes_ = 0;    ///< that they take, about
};

}  // namespace cxxrun::launcher
