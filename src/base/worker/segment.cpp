#include "src/base/worker/segment.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <sys/resource.h>

#include "src/base/core/rank_name.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/poll_time.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kMostConnections = 64;  // that have not asked yet; the others stay in the queue
constexpr Millis kTimeToAsk{2000};            // after that a connection gives its place to one in the queue
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
constexpr int kSliceMs = 1;   // between two looks around
constexpr int kPauseMs = 20;  // after accept ran out of descriptors

// A server, as long as somebody has still to come.
struct Serving {
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

  /// One turn; false: the time is up.
  Result<bool> turn(TimePoint deadline) {
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
    for (std::size_t i = connections.size(); i-- > 0;) {  // backwards: removing one moves those behind it
      if (watched[i + 1].revents != 0 && hear(connections[i].fd.get())) {
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

  /// True: this connection is finished with.
  bool hear(int connection) {
    SegmentRequest request;
    SegmentInput const input = read_request(connection, request);
    if (input != SegmentInput::request) {
      return input == SegmentInput::gone;
    }
    auto const wanted = std::find(ranks.begin(), ranks.end(), request.rank);
    if (request.key != key) {
      answer_no(connection, "this is the memory of another communicator");
    } else if (wanted == ranks.end()) {
      answer_no(connection, "rank " + std::to_string(request.rank) + " has it already or is not of this node");
    } else {
      answer_with(connection, segment);
      ranks.erase(wanted);
    }
    return true;
  }

  // Who is in the queue may have asked already: only one that had the time to and said nothing is put out for it.
  void accept_some() {
    auto const now = Clock::now();
    if (connections.size() == kMostConnections && connections.front().until <= now) {
      connections.erase(connections.begin());
    }
    while (connections.size() < kMostConnections) {
      auto fd = accept_same_user(listener);
      if (!fd) {
        paused = errno != EAGAIN;
        return;
      }
      connections.push_back({std::move(fd), now + kTimeToAsk});
    }
  }
};

/// Whether there is something to receive before the deadline.
bool await_answer(int connection, TimePoint deadline, std::function<void()> const& look) {
  pollfd watched{connection, POLLIN, 0};
  while (poll(&watched, 1, kSliceMs) <= 0) {
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

Result<os::UniqueFd> fetch_segment(std::string const& name, std::uint64_t key, int rank, TimePoint deadline,
                                   std::function<void()> const& look) {
  auto const fetch = [&]() -> Result<os::UniqueFd> {
    auto connection = connect_for_segment(name, os::poll_time(deadline));
    if (!connection) {
      return connection;
    }
    if (auto const sent = send_request(connection->get(), {key, rank}); !sent) {
      return sent.error();
    }
    if (!await_answer(connection->get(), deadline, look)) {
      return fail(Errc::timeout, "no answer");
    }
    auto segment = receive_segment(connection->get());
    int const seals = segment ? fcntl(segment->get(), F_GET_SEALS) : 0;
    if (segment && (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)) != F_SEAL_SHRINK)) {
      return fail(Errc::protocol, "what came is not shared memory of cxxrun's");
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

Result<void> serve_segment(SegmentSocket const& socket, int segment, std::uint64_t key, std::vector<int> ranks,
                           TimePoint deadline, int stop) {
  Serving serving{socket.fd.get(), segment, key, ranks, stop};
  while (!ranks.empty()) {
    auto const more = serving.turn(deadline);
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
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur) {
    return EFBIG;  // the kernel would send SIGXFSZ, which kills
  }
  // Not ftruncate, which would make the file shorter again when another process has grown it meanwhile.
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

}  // namespace cxxrun::host
