#include "src/base/os/shared_page.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <new>
#include <poll.h>
#include <sys/eventfd.h>

#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::os {
namespace {

struct Call {
  UniqueFd socket;
  std::size_t sent = 0;
  bool taken = false;  // all words are sent, and our side is shut down
};

Call dial(sockaddr_storage const& to) {
  Call call;
  socklen_t const size = to.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (auto begun = begin_connect(reinterpret_cast<sockaddr const*>(&to), size)) {
    call.socket = *std::move(begun);
  }
  return call;
}

void write_more(Call& call, std::string const& words) {
  ssize_t const written =
      send(call.socket.get(), words.data() + call.sent, words.size() - call.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      call.socket.reset();
    }
    return;
  }
  call.sent += static_cast<std::size_t>(written);
  if (call.sent == words.size()) {
    shutdown(call.socket.get(), SHUT_WR);
    call.taken = true;
  }
}

/// Discards the answer. A socket that is closed with unread bytes sends a reset, which may overtake our words.
void read_away(Call& call) {
  std::array<char, 4096> bytes{};
  ssize_t got = 0;
  do {
    got = recv(call.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (got > 0);
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    call.socket.reset();
  }
}

}  // namespace

Result<SharedPage> SharedPage::make() {
  auto memory = map_memory(sizeof(Layout), MAP_SHARED | MAP_ANONYMOUS);
  if (!memory) {
    return fail(Errc::io, "no memory to share with the parent process", errno);
  }
  UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) {
    return fail(Errc::io, "no eventfd", errno);
  }
  return SharedPage(new (memory.release()) Layout, memory.get_deleter(), std::move(bell));
}

void SharedPage::set_terms(LeaseGuardTerms const& terms) {
  layout_->lease_ms.store(terms.lease.count());
  layout_->timeout_ms.store(terms.timeout.count());
}

void SharedPage::hold_lease(std::optional<TimePoint> until) {
  auto const now = Clock::now().time_since_epoch().count();
  auto const value = until ? std::max<std::int64_t>(until->time_since_epoch().count(), 1) : Layout::kNone;
  auto const before = layout_->until.exchange(value);
  if (before < now || value < before) {  // the parent sleeps for ever, enforces the old lease, or would sleep too long
    static_cast<void>(eventfd_write(bell_.get(), 1));  // fails only if it is ringing already
  }
}

void SharedPage::write_death_notice(std::vector<Recipient> const& recipients, std::string const& words) {
  if (recipients.empty() || words.empty() || words.size() > kMaxWords) {
    layout_->valid.store(0);
    return;
  }
  std::uint32_t const index = layout_->valid.load() == 1 ? 1 : 0;
  auto& place = layout_->places[index];
  place.recipients = 0;
  for (auto const& recipient : recipients) {
    auto const found = resolve(recipient.address, recipient.port, SOCK_STREAM, AI_NUMERICHOST);
    if (found && place.recipients < kMaxRecipients) {
      std::memcpy(&place.to[place.recipients++], (*found)->ai_addr, (*found)->ai_addrlen);
    }
  }
  place.size = static_cast<std::uint32_t>(words.size());
  std::copy(words.begin(), words.end(), place.words.begin());
  layout_->valid.store(index + 1, std::memory_order_release);
}

void SharedPage::note_sender(Sender const& sender) const {
  for (std::size_t half = 0; half < layout_->sender_name.size(); ++half) {
    std::array<char, sizeof(std::uint64_t)> bytes{};
    auto const from = std::min(sender.name.size(), half * bytes.size());
    std::copy_n(sender.name.begin() + static_cast<std::ptrdiff_t>(from),
                std::min(bytes.size(), sender.name.size() - from), bytes.begin());
    layout_->sender_name.at(half).store(std::bit_cast<std::uint64_t>(bytes));
  }
  layout_->sender.store(static_cast<std::uint64_t>(sender.pid) << 32U | sender.uid);
}

Sender SharedPage::sender() const {
  auto const ids = layout_->sender.load();
  Sender sender{static_cast<pid_t>(ids >> 32U), static_cast<std::uint32_t>(ids), {}};
  for (auto const& half : layout_->sender_name) {
    auto const bytes = std::bit_cast<std::array<char, sizeof(std::uint64_t)>>(half.load());
    sender.name.append(bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0'));
  }
  return sender;
}

std::optional<TimePoint> SharedPage::lease() const {
  auto const value = layout_->until.load();
  return value == Layout::kNone ? std::nullopt : std::optional(TimePoint(std::chrono::nanoseconds{value}));
}

std::optional<DeathNotice> SharedPage::death_notice() const {
  std::uint32_t const valid = layout_->valid.load(std::memory_order_acquire);
  if (valid == 0 || valid > layout_->places.size()) {
    return std::nullopt;
  }
  auto const& place = layout_->places[valid - 1];
  if (place.recipients > kMaxRecipients || place.size > kMaxWords) {
    return std::nullopt;
  }
  return DeathNotice{{place.to.begin(), place.to.begin() + place.recipients},
                     std::string(place.words.data(), place.size)};
}

void SharedPage::answer() const {
  eventfd_t rings = 0;
  static_cast<void>(eventfd_read(bell_.get(), &rings));
}

void deliver(DeathNotice const& death_notice, Millis limit) {
  auto const deadline = Clock::now() + limit;
  std::vector<Call> calls;
  for (auto const& recipient : death_notice.recipients) {
    calls.push_back(dial(recipient));
  }
  for (;;) {
    std::erase_if(calls, [](Call const& call) { return !call.socket; });
    std::vector<pollfd> watched;
    watched.reserve(calls.size());
    for (auto const& call : calls) {
      watched.push_back({call.socket.get(), static_cast<short>(call.taken ? POLLIN : POLLOUT), 0});
    }
    if (calls.empty() || Clock::now() >= deadline || poll(watched.data(), watched.size(), poll_time(deadline)) == 0) {
      return;
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (watched[i].revents != 0 && calls[i].taken) {
        read_away(calls[i]);
      } else if (watched[i].revents != 0) {
        write_more(calls[i], death_notice.words);
      }
    }
  }
}

}  // namespace cxxrun::os
