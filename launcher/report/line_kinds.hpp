// What one line of a program's stderr is: one that says why it failed, a frame of a stack, or like the one before.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::launcher {

/// How much a line says of the end of its program. Of the lines of one strength the last counts; of `decides` the
/// first, for what follows is its consequence.
enum class Strength : std::uint8_t { nothing, hints, tells, explains, decides };

struct Telling {
  Strength strength = Strength::nothing;
  rendezvous::Role role = rendezvous::Role::culprit;
};

/// Whether it has a word that a line must have to say anything, or to say how the next ones are to be read. Fast.
[[nodiscard]] bool notable(std::string_view line);

/// Of a line without colours and without what() before it.
[[nodiscard]] Telling telling(std::string_view line);

enum class Shape : std::uint8_t {
  line,
  python_frame,  ///< of a traceback: the last ones say most
  native_frame,  ///< of any other stack: to be folded
  thread,        ///< begins the stack of another thread: to be folded, too
  modules,       ///< "Extension modules: …"
  passed,        ///< no line's: many that were passed over
};
[[nodiscard]] Shape shape_of(std::string_view line);

/// "[rank3]: ", with which PyTorch begins each line of an exception, is no part of it.
[[nodiscard]] std::string_view without_rank(std::string_view line);

}  // namespace cxxrun::launcher
