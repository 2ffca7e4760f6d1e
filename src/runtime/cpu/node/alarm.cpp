#include "src/runtime/cpu/node/alarm.hpp"

#include <algorithm>
#include <cstring>

namespace cxxrun::host {
namespace {

template <std::size_t N>
void put(std::array<char, N>& to, std::string const& text) {
  to.fill(0);
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}
template <std::size_t N>
std::string take(std::array<char, N> const& from) {
  return {from.data(), strnlen(from.data(), N)};
}

}  // namespace

FailureFacts facts_of(std::exception_ptr const& why, std::string const& who) {
  try {
    std::rethrow_exception(why);
  } catch (PeerFailure const& failure) {
    return {true, failure.why(), failure.rank(), failure.host(), {}};
  } catch (Failure const& failure) {
    return facts_of(failure.error());
  } catch (std::exception const& other) {
    return facts_of(fail(Errc::io, who + ": the collective was interrupted: " + other.what()));
  } catch (...) {
    return facts_of(fail(Errc::io, who + ": the collective was interrupted"));
  }
}

void throw_failure(FailureFacts const& facts, std::uint64_t generation, TimePoint began) {
  if (!facts.peer) {
    throw Failure(facts.error);
  }
  auto const after = Clock::now() - began;
  throw PeerFailure(facts.why, facts.rank, facts.host, generation,
                    std::chrono::duration_cast<std::chrono::microseconds>(after));
}

void write_alarm(Alarm& alarm, FailureFacts const& facts) {
  alarm.peer = facts.peer;
  alarm.why = static_cast<std::uint8_t>(facts.why);
  alarm.rank = facts.rank;
  alarm.code = static_cast<std::int32_t>(facts.error.code);
  alarm.os_errno = facts.error.os_errno;
  put(alarm.host, facts.host);
  put(alarm.text, facts.error.context);
  alarm.state.store(Alarm::kRaised);
}

FailureFacts read_alarm(Alarm const& alarm) {
  FailureFacts facts;
  facts.peer = alarm.peer;
  facts.why = static_cast<PeerFailure::Why>(std::min<int>(alarm.why, static_cast<int>(PeerFailure::Why::stopped)));
  facts.rank = alarm.rank;
  facts.host = take(alarm.host);
  facts.error = fail(static_cast<Errc>(std::clamp(alarm.code, 0, static_cast<std::int32_t>(Errc::io))),
                     take(alarm.text), alarm.os_errno);
  return facts;
}

}  // namespace cxxrun::host
