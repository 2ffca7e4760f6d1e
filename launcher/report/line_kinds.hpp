// One line of a program's stderr: how it looks on a terminal, and what it says about the end of the program. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::launcher {

/// The middle of a longer line is left out.
inline constexpr std::size_t kLineBytes = 4096;

/// The unfinished line of a stream, as a terminal would show it. A carriage return begins the line anew, so the last
/// state of a progress bar is kept. A carriage return at the end of the line means nothing.
class OpenLine {
 public:
  /// Appends bytes without a newline.
  void extend(std::string_view piece);
  /// Returns the line as shown, and begins the next one.
  [[nodiscard]] std::string end();
  [[nodiscard]] bool empty() const { return line_.empty(); }

 private:
  std::string line_;  ///< at most kLineBytes and a carriage return
  bool cut_ = false;  ///< its middle is missing
};

/// A whole line as shown, without colours and without PyTorch's name of the rank. If that differs from `whole`, the
/// text lies in `room`.
[[nodiscard]] std::string_view plain_line(std::string_view whole, std::string& room);
/// The line without "[rank3]: ", with which PyTorch begins each line of an exception.
[[nodiscard]] std::string_view without_rank(std::string_view line);

/// How much a line says about the end of its program. Among lines of one strength the last one counts; among those that
/// decide the first one, because what follows is its consequence.
enum class Strength : std::uint8_t { nothing, hints, tells, explains, decides };

struct LineMeaning {
  Strength strength = Strength::nothing;
  rendezvous::Role role = rendezvous::Role::culprit;
};

/// Whether the line contains one of the words that give it a meaning, or give one to the lines after it. Fast.
[[nodiscard]] bool notable(std::string_view line);

/// Takes a plain line.
[[nodiscard]] LineMeaning meaning_of(std::string_view line);

enum class Shape : std::uint8_t {
  line,
  python_frame,  ///< of a traceback: the last frames say most
  native_frame,  ///< of any other stack: folded
  thread,        ///< begins the stack of another thread: folded, too
  modules,       ///< "Extension modules: …"
  passed,        ///< not a line: bytes that were skipped
};
[[nodiscard]] Shape shape_of(std::string_view line);

}  // namespace cxxrun::launcher
