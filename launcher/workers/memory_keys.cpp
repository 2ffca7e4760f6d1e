#include "launcher/workers/memory_keys.hpp"

#include <algorithm>

namespace cxxrun::launcher {

MemoryKeys::Answer MemoryKeys::ask(std::uint64_t key) {
  Answer answer;
  if (std::find(kept_.begin(), kept_.end(), key) != kept_.end()) {
    answer.what = Answer::What::have;
  } else if (dropped_.contains(key)) {
    answer.why = "cxxrun keeps the memory of the newest " + std::to_string(kKept) +
                 " communicators for ranks that come late, and this one is older";
  } else if (dropped_.size() == kRemembered) {
    answer.why = "more communicators were made in this generation than cxxrun remembers";
  } else {
    answer.what = Answer::What::make;
    kept_.push_back(key);
    if (kept_.size() > kKept) {
      answer.drop = kept_.front();
      dropped_.insert(kept_.front());
      kept_.pop_front();
    }
  }
  return answer;
}

}  // namespace cxxrun::launcher
