#include "launcher/doctor/pings.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "rendezvous/trust/secure_channel.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/wire/frame.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr Millis kPatience{3000};
constexpr int kAsks = 5;

/// Whether the socket is ready for `events` before the deadline.
bool ready(int socket, short events, TimePoint deadline) {
  pollfd entry{socket, events, 0};
  return os::retried([&] { return ::poll(&entry, 1, os::poll_time(deadline)); }) == 1;
}

/// The caller's end of a connection: sends a frame and waits for the answer until the deadline.
class Caller {
 public:
  Caller(int socket, TimePoint deadline) : socket_(socket), deadline_(deadline) {}

  /// Authenticates both ends by the key. False if the other end does not have it.
  bool prove(rendezvous::Key const& key) {
    guard_ = rendezvous::SecureChannel::of_caller(random_bytes<rendezvous::Nonce{}.size()>(), id_of(key));
    auto const answer = send(guard_->call()) ? receive() : std::nullopt;
    auto const heard = answer ? guard_->on_frame(*answer) : rendezvous::Broken{};
    auto const* const offer = std::get_if<rendezvous::WantsKey>(&heard);
    if (offer == nullptr || offer->offer.key != id_of(key)) {
      return false;
    }
    guard_->use_key(key);
    return true;
  }

  std::optional<std::int64_t> ask_clock() {
    auto const answer = send(guard_ ? guard_->seal(kAskClock) : kAskClock) ? receive() : std::nullopt;
    if (!answer || !guard_) {
      return answer ? number_in<std::int64_t>(*answer) : std::nullopt;
    }
    auto const heard = guard_->on_frame(*answer);
    auto const* const opened = std::get_if<rendezvous::Unsealed>(&heard);
    return opened != nullptr ? number_in<std::int64_t>(opened->payload) : std::nullopt;
  }

 private:
  /// The socket does not block. A request is far smaller than its buffer, so it is sent whole.
  bool send(std::string const& payload) {
    std::string const bytes = wire::frame(payload);
    auto const sent = os::retried([&] { return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    return sent == static_cast<ssize_t>(bytes.size());
  }

  std::optional<std::string> receive() {
    for (;;) {
      auto frame = reader_.next();
      if (!frame || frame->has_value()) {
        return frame ? *std::move(frame) : std::nullopt;
      }
      std::array<char, 16384> chunk{};
      auto const size = ready(socket_, POLLIN, deadline_)
                            ? os::retried([&] { return ::recv(socket_, chunk.data(), chunk.size(), 0); })
                            : 0;
      if (size <= 0) {
        return std::nullopt;
      }
      reader_.feed({chunk.data(), static_cast<std::size_t>(size)});
    }
  }

  int socket_;
  TimePoint deadline_;
  wire::FrameReader reader_;
  std::optional<rendezvous::SecureChannel> guard_;
};

}  // namespace

int connect_to(addrinfo const& address, os::UniqueFd& made, TimePoint deadline) {
  made = os::UniqueFd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made || (::connect(made.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return errno;
  }
  return ready(made.get(), POLLOUT, deadline) ? os::connect_error(made.get()) : ETIMEDOUT;
}

std::int64_t wall_us() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count();
}

Call Callee::call(std::optional<rendezvous::Key> const& key) {
  Call call{index_, "", 0, 0};
  auto const addresses = name_.take();
  if (!addresses) {
    call.error = addresses.error().context;
    return call;
  }
  auto const deadline = Clock::now() + kPatience;
  os::UniqueFd socket;
  int error = EHOSTUNREACH;
  int left = 0;
  for (auto const* each = addresses->get(); each != nullptr; each = each->ai_next) {
    ++left;
  }
  for (auto const* each = addresses->get(); each != nullptr && error != 0; each = each->ai_next, --left) {
    error = connect_to(*each, socket, Clock::now() + (deadline - Clock::now()) / left);
  }
  if (error != 0) {
    call.error = std::strerror(error);
    return call;
  }
  int const yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  Caller caller(socket.get(), deadline);
  std::optional<double> shortest;
  for (int asks = !key || caller.prove(*key) ? kAsks : 0; asks > 0; --asks) {
    auto const asked = Clock::now();
    auto const wall = wall_us();
    auto const theirs = caller.ask_clock();
    if (!theirs) {
      break;
    }
    double const took = std::chrono::duration<double, std::micro>(Clock::now() - asked).count();
    if (!shortest || took < *shortest) {
      shortest = call.round_trip = took;
      call.ahead = static_cast<double>(*theirs - wall) - took / 2;
    }
  }
  call.error = shortest ? "" : "connected, but no answer";
  return call;
}

}  // namespace cxxrun::launcher::doctor
