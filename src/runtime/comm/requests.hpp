// Requests: what one rank has been asked for (a checkpoint), and what all ranks have agreed to answer. Pure.
//
// Ranks are asked at different moments, some perhaps never. In each of its calls a rank takes the maximum that the
// ranks began in the call before, which is the answer of all, and says what it has been asked for since, for the next
// one. A request counts as answered in the call after: until then a failure may have come, and it is asked again in the
// next generation. Whatever has come by then, too: no rank has trained since, but for the step in between.
#pragma once

#include <cstdint>

namespace cxxrun::comm {

/// What travels: the maximum over all ranks counts.
enum class Wanted : std::int32_t { nothing = 0, save = 1, save_and_end = 2 };

class Requests {
 public:
  /// What this rank has been asked for and nobody has answered. `asked`: requests that it has got in its life; `ends`:
  /// whether it has been told to end.
  [[nodiscard]] Wanted mine(std::uint32_t asked, bool ends) const {
    bool const answered = last_ != Wanted::nothing;
    if (ends && !ended_ && last_ != Wanted::save_and_end) {
      return Wanted::save_and_end;
    }
    return asked != answered_ && !answered ? Wanted::save : Wanted::nothing;
  }

  /// One call: `agreed` is its answer on all ranks. Returns what this rank says for the next one.
  Wanted answer(Wanted agreed, std::uint32_t asked, bool ends) {
    if (last_ != Wanted::nothing) {
      answered_ = asked;
      ended_ = ended_ || last_ == Wanted::save_and_end;
    }
    last_ = agreed;
    return mine(asked, ends);
  }

  [[nodiscard]] Wanted last() const { return last_; }
  /// The ranks of another generation have not answered together what was answered last.
  void new_generation() { last_ = Wanted::nothing; }

 private:
  std::uint32_t answered_ = 0;
  bool ended_ = false;
  Wanted last_ = Wanted::nothing;
};

}  // namespace cxxrun::comm
