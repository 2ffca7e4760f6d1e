// The agent's side of the connections to its workers. The test process plays the workers, too.
#include "launcher/workers/worker_links.hpp"

#include <array>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "launcher/workers/worker_processes.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/spawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

struct LinksBench final : WorkerLinksInbox {
  boost::asio::io_context io;
  std::optional<std::uint32_t> me = 1;  // our local rank
  std::vector<std::uint32_t> survivors;
  std::uint32_t shrinking = 0;  // survivors that shrink
  pid_t my_pid = getpid();      // the worker that we connect as
  std::vector<std::string> parked;
  std::vector<std::pair<os::UniqueFd, std::string>> asked;
  std::optional<wire::RailClaim> right;  // the claim that is proven
  std::optional<WorkerLinks> links;

  LinksBench() {
    links.emplace(io, *this);
    links->begin(3);
  }

  [[nodiscard]] std::optional<std::uint32_t> who(pid_t pid) const override { return pid == my_pid ? me : std::nullopt; }
  void on_survivor(std::uint32_t rank, bool shrinks) override {
    survivors.push_back(rank);
    shrinking += shrinks ? 1U : 0U;
  }
  void on_parked(std::uint32_t rank, std::string const& why) override {
    parked.push_back(std::to_string(rank) + " " + why);
  }
  Result<wire::RailVerdict> prove(std::uint32_t local_rank, wire::RailClaim const& claim) override {
    if (claim != right) {
      return fail(Errc::refused, "not so");
    }
    return wire::RailVerdict{wire::RailVerdict::What::right, "of rank " + std::to_string(local_rank)};
  }
  void on_question(os::UniqueFd fd, std::string const& question) override {
    asked.emplace_back(std::move(fd), question);
  }

  void run() {  // handles all input that has arrived
    io.restart();
    while (io.poll() > 0) {
    }
  }
  [[nodiscard]] os::UniqueFd connect() const {
    auto fd = os::connect_local(links->name(), 10'000);
    REQUIRE(fd);
    return *std::move(fd);
  }
  void say(int fd, std::string const& bytes) {
    REQUIRE(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    run();
  }
  void say(int fd, worker::FromWorker const& packet) { say(fd, encode(packet)); }
  os::UniqueFd registered(bool survives = true) {
    auto fd = connect();
    say(fd.get(), worker::Register{3, 0, survives});
    return fd;
  }
};

struct Heard {
  std::optional<worker::FromAgent> packet;  ///< nothing: the connection has ended
  os::UniqueFd memory;
};

Heard hear(int fd) {
  std::vector<char> bytes(worker::kMostBytes);
  Heard heard;
  ssize_t const n = os::receive_packet(fd, bytes, heard.memory, MSG_DONTWAIT);
  if (n > 0) {
    heard.packet = worker::decode_from_agent({bytes.data(), static_cast<std::size_t>(n)});
  }
  return heard;
}

struct Mapped {
  explicit Mapped(int fd)
      : page(static_cast<worker::ControlPage*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))) {}
  ~Mapped() { munmap(page, 4096); }
  Mapped(Mapped const&) = delete;
  Mapped& operator=(Mapped const&) = delete;
  worker::ControlPage* page;
};

/// A connection from a process in a session that its parent leads. Both live as long as this object. Our own session is
/// not used, because its leader may be in another pid namespace and then has no pid here.
struct Helper {
  explicit Helper(std::string const& socket) {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours.reset(ends[0]);
    os::UniqueFd const theirs(ends[1]);
    leader = fork();
    if (leader == 0) {
      dup2(theirs.get(), kTheirs);
      os::close_from(kTheirs + 1);  // including those of the agent's side
      setsid();
      if (fork() == 0) {
        auto const fd = os::connect_local(socket, 10'000);
        os::send_packet(kTheirs, "x", fd ? fd->get() : -1);
      }
      char end = 0;
      static_cast<void>(recv(kTheirs, &end, 1, 0));
      wait(nullptr);
      _exit(0);
    }
    std::array<char, 1> byte{};
    os::receive_packet(ours.get(), byte, connection);
    REQUIRE(connection);
  }
  ~Helper() {
    ours.reset();
    waitpid(leader, nullptr, 0);
  }
  Helper(Helper const&) = delete;
  Helper& operator=(Helper const&) = delete;

  static constexpr int kTheirs = 3;
  pid_t leader = 0;
  os::UniqueFd connection;
  os::UniqueFd ours;
};

std::string refusal(int fd) {
  auto const heard = hear(fd);
  return heard.packet && std::holds_alternative<worker::No>(*heard.packet) ? std::get<worker::No>(*heard.packet).why
                                                                           : "(none)";
}

}  // namespace

TEST_CASE("worker_links: a worker that registers shares a page with its agent, which cannot change its size") {
  LinksBench bench;
  auto const fd = bench.registered();
  auto const heard = hear(fd.get());
  CHECK(heard.packet == worker::FromAgent{worker::Welcome{}});
  REQUIRE(heard.memory);
  CHECK(bench.survivors == std::vector<std::uint32_t>{1});
  CHECK(ftruncate(heard.memory.get(), 0) != 0);
  CHECK(ftruncate(heard.memory.get(), 8192) != 0);
  Mapped const mapped(heard.memory.get());
  CHECK(mapped.page->magic == worker::kPageMagic);
  mapped.page->step = 17;
  REQUIRE(bench.links->page(1) != nullptr);
  CHECK(bench.links->page(1)->step == 17);
  CHECK(bench.links->page(0) == nullptr);
}

TEST_CASE("worker_links: every word of the agent rings the bell") {
  LinksBench bench;
  auto const fd = bench.registered();
  Mapped const mapped(hear(fd.get()).memory.get());
  CHECK((mapped.page->over == 0 && mapped.page->bell == 0));
  bench.links->over();
  CHECK((mapped.page->over == 3 && mapped.page->bell == 1));
  CHECK(bench.links->checkpoint(1));
  CHECK_FALSE(bench.links->checkpoint(0));
  CHECK((mapped.page->checkpoints == 1 && mapped.page->bell == 2));
  bench.links->ends();
  CHECK((mapped.page->ends == 1 && mapped.page->bell == 3));
  bench.links->ask_to_give_up(0);
  CHECK((mapped.page->asked == 0 && mapped.page->bell == 3));
  bench.links->ask_to_give_up(1);
  CHECK((mapped.page->asked == 3 && mapped.page->bell == 4));
}

TEST_CASE(
    "worker_links: at the end of a generation those that survive hear of it, others that they end, also late ones") {
  LinksBench bench;
  auto const stays = bench.registered(false);
  Mapped const other(hear(stays.get()).memory.get());
  CHECK(bench.survivors.empty());
  bench.links->over();
  CHECK((other.page->over == 0 && other.page->ends == 1 && other.page->bell == 1));
  bench.me = 0;
  auto const late = bench.registered();
  Mapped const mapped(hear(late.get()).memory.get());
  CHECK((mapped.page->over == 3 && mapped.page->ends == 0));
  bench.me = 3;
  auto const leaves = bench.registered(false);
  Mapped const left(hear(leaves.get()).memory.get());
  CHECK((left.page->over == 0 && left.page->ends == 1));
  bench.links->begin(4);
  bench.me = 2;
  auto const next = bench.connect();
  bench.say(next.get(), worker::Register{4, 0, true});
  Mapped const newer(hear(next.get()).memory.get());
  CHECK((newer.page->over == 0 && newer.page->ends == 0));
}

TEST_CASE("worker_links: who has parked hears of the next generation; of an older one nothing is heard") {
  LinksBench bench;
  auto const fd = bench.registered();
  hear(fd.get());
  bench.say(fd.get(), worker::Parked{2, "late"});
  bench.say(fd.get(), worker::Parked{3, "rank 0 is gone"});
  CHECK(bench.parked == std::vector<std::string>{"1 rank 0 is gone"});
  worker::Resume const resume{4, {"RANK=1"}};
  CHECK(bench.links->resume(1, resume));
  CHECK(hear(fd.get()).packet == worker::FromAgent{resume});
  CHECK_FALSE(bench.links->resume(0, resume));
}

TEST_CASE("worker_links: a worker whose connection has ended cannot be resumed, and its page stays to be looked at") {
  LinksBench bench;
  auto fd = bench.registered();
  Mapped const mapped(hear(fd.get()).memory.get());
  mapped.page->step = 5;
  fd.reset();
  bench.run();
  CHECK_FALSE(bench.links->resume(1, {4, {}}));
  REQUIRE(bench.links->page(1) != nullptr);
  CHECK(bench.links->page(1)->step == 5);
  bench.links->forget(1);
  CHECK(bench.links->page(1) == nullptr);
}

TEST_CASE("worker_links: no stranger, no other generation and nobody twice") {
  LinksBench bench;
  auto const old = bench.connect();
  bench.say(old.get(), worker::Register{2, 0, true});
  CHECK(refusal(old.get()) == "it is of generation 2, and this is generation 3");
  auto const fd = bench.registered();
  auto const twice = bench.registered();
  CHECK(refusal(twice.get()) == "pid " + std::to_string(getpid()) + " is registered in its place");
  bench.me.reset();
  auto const stranger = bench.registered();
  CHECK(refusal(stranger.get()) == no_worker({getpid(), getsid(0), ""}));
  CHECK_FALSE(hear(stranger.get()).packet);
  CHECK(bench.survivors.size() == 1);
}

TEST_CASE("worker_links: a program behind a wrapper has its worker's place, which no helper of it takes") {
  LinksBench bench;
  Helper const program(bench.links->name());
  bench.my_pid = program.leader;
  CHECK(bench.links->pid(1) == 0);
  bench.say(program.connection.get(), worker::Register{3, 0, true});
  CHECK(hear(program.connection.get()).memory);
  pid_t const registered = bench.links->pid(1);
  CHECK(registered != program.leader);
  CHECK(getsid(registered) == program.leader);
  CHECK(bench.survivors == std::vector<std::uint32_t>{1});
  bench.my_pid = getpid();  // another process of the same worker
  auto const helper = bench.registered();
  CHECK(refusal(helper.get()) == "pid " + std::to_string(registered) + " is registered in its place");
  CHECK(bench.links->pid(1) == registered);
  CHECK(bench.links->resume(1, {4, {}}));
  CHECK(hear(program.connection.get()).packet);
}

TEST_CASE("worker_links: garbage ends the connection it comes on, and silence costs nobody") {
  LinksBench bench;
  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(bench.connect());
    bench.run();
  }
  char byte = 0;
  CHECK(recv(silent.front().get(), &byte, 1, MSG_DONTWAIT) == 0);  // evicted
  CHECK(recv(silent.back().get(), &byte, 1, MSG_DONTWAIT) < 0);
  std::string const parked = encode(worker::FromWorker{worker::Parked{3, "who?"}});
  for (std::string const& junk : {std::string("CXXWORK"), std::string(24, 'x'), std::string(100'000, 'z'), parked}) {
    auto const fd = bench.connect();
    bench.say(fd.get(), junk);
    CHECK(recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0);
  }
  auto const fd = bench.registered();
  CHECK(hear(fd.get()).memory);
  bench.say(fd.get(), worker::Register{3, 0, true});  // a second registration
  CHECK_FALSE(bench.links->resume(1, {4, {}}));
  CHECK(bench.parked.empty());
}

TEST_CASE("worker_links: what the agent says of a worker's rails is told to the worker, and to others of its session") {
  using wire::RailVerdict;
  wire::RailClaim const claim{wire::RailSide::caller, {.from = 7}, {}, ""};
  LinksBench bench;
  bench.right = claim;
  worker::FromAgent const answer = RailVerdict{RailVerdict::What::right, "of rank 1"};
  auto const fd = bench.connect();
  bench.say(fd.get(), claim);
  CHECK(hear(fd.get()).packet == answer);
  for (int i = 0; i < 300; ++i) {
    static_cast<void>(bench.connect());
    bench.run();
  }
  bench.say(fd.get(), claim);
  CHECK(hear(fd.get()).packet == answer);
  Helper const helper(bench.links->name());
  int const newer = helper.connection.get();
  bench.my_pid = helper.leader;
  bench.say(newer, claim);
  CHECK(hear(newer).packet == answer);
  char byte = 0;
  CHECK(recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0);  // only one for each worker
  bench.say(newer, wire::RailClaim{});
  CHECK(refusal(newer) == "not so");
  CHECK(recv(newer, &byte, 1, MSG_DONTWAIT) == 0);
}

TEST_CASE("worker_links: no proofs for who is no worker's, or on a worker's own connection") {
  LinksBench bench;
  bench.right = wire::RailClaim{};
  bench.my_pid = 0;  // what the kernel reports for a process in a pid namespace that is not below ours
  auto const stranger = bench.connect();
  bench.say(stranger.get(), wire::RailClaim{});
  CHECK(refusal(stranger.get()) == no_worker({getpid(), getsid(0), ""}));
  bench.my_pid = getpid();
  auto const worker = bench.registered();
  hear(worker.get());
  bench.say(worker.get(), wire::RailClaim{});
  CHECK_FALSE(bench.links->resume(1, {4, {}}));
}

TEST_CASE("worker_links: a worker that reads nothing is nobody to wait for") {
  LinksBench bench;
  auto const fd = bench.registered();
  worker::Resume const resume{4, {"BIG=" + std::string(60'000, 'x')}};
  int sent = 0;
  while (sent < 1000 && bench.links->resume(1, resume)) {
    ++sent;
  }
  CHECK(sent < 1000);
}

TEST_CASE("worker_links: a worker may say that others need not wait for it") {
  LinksBench bench;
  auto const fd = bench.connect();
  bench.say(fd.get(), worker::Register{3, 0, true, true});
  CHECK(bench.survivors == std::vector<std::uint32_t>{1});
  CHECK(bench.shrinking == 1);
}

TEST_CASE("worker_links: whoever asks about the job is handed on, with its connection, and is no worker") {
  LinksBench bench;
  bench.me.reset();
  auto const fd = bench.connect();
  bench.say(fd.get(), worker::Question{"status"});
  REQUIRE(bench.asked.size() == 1);
  CHECK(bench.asked[0].second == "status");
  bench.say(fd.get(), worker::Question{"status"});
  CHECK(bench.asked.size() == 1);  // the connection belongs to the owner now
  bench.asked.clear();             // closes the connection
  char byte = 0;
  CHECK(recv(fd.get(), &byte, 1, 0) <= 0);
}

TEST_CASE("worker_links: a question on the connection of a registered worker ends it") {
  LinksBench bench;
  auto const fd = bench.registered();
  hear(fd.get());
  bench.say(fd.get(), worker::Question{"status"});
  char byte = 0;
  CHECK(recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0);
  CHECK(bench.asked.empty());
}
