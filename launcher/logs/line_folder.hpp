// LineFolder: merges equal lines of several ranks into one. Pure.
//
// A line is held for at most kHeldFor, so that other ranks can join it. Each rank's lines keep their order: a line
// joins an equal one only if that comes after everything the rank has written before. Expanding the output gives
// exactly the lines of each rank again.
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

/// How long a line waits for equal ones; too short to be noticed.
inline constexpr Millis kHeldFor{100};
/// At least this many equal lines are merged; fewer are shown one by one.
inline constexpr std::size_t kFoldedFrom = 4;
/// If more bytes than this are held, the oldest lines are given out early.
inline constexpr std::size_t kMostHeld = std::size_t{1} << 20;

class LineFolder {
 public:
  /// Adds a stream of the worker `rank`. No other open stream has this id. `prefix` is put before lines that are not
  /// merged.
  void open(std::uint64_t id, std::uint32_t rank, std::string prefix);
  /// Lines of the stream that are held stay.
  void close(std::uint64_t id);
  /// Adds a whole line of an open stream. Appends to `out` lines that need not be held any longer.
  void feed(std::uint64_t id, std::string_view line, TimePoint now, std::string& out);
  /// Appends the lines that are due: "[×512] line" if every stream has written it, else "[×8: 0-6,9] line".
  void take(TimePoint now, std::string& out);
  /// Appends all lines that are held.
  void flush(std::string& out);
  /// When the next line is due; nothing if no line is held.
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  struct Stream {
    std::uint32_t rank;
    std::string prefix;
    std::uint64_t next = 0;  ///< its next line may join the entry with this number or a later one
  };
  /// Text of held lines → numbers of their entries. A text may be held several times.
  using Places = std::map<std::string, std::deque<std::uint64_t>, std::less<>>;
  struct Entry {
    Places::iterator text;
    TimePoint since;
    std::vector<std::shared_ptr<Stream const>> from;
  };
  void emit_first(std::string& out);
  /// Number of the entry that the line joins; makes one if there is none.
  [[nodiscard]] std::uint64_t place_for(Stream const& stream, std::string_view line, TimePoint now);

  std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> streams_;
  std::size_t whole_ = 0;  ///< streams when the last one was opened: a line of this many is everybody's
  Places places_;
  std::deque<Entry> held_;   ///< in the order of their numbers
  std::uint64_t first_ = 0;  ///< number of the first held entry
  std::size_t bytes_ = 0;    ///< memory of the held entries, about
};

}  // namespace cxxrun::launcher
