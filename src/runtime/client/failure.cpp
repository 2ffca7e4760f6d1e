#include "cxxrun/failure.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"

namespace cxxrun {
namespace {

/// "850 us", "1.2 ms", "12.3 s": two or three digits are enough for a person.
std::string readable(std::chrono::microseconds time) {
  auto const us = std::max<std::chrono::microseconds::rep>(time.count(), 0);
  if (us < 1000) {
    return std::to_string(us) + " us";
  }
  bool const seconds = us >= 1'000'000;
  auto const tenths = us / (seconds ? 100'000 : 100);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + (seconds ? " s" : " ms");
}

std::string sentence(PeerFailure::Why why, int rank, std::string const& host, std::uint64_t generation,
                     std::chrono::microseconds after) {
  std::string const who = rank_name(rank, host);
  std::string text;
  switch (why) {
    case PeerFailure::Why::died: text = who + " died"; break;
    case PeerFailure::Why::left: text = who + " left while others still called"; break;
    case PeerFailure::Why::timeout: text = who + " did not arrive in time"; break;
    case PeerFailure::Why::lost: text = "the connection to " + who + " is lost"; break;
    case PeerFailure::Why::stopped: text = "the launcher ended the generation"; break;
  }
  return text + " (call began " + readable(after) + " ago, generation " + std::to_string(generation) + ")";
}

}  // namespace

PeerFailure::PeerFailure(Why why, int rank, std::string host, std::uint64_t generation, std::chrono::microseconds after)
    : std::runtime_error(sentence(why, rank, host, generation, after)),
      why_(why),
      rank_(rank),
      host_(std::move(host)),
      generation_(generation),
      after_(after) {}

}  // namespace cxxrun
