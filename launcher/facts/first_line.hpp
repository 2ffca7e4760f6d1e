// The first line of a script: who is to run it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cxxrun::launcher {

struct FirstLine {
  std::string interpreter;  ///< "/usr/bin/env" of "#!/usr/bin/env -S python3 -u"; "" for what is no script
  std::string by_env;       ///< "python3": what env looks for in PATH; "" when it is another program
  bool operator==(FirstLine const&) const = default;
};
/// `start`: the first bytes of a file, at most as many as the kernel looks at.
[[nodiscard]] FirstLine read_first_line(std::string_view start);

}  // namespace cxxrun::launcher
