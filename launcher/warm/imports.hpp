// Imports: what a worker has imported, as it tells in a file (src/runtime/python/cxxrun/_imports.py), and what the warm
// Python of --warm=auto makes of it. Pure. In words: docs/use/warm.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher {

/// --warm=auto
inline constexpr std::string_view kWarmAuto = "auto";

struct Import {
  std::string module;
  std::string by;      ///< the module that has imported it; "" = the script
  double seconds = 0;  ///< with all that it has imported itself
  bool operator==(Import const&) const = default;
};

/// In the order in which they were done. Lines of another form are left out.
[[nodiscard]] std::vector<Import> parse_imports(std::string_view text);
/// "torch,transformers": what the warm Python is to import, one after the other.
[[nodiscard]] std::string modules_of(std::vector<Import> const& imports);
/// Without that module and those that have imported it.
[[nodiscard]] std::vector<Import> without(std::vector<Import> imports, std::string const& module);
/// What is said of a worker that was forked and has imported as much all the same; "" when that is little.
[[nodiscard]] std::string left_out_line(std::vector<Import> const& imports, bool automatic);

}  // namespace cxxrun::launcher
