#include "launcher/workers/whom_to_ask.hpp"

#include <algorithm>
#include <array>

namespace cxxrun::launcher {

void whom_to_ask(pid_t pid, pid_t parent, Look const& look, ChildrenOf const& children, WhomToAsk& asked) {
  auto const seen = look(pid, parent);
  if (!seen) {
    return;
  }
  asked.all.push_back(pid);
  if (seen->handles) {
    asked.programs.push_back(pid);
  }
  if (seen->handles && !seen->only_waits) {
    return;
  }
  for (pid_t const child : children(pid)) {
    whom_to_ask(child, pid, look, children, asked);
  }
}

bool only_waits(std::string_view path) {
  static constexpr std::array<std::string_view, 14> kNames{
      "sh", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh93", "ksh", "mksh", "tcsh", "yash", "zsh", "unshare"};
  auto const name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0: the whole path
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace cxxrun::launcher
