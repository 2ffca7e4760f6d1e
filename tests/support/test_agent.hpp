// An agent that does what the test says, for workers that survive in place. One thread; every wait has a guard.
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/control_page.hpp"
#include "src/base/worker/futex.hpp"
#include "tests/support/comm_world.hpp"
#include "tests/support/eventually.hpp"

namespace cxxrun::test {

class TestAgent {
 public:
  struct Worker {
    os::UniqueFd connection;
    worker::ControlPage* page = nullptr;
    worker::Register me;

    /// The next packet; nothing when the worker has gone.
    std::optional<worker::FromWorker> hear(Millis guard = kGuard) {
      pollfd entry{connection.get(), POLLIN, 0};
      if (poll(&entry, 1, static_cast<int>(guard.count())) != 1) {
        throw std::runtime_error("a worker says nothing");
      }
      std::string bytes(worker::kMostBytes, '\0');
      ssize_t const n = recv(connection.get(), bytes.data(), bytes.size(), 0);
      return worker::decode_from_worker(std::string_view(bytes).substr(0, static_cast<std::size_t>(n < 0 ? 0 : n)));
    }
    worker::Parked parked() {
      auto const packet = hear();
      if (!packet || !std::holds_alternative<worker::Parked>(*packet)) {
        throw std::runtime_error("a worker is gone instead of parked");
      }
      return std::get<worker::Parked>(*packet);
    }
    void say(worker::FromAgent const& packet) const {
      if (os::send_packet(connection.get(), encode(packet)) < 0) {
        throw std::runtime_error("a worker does not listen");
      }
    }
    /// Returns when it has begun that many calls in `generation`, and the one before the last of them is done.
    void await_call(std::uint64_t generation, std::uint64_t number) const {
      if (!eventually(
              [&] { return page->generation >= generation && page->entered >= number && page->done + 1 >= number; })) {
        throw std::runtime_error("a worker does not call");
      }
    }
    void over(std::uint64_t generation) const {
      page->over.store(generation);
      ring();
    }
    void ends() const {
      page->ends.store(1);
      ring();
    }
    void ring() const {
      page->bell.fetch_add(1);
      worker::futex_wake_all(page->bell);
    }
  };

  TestAgent() : socket_(os::listen_local().value()) {}
  [[nodiscard]] std::string const& name() const { return socket_.name; }
  /// Nobody listens any more.
  void close() { socket_.fd.reset(); }

  /// The next worker, registered and not yet answered.
  Worker accept() {
    pollfd entry{socket_.fd.get(), POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(Millis(kGuard).count())) != 1) {
      throw std::runtime_error("no worker registers");
    }
    Worker worker;
    worker.connection = os::accept_same_user(socket_.fd.get());
    auto const packet = worker.hear();
    if (!packet || !std::holds_alternative<worker::Register>(*packet)) {
      throw std::runtime_error("a worker does not register");
    }
    worker.me = std::get<worker::Register>(*packet);
    return worker;
  }
  /// Sends Welcome with a page.
  static void welcome(Worker& worker) {
    int const fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(fd, sizeof(worker::ControlPage)) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
      throw std::runtime_error("no page");
    }
    void* const memory = mmap(nullptr, sizeof(worker::ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    worker.page = std::launder(reinterpret_cast<worker::ControlPage*>(memory));
    worker.page->magic.store(worker::kPageMagic);
    auto const sent = os::send_packet(worker.connection.get(), encode(worker::FromAgent(worker::Welcome{})), fd);
    ::close(fd);
    if (sent < 0) {
      throw std::runtime_error("a worker does not listen");
    }
  }
  /// `count` workers of one generation, by local rank.
  std::vector<Worker> welcome(int count) {
    std::vector<Worker> workers(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      Worker worker = accept();
      welcome(worker);
      workers.at(worker.me.local_rank) = std::move(worker);
    }
    return workers;
  }

 private:
  os::LocalSocket socket_;
};

/// What the agent sends to the worker that is rank `rank` of `world` from `generation` on; `node` as in init().
inline worker::Resume resume(ForkedStore const& store, std::uint64_t generation, int rank, std::string const& nodes) {
  std::string const node(1, nodes[static_cast<std::size_t>(rank)]);
  std::string const world = std::to_string(nodes.size());
  return {generation,
          {"RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank), "WORLD_SIZE=" + world,
           "LOCAL_WORLD_SIZE=" + world, "CXXRUN_GENERATION=" + std::to_string(generation),
           "CXXRUN_STORE_ADDR=127.0.0.1", "CXXRUN_STORE_PORT=" + std::to_string(store.address().port),
           "CXXRUN_HOST_ID=" + node, "CXXRUN_HOST=host_" + node}};
}

/// A Communicator of a fresh process that is rank `rank` of `generation`, and that survives or does not.
inline Communicator init_with_agent(TestAgent const& agent, ForkedStore const& store, int rank,
                                    std::string const& nodes, std::uint64_t generation, bool survives) {
  setenv("CXXRUN_AGENT", agent.name().c_str(), 1);
  for (std::string const& entry : resume(store, generation, rank, nodes).environment) {
    auto const equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  Communicator::Options options;
  options.survive = survives;
  options.init_timeout = options.op_timeout = kGuard;
  return Communicator::init(options);
}
inline Communicator init_surviving(TestAgent const& agent, ForkedStore const& store, int rank, std::string const& nodes,
                                   std::uint64_t generation = 1) {
  return init_with_agent(agent, store, rank, nodes, generation, true);
}

/// Calls until a peer fails; what the failure was.
template <class Body>
PeerFailure until_failure(Body const& body) {
  try {
    for (;;) {
      body();
    }
  } catch (PeerFailure const& failure) {
    return failure;
  }
}
inline PeerFailure call_until_failure(Communicator& comm) {
  return until_failure([&] { comm.barrier(); });
}

/// run_ranks() with an agent's part in the parent; when that goes wrong no rank is left behind.
inline std::vector<RankEnd> run_with_agent(int processes, std::function<std::string(int)> const& body,
                                           std::function<void(std::vector<pid_t> const&)> const& agent) {
  std::string wrong;
  auto ends = run_ranks(processes, body, [&](std::vector<pid_t> const& pids) {
    try {
      agent(pids);
    } catch (std::exception const& failure) {
      wrong = failure.what();
      for (pid_t const pid : pids) {
        kill(pid, SIGKILL);
      }
    }
  });
  INFO("the agent: " << wrong);
  for (auto const& end : ends) {
    UNSCOPED_INFO(end.status << ": " << end.said);
  }
  CHECK(wrong.empty());
  return ends;
}

}  // namespace cxxrun::test
