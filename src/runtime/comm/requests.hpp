// Requests: which requests (for a checkpoint) this rank has received, and what all ranks agreed to answer. Pure.
//
// Ranks receive a request at different times, and some ranks may never receive it. In each call a rank reads the
// maximum over all ranks that was started in the call before, which is the common answer, and contributes its own new
// requests to the next maximum. A request counts as answered one call later: if a failure comes before that, the next
// generation asks again. Requests that arrive by then are answered too, since only one step has been trained in
// between.
#pragma once

#include <cstdint>

namespace cxxrun::comm {

/// The value that is sent; the maximum over all ranks counts.
enum class Wanted : std::int32_t { nothing = 0, save = 1, save_and_end = 2 };

class Requests {
 public:
  /// This rank's unanswered requests. `asked`: how many requests this rank has received in its life; `ends`: whether it
  /// has been told to end.
  [[nodiscard]] Wanted mine(std::uint32_t asked, bool ends) const {
    bool const answered = last_ != Wanted::nothing;
    if (ends && !ended_ && last_ != Wanted::save_and_end) {
      return Wanted::save_and_end;
    }
    return asked != answered_ && !answered ? Wanted::save : Wanted::nothing;
  }

  /// Records one call, whose common answer is `agreed`. Returns this rank's contribution to the next maximum.
  Wanted answer(Wanted agreed, std::uint32_t asked, bool ends) {
    if (last_ != Wanted::nothing) {
      answered_ = asked;
      ended_ = ended_ || last_ == Wanted::save_and_end;
    }
    last_ = agreed;
    return mine(asked, ends);
  }

  [[nodiscard]] Wanted last() const { return last_; }
  /// Forgets the last answer: the ranks of the next generation have not all seen it.
  void new_generation() { last_ = Wanted::nothing; }

 private:
  std::uint32_t answered_ = 0;
  bool ended_ = false;
  Wanted last_ = Wanted::nothing;
};

}  // namespace cxxrun::comm
