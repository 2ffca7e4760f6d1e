#include "src/base/worker/segment.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::worker {
namespace {

constexpr std::array<char, 8> kSegmentMagic{'C', 'X', 'X', 'S', 'E', 'G', 0, 1};  // the last byte is the version
constexpr std::size_t kReason = 200;
constexpr char kYes = 'y';
constexpr char kNo = 'n';
constexpr std::size_t kMostConnections = 64;  // without a request yet; further ones stay in the listener's queue
constexpr Millis kTimeToAsk{2000};            // a connection silent for longer makes room for one in the queue
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
constexpr int kLookMs = 1;    // between two calls of `look`
constexpr int kPauseMs = 20;  // after accept ran out of descriptors

// A request as it is sent. Both ends are on one machine, so the numbers are in its byte order.
struct SegmentPacket {
  std::array<char, 8> magic = kSegmentMagic;
  std::uint64_t key = 0;
  std::int32_t rank = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(SegmentPacket) == 24);

// The server of serve_segment(), until `ranks` is empty.
struct SegmentServer {
  struct Connection {
    os::UniqueFd fd;
    TimePoint until;
  };
  int listener;
  int segment;
  std::uint64_t key;
  std::vector<int>& ranks;
  int stop;
  std::vector<Connection> connections{};  // the oldest first
  bool paused = false;

  /// Waits once and handles what has come. False: the deadline has passed.
  Result<bool> poll_once(TimePoint deadline) {
    bool const full = connections.size() == kMostConnections;
    bool const closed = paused || (full && connections.front().until > Clock::now());
    std::vector<pollfd> watched{{closed ? -1 : listener, POLLIN, 0}};
    watched.reserve(connections.size() + 2);
    for (auto const& connection : connections) {
      watched.push_back({connection.fd.get(), POLLIN, 0});
    }
    watched.push_back({stop, POLLIN, 0});
    int const left = os::poll_time(deadline);
    int const until_open = paused ? kPauseMs : closed ? os::poll_time(connections.front().until) : left;
    int const n = poll(watched.data(), watched.size(), std::min(left, until_open));
    if (n < 0 && errno != EINTR) {
      return fail(Errc::io, "cannot wait for the ranks of this node", errno);
    }
    if (n <= 0) {
      paused = false;
      return left > 0;
    }
    for (std::size_t i = connections.size(); i-- > 0;) {  // backwards: erasing moves the ones after it
      if (watched[i + 1].revents != 0 && handle(connections[i].fd.get())) {
        connections.erase(connections.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (watched.back().revents != 0) {
      ranks.clear();
    } else if (watched[0].revents != 0) {
      accept_some();
    }
    return true;
  }

  /// True: this connection is done with.
  bool handle(int connection) {
    SegmentRequest request;
    SegmentInput const input = read_segment_request(connection, request);
    if (input != SegmentInput::request) {
      return input == SegmentInput::gone;
    }
    auto const wanted = std::find(ranks.begin(), ranks.end(), request.rank);
    if (request.key != key) {
      refuse_segment(connection, "this is the memory of another communicator");
    } else if (wanted == ranks.end()) {
      refuse_segment(connection, "rank " + std::to_string(request.rank) + " already has it or is not on this node");
    } else {
      send_segment(connection, segment);
      ranks.erase(wanted);
    }
    return true;
  }

  // A connection in the queue may already hold its request. So when all places are taken, the oldest one gives way,
  // but only after it has had kTimeToAsk to send its own.
  void accept_some() {
    auto const now = Clock::now();
    if (connections.size() == kMostConnections && connections.front().until <= now) {
      connections.erase(connections.begin());
    }
    while (connections.size() < kMostConnections) {
      auto fd = os::accept_same_user(listener);
      if (!fd) {
        paused = errno != EAGAIN;
        return;
      }
      connections.push_back({std::move(fd), now + kTimeToAsk});
    }
  }
};

/// Whether something arrives before the deadline.
bool await_answer(int connection, TimePoint deadline, std::function<void()> const& look) {
  pollfd watched{connection, POLLIN, 0};
  while (poll(&watched, 1, kLookMs) <= 0) {
    if (Clock::now() >= deadline) {
      return false;
    }
    if (look) {
      look();
    }
  }
  return true;
}

}  // namespace

Result<os::UniqueFd> make_segment() {
  os::UniqueFd fd = os::make_memory_file("cxxrun");
  if (!fd || fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return fail(Errc::io, "cannot make memory to share within the node", errno);
  }
  return fd;
}

SegmentInput read_segment_request(int connection, SegmentRequest& request) {
  SegmentPacket packet;
  ssize_t const n = recv(connection, &packet, sizeof packet, MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return SegmentInput::nothing_yet;
  }
  if (n != sizeof packet || packet.magic != kSegmentMagic) {
    return SegmentInput::gone;
  }
  request = {packet.key, packet.rank};
  return SegmentInput::request;
}

void send_segment(int connection, int segment) {
  os::send_packet(connection, std::string_view(&kYes, 1), segment, MSG_DONTWAIT);
}

void refuse_segment(int connection, std::string const& reason) {
  os::send_packet(connection, kNo + reason.substr(0, kReason), -1, MSG_DONTWAIT);
}

Result<void> request_segment(int connection, SegmentRequest const& request) {
  SegmentPacket packet;
  packet.key = request.key;
  packet.rank = request.rank;
  if (os::send_packet(connection, {reinterpret_cast<char const*>(&packet), sizeof packet}) < 0) {
    return os::local_socket_error("cannot send the request", errno);
  }
  return {};
}

Result<os::UniqueFd> receive_segment(int connection) {
  std::array<char, kReason + 1> text{};
  os::UniqueFd segment;
  ssize_t const n = os::receive_packet(connection, text, segment);
  if (n < 0) {
    return os::local_socket_error("no answer", errno);
  }
  if (n == 0) {
    return fail(Errc::closed, "it closed the connection without an answer");
  }
  if (text[0] == kNo) {
    return fail(Errc::refused, std::string(text.data() + 1, static_cast<std::size_t>(n) - 1));
  }
  if (text[0] != kYes || !segment) {  // at its limit of descriptors a process receives none
    return fail(Errc::protocol, "the answer came without memory; is `ulimit -n` used up?");
  }
  return segment;
}

Result<os::UniqueFd> fetch_segment(std::string const& name, std::uint64_t key, int rank, TimePoint deadline,
                                   std::function<void()> const& look) {
  auto const fetch = [&]() -> Result<os::UniqueFd> {
    auto connection = os::connect_local(name, os::poll_time(deadline));
    if (!connection) {
      return connection;
    }
    if (auto const sent = request_segment(connection->get(), {key, rank}); !sent) {
      return sent.error();
    }
    if (!await_answer(connection->get(), deadline, look)) {
      return fail(Errc::timeout, "no answer");
    }
    auto segment = receive_segment(connection->get());
    int const seals = segment ? fcntl(segment->get(), F_GET_SEALS) : 0;
    if (segment && (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)) != F_SEAL_SHRINK)) {
      return fail(Errc::protocol, "the descriptor is not of memory that cxxrun shares");
    }
    return segment;
  };
  auto segment = fetch();
  if (!segment) {
    Error error = segment.error();
    error.context =
        "cannot fetch the memory that this node shares from socket \"" + name.substr(0, 100) + "\": " + error.context;
    return error;
  }
  return segment;
}

Result<void> serve_segment(os::LocalSocket const& socket, int segment, std::uint64_t key, std::vector<int> ranks,
                           TimePoint deadline, int stop) {
  SegmentServer server{socket.fd.get(), segment, key, ranks, stop};
  while (!ranks.empty()) {
    auto const more = server.poll_once(deadline);
    if (!more) {
      return more.error();
    }
    if (!*more) {
      return fail(Errc::timeout, name_ranks(ranks) + " did not fetch the memory that this node shares");
    }
  }
  return {};
}

int SegmentMap::grow(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return EFBIG;
  }
  if (!os::may_write_to(bytes)) {
    return errno;
  }
  // Not ftruncate(): that would try to shrink the file when another process has grown it further.
  char const zero = 0;
  auto const n = os::retried([&] { return pwrite(fd_.get(), &zero, 1, static_cast<off_t>(bytes) - 1); });
  return n == 1 ? 0 : errno;
}

int SegmentMap::map(std::size_t bytes) {
  auto data = os::map_memory(bytes, MAP_SHARED, fd_.get(), static_cast<off_t>(end_));
  if (!data) {
    return errno;
  }
  parts_.push_back({end_, bytes, std::move(data)});
  end_ += bytes;
  return 0;
}

std::byte* SegmentMap::at(std::uint64_t offset, std::size_t bytes) const {
  for (auto const& part : parts_) {
    if (offset >= part.offset && offset - part.offset <= part.bytes && bytes <= part.bytes - (offset - part.offset)) {
      return static_cast<std::byte*>(part.data.get()) + (offset - part.offset);
    }
  }
  return nullptr;
}

std::optional<std::uint64_t> SegmentMap::offset_of(void const* data, std::size_t bytes) const {
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  for (auto const& part : parts_) {
    auto const begin = reinterpret_cast<std::uintptr_t>(part.data.get());
    if (address >= begin && address - begin <= part.bytes && bytes <= part.bytes - (address - begin)) {
      return part.offset + (address - begin);
    }
  }
  return std::nullopt;
}

}  // namespace cxxrun::worker
