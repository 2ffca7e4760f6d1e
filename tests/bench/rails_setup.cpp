// rails_setup: how long the ranks of two nodes take to connect, all at once over loopback, for rails_bench.py.
//
//   rails_setup [--ranks R] [--reps N] [--prove]
//
// R ranks on each node, a rail for each pair. With --prove they ask an agent of their node, a process with the
// launcher's own WorkerLinks. Prints a JSON list of seconds: of each repetition the time of the slowest rank.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "launcher/workers/worker_links.hpp"
#include "src/base/worker/rail_prover.hpp"
#include "tests/support/rail_prover.hpp"

using namespace cxxrun;

namespace {

constexpr int kNodes = 2;

struct Options {
  int ranks = 8;
  int reps = 20;
  bool prove = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    if (word == "--prove") {
      options.prove = true;
    } else if (i + 1 < argc && (word == "--ranks" || word == "--reps")) {
      (word == "--ranks" ? options.ranks : options.reps) = std::stoi(argv[++i]);
    } else {
      throw std::invalid_argument(word);
    }
  }
  return options;
}

void fork_one(std::function<void()> const& body) {
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      body();
      _exit(0);
    } catch (std::exception const& error) {
      std::cerr << "rails_setup: " << error.what() << std::endl;
      _exit(1);
    }
  }
}

/// Proves everybody; the ranks of a node are told apart by their pids.
struct Prover final : launcher::WorkerLinksInbox {
  [[nodiscard]] std::optional<std::uint32_t> who(pid_t pid) const override { return std::optional<std::uint32_t>(pid); }
  void on_survivor(std::uint32_t /*local_rank*/, bool /*shrinks*/) override {}
  void on_parked(std::uint32_t /*local_rank*/, std::string const& /*why*/) override {}
  Result<wire::RailVerdict> prove(std::uint32_t /*local_rank*/, wire::RailClaim const& claim) override {
    auto const& mine = claim.side == wire::RailSide::caller ? claim.call : claim.answer;
    return check_rail_claim(key, {static_cast<std::uint32_t>(mine.from), mine.generation, "run", ""}, claim);
  }
  void on_question(os::UniqueFd /*connection*/, std::string const& /*question*/) override {}

  rendezvous::Key const key = test::key_of(1);
};

/// Says where, then answers for ever.
void serve_as_agent(int name_pipe) {
  boost::asio::io_context io;
  Prover prover;
  launcher::WorkerLinks const links(io, prover);
  auto const name = links.name();
  if (::write(name_pipe, name.data(), name.size()) < 0) {
    _exit(1);
  }
  ::close(name_pipe);
  io.run();
}

std::string start_agent() {
  int ends[2];
  if (::pipe(ends) != 0) {
    throw std::runtime_error("no pipe");
  }
  fork_one([&] { serve_as_agent(ends[1]); });
  ::close(ends[1]);
  std::string name(200, '\0');
  ssize_t const n = ::read(ends[0], name.data(), name.size());
  ::close(ends[0]);
  name.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return name;
}

/// What all processes see: a gate for each repetition, and what each rank took.
struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<std::int64_t> slowest_ns[1000]{};
};

void meet_others(Shared& shared, int rep, int everybody) {
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < (rep + 1) * everybody) {
    ::sched_yield();
  }
}

void run_rank(Options const& options, int node, std::vector<std::vector<host::RailListener>>& rails, Shared& shared,
              std::string const& agent) {
  for (int rep = 0; rep < options.reps; ++rep) {
    auto& listeners = rails[static_cast<std::size_t>(rep)];
    auto const config = test::rail_config(node, listeners);
    auto mine = std::move(listeners[static_cast<std::size_t>(node)]);
    mine.prover = worker::AgentProver::find(agent);
    test::NoMates mates;
    meet_others(shared, rep, kNodes * options.ranks);
    auto const began = Clock::now();
    host::Rails rail(config, std::move(mine), mates, test::patience());
    std::int64_t const took = std::chrono::nanoseconds(Clock::now() - began).count();
    auto& slowest = shared.slowest_ns[rep];
    for (auto seen = slowest.load(); seen < took && !slowest.compare_exchange_weak(seen, took);) {
    }
    test::meet(rail);
  }
}

int run(Options const& options) {
  auto* const shared = new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
      Shared;  // NOLINT(cppcoreguidelines-owning-memory): it goes with the process
  std::vector<std::string> agents(kNodes);
  if (options.prove) {
    std::generate(agents.begin(), agents.end(), start_agent);
  }
  for (int rail = 0; rail < options.ranks; ++rail) {
    std::vector<std::vector<host::RailListener>> listeners;  // by repetition
    for (int rep = 0; rep < options.reps; ++rep) {
      listeners.push_back(test::loopback_listeners(kNodes));
    }
    for (int node = 0; node < kNodes; ++node) {
      fork_one([&] { run_rank(options, node, listeners, *shared, agents[static_cast<std::size_t>(node)]); });
    }
  }
  int bad = 0;
  for (int left = kNodes * options.ranks, status = 0; left > 0 && ::wait(&status) > 0; --left) {
    bad += status != 0 ? 1 : 0;
  }
  std::string text;
  for (int rep = 1; rep < options.reps; ++rep) {  // the first one warms up
    text += (text.empty() ? "[" : ", ") + std::to_string(static_cast<double>(shared->slowest_ns[rep].load()) / 1e9);
  }
  std::cout << text << "]" << std::endl;
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (std::exception const& error) {
    std::cerr << "rails_setup: " << error.what() << std::endl;
    return 2;
  }
}
