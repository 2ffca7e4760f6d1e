#include "src/base/worker/segment_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "src/base/os/descriptor_packet.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::host {
namespace {

constexpr std::array<char, 8> kMagic{'C', 'X', 'X', 'S', 'E', 'G', 0, 1};  // the last byte is the version
constexpr int kBacklog = 1024;       // a whole node at once; the kernel lowers it to net.core.somaxconn
constexpr int kMostTurnedAway = 16;  // in one turn of whoever accepts: a crowd does not keep it from everything else
constexpr std::size_t kReason = 200;
constexpr char kYes = 'y';
constexpr char kNo = 'n';

// As it travels: both ends are on one machine, so the numbers are in its byte order.
struct Packet {
  std::array<char, 8> magic = kMagic;
  std::uint64_t key = 0;
  std::int32_t rank = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(Packet) == 24);

struct Address {
  sockaddr_un un{};
  socklen_t length = 0;
};

std::optional<Address> address_of(std::string const& name) {
  Address a;
  a.un.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof a.un.sun_path) {
    return std::nullopt;
  }
  std::size_t const at = name.front() == '/' ? 0 : 1;  // behind a zero byte it is abstract
  std::memcpy(a.un.sun_path + at, name.data(), name.size());
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

bool same_user(int connection) {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

Error last_error(std::string const& what, int why) {
  bool const gone = why == ECONNREFUSED || why == ECONNRESET || why == EPIPE || why == ENOENT;
  return fail(why == EAGAIN ? Errc::timeout : gone ? Errc::closed : Errc::io, what, why);
}

}  // namespace

Result<SegmentSocket> listen_for_segments(std::string const& directory) {
  SegmentSocket made{directory.empty() ? "cxxrun-" + random_hex(32) : directory + "/" + random_hex(16), {}};
  made.fd.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto const address = address_of(made.name);
  if (!made.fd || !address ||
      bind(made.fd.get(), reinterpret_cast<sockaddr const*>(&address->un), address->length) != 0 ||
      listen(made.fd.get(), kBacklog) != 0) {
    return fail(Errc::io, "cannot make the socket that shares memory within the node", errno);
  }
  return made;
}

os::UniqueFd accept_same_user(int listener) {
  for (int n = 0; n < kMostTurnedAway; ++n) {
    os::UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection ? same_user(connection.get()) : errno != EINTR && errno != ECONNABORTED) {
      return connection;
    }
  }
  errno = EAGAIN;
  return {};
}

SegmentInput read_request(int connection, SegmentRequest& request) {
  Packet packet;
  ssize_t const n = recv(connection, &packet, sizeof packet, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return SegmentInput::nothing_yet;
  }
  if (n != sizeof packet || packet.magic != kMagic) {
    return SegmentInput::gone;
  }
  request = {packet.key, packet.rank};
  return SegmentInput::request;
}

void answer_with(int connection, int segment) {
  os::send_packet(connection, std::string_view(&kYes, 1), segment, MSG_DONTWAIT);
}

void answer_no(int connection, std::string const& reason) {
  os::send_packet(connection, kNo + reason.substr(0, kReason), -1, MSG_DONTWAIT);
}

Result<os::UniqueFd> connect_for_segment(std::string const& name, int timeout_ms) {
  auto const address = address_of(name);
  if (!address) {
    return fail(Errc::environment, "\"" + name.substr(0, kReason) + "\" cannot be the name of a socket");
  }
  os::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  int const ms = std::max(1, timeout_ms);  // 0 would mean for ever
  timeval const timeout{ms / 1000, static_cast<suseconds_t>(ms % 1000) * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);  // connect waits for a place in the queue
  while (connect(fd.get(), reinterpret_cast<sockaddr const*>(&address->un), address->length) != 0) {
    if (errno != EINTR) {
      return last_error("cannot connect", errno);
    }
  }
  if (!same_user(fd.get())) {
    return fail(Errc::permission, "it belongs to another user");
  }
  return fd;
}

Result<void> send_request(int connection, SegmentRequest const& request) {
  Packet packet;
  packet.key = request.key;
  packet.rank = request.rank;
  if (os::send_packet(connection, {reinterpret_cast<char const*>(&packet), sizeof packet}) < 0) {
    return last_error("cannot send the request", errno);
  }
  return {};
}

Result<os::UniqueFd> receive_segment(int connection) {
  std::array<char, kReason + 1> text{};
  os::UniqueFd segment;
  ssize_t const n = os::receive_packet(connection, text, segment);
  if (n < 0) {
    return last_error("no answer", errno);
  }
  if (n == 0) {
    return fail(Errc::closed, "it closed the connection without an answer");
  }
  if (text[0] == kNo) {
    return fail(Errc::refused, std::string(text.data() + 1, static_cast<std::size_t>(n) - 1));
  }
  if (text[0] != kYes || !segment) {  // a descriptor that does not fit this process' limit is lost on the way
    return fail(Errc::protocol, "the answer came without memory; is `ulimit -n` used up?");
  }
  return segment;
}

}  // namespace cxxrun::host
