// Level: how much a line of the log matters. Line: one such line, said by pure code for a shell to write.
#pragma once

#include <string>

namespace cxxrun {

enum class Level {
  debug,  ///< routine: votes, ignored messages
  info,   ///< what happens to a user's job
  warn,   ///< something was lost, and the job goes on
  error,  ///< something failed, or a person has to act
};

struct Line {
  Level level = Level::info;
  std::string text;
  char const* kind = nullptr;  ///< of what callers may bring about as often as they like: a few of a kind are told
  bool operator==(Line const&) const = default;
};

}  // namespace cxxrun
