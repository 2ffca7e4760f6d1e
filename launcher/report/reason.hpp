// Reason: the line of a worker's stderr that says why it ended, and by whose doing. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/report/line_kinds.hpp"

namespace cxxrun::launcher {

inline constexpr std::size_t kToldBytes = 1000;

class Reason {
 public:
  /// The next line, as it is shown, without its newline. One without a notable word is passed over at once, unless the
  /// line before makes it part of it.
  void notice(std::string_view line);
  /// Lines are missing here.
  void skip() { in_traceback_ = chained_ = ignored_ = details_ = false; }
  /// At most kToldBytes; "" = no line does.
  [[nodiscard]] std::string const& told() const { return told_; }
  [[nodiscard]] rendezvous::Role role() const { return telling_.role; }

 private:
  void follow(std::string_view line);

  std::string told_;
  Telling telling_;
  bool in_traceback_ = false;  ///< the next line that is not indented is its exception
  bool chained_ = false;       ///< the next exception came while the last one was handled
  bool caused_ = false;        ///< the next exception was raised from the last one
  bool ignored_ = false;       ///< the next exception is one that Python ignores
  bool details_ = false;       ///< the next line belongs to the one that says why
};

}  // namespace cxxrun::launcher
