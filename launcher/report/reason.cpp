#include "launcher/report/reason.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/history/retrying.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

void Reason::notice(std::string_view line) {
  if (!in_traceback_ && !details_ && !notable(line)) {
    return;
  }
  if (details_ || telling_.strength == Strength::explains) {
    follow(line);
  }
  bool const ends_traceback = in_traceback_ && !line.empty() && line.front() != ' ' && line.front() != '\t';
  if (line.find("Traceback (most recent call last)") != std::string_view::npos) {
    in_traceback_ = true;
    return;
  }
  if (line.starts_with("Exception ignored in")) {
    ignored_ = true;
    return;
  }
  bool const is_cause = line.starts_with("The above exception was the");
  if (is_cause || line.starts_with("During handling of the above exception")) {
    chained_ = true;
    caused_ = is_cause;
    return;
  }
  auto found = telling(line);
  if (ends_traceback) {
    in_traceback_ = false;
    found.strength = std::max(found.strength, Strength::explains);
  }
  if (found.strength >= Strength::explains && std::exchange(ignored_, false)) {
    found.strength = Strength::hints;
  }
  // What is raised while an exception is handled is its consequence, when one of the two is a victim's; so is what is
  // raised from one that every restart would bring again.
  bool const follows = found.strength == Strength::explains && std::exchange(chained_, false) &&
                       telling_.strength == Strength::explains &&
                       (found.role != telling_.role || (caused_ && rendezvous::is_repeated(told_)));
  bool const better = found.strength > telling_.strength ||
                      (found.strength == telling_.strength && found.strength != Strength::decides && !follows);
  if (found.strength != Strength::nothing && better) {
    telling_ = found;
    told_ = trim(line);
    told_.resize(std::min(told_.size(), kToldBytes));
  }
}

/// Lines that follow and make the one that says why complete: where a fatal error was, and which peer NCCL lost.
void Reason::follow(std::string_view line) {
  if (std::exchange(details_, false) && !trim(line).empty()) {
    told_ += "; " + std::string(trim(line));
    told_.resize(std::min(told_.size(), kToldBytes));
  }
  details_ = (told_.starts_with("ncclRemoteError") && line == "Last error:") ||
             (told_.starts_with("Fatal Python error") && line.starts_with("Current thread 0x"));
}

}  // namespace cxxrun::launcher
