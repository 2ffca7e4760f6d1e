#include "src/base/worker/segment.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace std::chrono_literals;
using cxxrun::Clock;
using cxxrun::Errc;
using cxxrun::Result;
using cxxrun::os::listen_local;
using cxxrun::os::UniqueFd;
using cxxrun::worker::fetch_segment;
using cxxrun::worker::make_segment;
using cxxrun::worker::serve_segment;

namespace {

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0;

cxxrun::TimePoint guard() {
  return Clock::now() + 60s;
}
cxxrun::TimePoint soon() {
  return Clock::now() + 50ms;  // for calls that must end without an answer
}

ino_t inode_of(int fd) {
  struct stat what {};
  REQUIRE(fstat(fd, &what) == 0);
  return what.st_ino;
}

/// A connection that sends arbitrary bytes.
class Stranger {
 public:
  explicit Stranger(std::string const& name) : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::memcpy(a.sun_path + 1, name.data(), name.size());
    auto const length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(connect(fd_.get(), reinterpret_cast<sockaddr const*>(&a), length) == 0);
  }
  void say(std::string const& bytes) const { send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Waits; 0: closed by the server.
  [[nodiscard]] ssize_t hear() const {
    std::array<char, 300> buffer{};
    return recv(fd_.get(), buffer.data(), buffer.size(), 0);
  }

 private:
  UniqueFd fd_;
};

}  // namespace

TEST_CASE("segment: grows, does not shrink, and is not left to programs that are started", "[process]") {
  UniqueFd const segment = make_segment().value();

  CHECK(ftruncate(segment.get(), 4096) == 0);
  CHECK(ftruncate(segment.get(), 8192) == 0);
  CHECK(ftruncate(segment.get(), 4096) != 0);
  CHECK(errno == EPERM);
  CHECK(fcntl(segment.get(), F_ADD_SEALS, F_SEAL_GROW) != 0);
  CHECK((fcntl(segment.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("segment: the mates of a leader get the same memory", "[process]") {
  auto server = listen_local().value();
  UniqueFd const segment = make_segment().value();
  REQUIRE(ftruncate(segment.get(), 4096) == 0);
  auto const ends = cxxrun::test::run_ranks(4, [&](int rank) -> std::string {
    if (rank == 0) {
      auto const served = serve_segment(server, segment.get(), kKey, {1, 2, 3}, guard());
      return served ? "served" : served.error().message();
    }
    auto const mine = fetch_segment(server.name, kKey, rank, guard());
    if (!mine) {
      return mine.error().message();
    }
    pwrite(mine->get(), &rank, sizeof rank, static_cast<off_t>(sizeof rank) * rank);
    return (fcntl(mine->get(), F_GETFD) & FD_CLOEXEC) != 0 ? "fetched" : "left open";
  });

  std::array<int, 4> wrote{};
  CHECK(pread(segment.get(), wrote.data(), sizeof wrote, 0) == sizeof wrote);
  CHECK(wrote == std::array<int, 4>{0, 1, 2, 3});
  CHECK(ends[0].said == "served");
  CHECK(ends[3].said == "fetched");
}

TEST_CASE("segment: who does not come is named", "[process]") {
  auto server = listen_local().value();
  UniqueFd const segment = make_segment().value();
  auto fetched = std::async(std::launch::async, [&] { return fetch_segment(server.name, kKey, 2, guard()); });

  auto const first = serve_segment(server, segment.get(), kKey, {2}, guard());
  auto const served = serve_segment(server, segment.get(), kKey, {1, 3}, soon());

  CHECK(first);
  CHECK(fetched.get());
  REQUIRE_FALSE(served);
  CHECK(served.error().code == Errc::timeout);
  CHECK(served.error().context == "ranks 1 and 3 did not fetch the memory that this node shares");
}

TEST_CASE("segment: a node of many ranks may ask all at once, before anybody serves", "[process]") {
  constexpr int kRanks = 100;
  auto server = listen_local().value();
  UniqueFd const segment = make_segment().value();
  std::vector<UniqueFd> asking;
  std::vector<int> ranks;
  for (int rank = 1; rank <= kRanks; ++rank) {
    asking.push_back(cxxrun::os::connect_local(server.name, 60'000).value());
    REQUIRE(cxxrun::worker::request_segment(asking.back().get(), {kKey, rank}));
    ranks.push_back(rank);
  }

  auto const served = serve_segment(server, segment.get(), kKey, ranks, Clock::now() + 20s);

  INFO((served ? "" : served.error().message()));
  CHECK(served);
  for (UniqueFd const& each : asking) {
    CHECK(cxxrun::worker::receive_segment(each.get()));
  }
}

TEST_CASE("segment: strangers, half requests and silence end nothing", "[process]") {
  auto server = listen_local().value();
  UniqueFd const segment = make_segment().value();
  auto serving =
      std::async(std::launch::async, [&] { return serve_segment(server, segment.get(), kKey, {1}, guard()); });
  std::vector<Stranger> silent;
  for (int i = 0; i < 80; ++i) {  // more than the server keeps
    silent.emplace_back(server.name);
  }
  for (std::string const& bytes :
       {std::string("CXXSEG"), std::string(24, 'x'), std::string(5000, '\0'), std::string()}) {
    Stranger const stranger(server.name);
    stranger.say(bytes);
    CHECK(stranger.hear() == 0);
  }

  auto const wrong_key = fetch_segment(server.name, kKey + 1, 1, guard());
  auto const wrong_rank = fetch_segment(server.name, kKey, 7, guard());
  auto const mine = fetch_segment(server.name, kKey, 1, guard());

  CHECK(wrong_key.error().code == Errc::refused);
  CHECK(wrong_rank.error().code == Errc::refused);
  CHECK(wrong_rank.error().context.ends_with("rank 7 already has it or is not on this node"));
  REQUIRE(mine);
  CHECK(inode_of(mine->get()) == inode_of(segment.get()));
  CHECK(serving.get());
}

TEST_CASE("segment: fetching ends when nobody serves", "[process]") {
  std::string gone;
  { gone = listen_local().value().name; }
  auto const silent = listen_local().value();

  CHECK(fetch_segment(gone, kKey, 1, guard()).error().code == Errc::closed);
  CHECK(fetch_segment(silent.name, kKey, 1, soon()).error().code == Errc::timeout);
  CHECK(fetch_segment(std::string(200, 'a'), kKey, 1, guard()).error().code == Errc::environment);
  CHECK(fetch_segment("", kKey, 1, guard()).error().code == Errc::environment);
}

TEST_CASE("segment: another user is turned away at either end", "[process]") {
  if (geteuid() != 0) {
    return;  // only root can become another user
  }
  auto server = listen_local().value();
  UniqueFd const segment = make_segment().value();
  std::array<int, 2> turn{};
  REQUIRE(pipe2(turn.data(), O_CLOEXEC) == 0);
  auto const ends = cxxrun::test::run_ranks(3, [&](int rank) -> std::string {
    char byte = 0;
    if (rank == 0) {
      auto const served = serve_segment(server, segment.get(), kKey, {2}, guard());
      return served ? "served" : served.error().message();
    }
    if (rank == 1 && setuid(65534) != 0) {
      return "cannot become nobody";
    }
    if (rank == 2) {
      bool const my_turn = read(turn[0], &byte, 1) == 1;  // the server is there until rank 1 has been turned away
      return my_turn && fetch_segment(server.name, kKey, rank, guard()) ? "fetched" : "failed";
    }
    Stranger const stranger(server.name);  // not even a caller that does not check the owner of the socket
    bool const turned_away = stranger.hear() <= 0;
    auto const own = fetch_segment(server.name, kKey, 2, guard());
    bool const told = write(turn[1], &byte, 1) == 1;
    return told && turned_away && !own && own.error().code == Errc::permission ? "turned away" : "let in";
  });

  close(turn[0]);
  close(turn[1]);
  CHECK(ends[0].said == "served");
  CHECK(ends[1].said == "turned away");
  CHECK(ends[2].said == "fetched");
}

TEST_CASE("segment: a crowd of another user's does not keep whoever accepts from everything else", "[process]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can become somebody else");
    return;
  }
  constexpr int kCrowd = 200;
  auto const socket = listen_local().value();
  auto const ends = cxxrun::test::run_ranks(1, [&](int) -> std::string {
    if (setuid(65534) != 0) {
      return "cannot become nobody";
    }
    for (int i = 0; i < kCrowd; ++i) {
      Stranger const stranger(socket.name);  // waits in the queue, also after its end
    }
    return "called";
  });
  REQUIRE(ends[0].said == "called");
  UniqueFd const own = cxxrun::os::connect_local(socket.name, 60'000).value();

  int turns = 1;
  for (UniqueFd mine; !mine; ++turns) {
    mine = cxxrun::os::accept_same_user(socket.fd.get());
    REQUIRE((mine || errno == EAGAIN));
    REQUIRE(turns <= kCrowd);
  }
  CHECK(turns > 3);
}

TEST_CASE("segment: a socket in a directory is met by its path, and nobody is there once it is gone", "[process]") {
  std::string directory = "/tmp/cxxrun-test-XXXXXX";
  REQUIRE(mkdtemp(directory.data()) != nullptr);
  auto const socket = listen_local(directory).value();
  CHECK(socket.name.starts_with(directory + "/"));
  CHECK(cxxrun::os::connect_local(socket.name, 60'000));
  unlink(socket.name.c_str());
  CHECK(cxxrun::os::connect_local(socket.name, 60'000).error().code == Errc::closed);
  CHECK_FALSE(listen_local(directory + std::string(100, 'x')));
  rmdir(directory.c_str());
}

TEST_CASE("segment: only memory that cannot shrink is taken", "[process]") {
  auto server = listen_local().value();
  UniqueFd const shrinks(memfd_create("other", MFD_CLOEXEC));
  auto fetched = std::async(std::launch::async, [&] { return fetch_segment(server.name, kKey, 1, guard()); });

  CHECK(serve_segment(server, shrinks.get(), kKey, {1}, guard()));
  CHECK(fetched.get().error().code == Errc::protocol);
}
