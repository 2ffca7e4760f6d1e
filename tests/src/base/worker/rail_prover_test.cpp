// AgentProver: what a rank gets when it asks its agent for a proof, and what it does without an answer.
#include "src/base/worker/rail_prover.hpp"

#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "cxxrun/failure.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;          // NOLINT(google-build-using-namespace)
using namespace cxxrun::worker;  // NOLINT(google-build-using-namespace)
using wire::RailVerdict;

namespace {

wire::RailClaim const kClaim{wire::RailSide::called, {.from = 3}, {.from = 7}, "sixteen bytes it"};
RailVerdict const kRight{RailVerdict::What::right, "its own 16 bytes"};

/// Aborts instead of a Catch check, because the agent's thread calls it, too.
void wait_for(int fd) {
  pollfd entry{fd, POLLIN, 0};
  if (::poll(&entry, 1, 20'000) != 1) {
    std::abort();
  }
}

struct Agent {
  os::LocalSocket socket = os::listen_local().value();
  std::optional<FromWorker> heard;

  os::UniqueFd accept() {
    for (;;) {
      wait_for(socket.fd.get());
      auto connection = os::accept_same_user(socket.fd.get());
      wait_for(connection.get());
      char byte = 0;
      if (::recv(connection.get(), &byte, 1, MSG_PEEK) > 0) {  // otherwise find() only checked that we listen
        return connection;
      }
    }
  }
  void answer(int connection, std::string const& bytes) {
    wait_for(connection);
    std::string question(kMostBytes, '\0');
    ssize_t const n = ::recv(connection, question.data(), question.size(), 0);
    heard = decode_from_worker(std::string_view(question).substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0))));
    os::send_packet(connection, bytes);
  }
};

std::string failure_of(
    AgentProver& prover, std::function<void()> const& meanwhile = [] {}) {
  try {
    static_cast<void>(prover.ask(kClaim, meanwhile));
  } catch (Failure const& failure) {
    return failure.error().context;
  }
  return "nothing";
}

}  // namespace

TEST_CASE("agent prover: there is none without a name, or where nobody listens") {
  CHECK(AgentProver::find("") == nullptr);
  CHECK(AgentProver::find("/nowhere/at/all") == nullptr);
  Agent agent;
  CHECK(AgentProver::find(agent.socket.name) != nullptr);
}

TEST_CASE("agent prover: question after question is answered, on a new connection when the agent hangs up") {
  Agent agent;
  auto const prover = AgentProver::find(agent.socket.name);
  std::thread other([&] {
    auto first = agent.accept();
    agent.answer(first.get(), encode(FromAgent(kRight)));
    agent.answer(first.get(), encode(FromAgent(RailVerdict{})));
    first.reset();
    auto const second = agent.accept();
    agent.answer(second.get(), encode(FromAgent(kRight)));
  });
  CHECK(prover->ask(kClaim, [] {}) == kRight);
  CHECK(prover->ask(kClaim, [] {}) == RailVerdict{});
  CHECK(prover->ask(kClaim, [] {}) == kRight);
  other.join();
  CHECK(agent.heard == FromWorker(kClaim));
}

TEST_CASE("agent prover: a refusal is told, nonsense is named, and an agent that has gone, too") {
  std::string const begin = "no proof for the ranks of other nodes that this one belongs to the job: ";
  Agent agent;
  auto const prover = AgentProver::find(agent.socket.name);
  std::thread other([&] {
    auto const connection = agent.accept();
    agent.answer(connection.get(), encode(FromAgent(No{"why not"})));
    agent.answer(connection.get(), encode(FromAgent(Resume{})));
    agent.answer(connection.get(), "nonsense");
    agent.socket.fd.reset();
  });
  CHECK(failure_of(*prover) == begin + "why not");
  CHECK(failure_of(*prover) == begin + "the agent's answer is not from this version of cxxrun");
  CHECK(failure_of(*prover) == begin + "the agent's answer is not from this version of cxxrun");
  other.join();
  CHECK(failure_of(*prover).find(begin + "the agent is gone: cannot connect") == 0);
}

TEST_CASE("agent prover: the wait for an agent that says nothing ends when its asker says so") {
  Agent agent;
  auto const prover = AgentProver::find(agent.socket.name);
  int looks = 0;
  auto const why = failure_of(*prover, [&] {
    if (++looks == 20) {
      throw Failure(fail(Errc::timeout, "time is over"));
    }
  });
  CHECK(why == "time is over");
}
