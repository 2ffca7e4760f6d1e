// Rails whose ranks prove their identity; this process plays strangers and relays that know everything but the key.
#include "tests/support/catch.hpp"
#include "tests/support/rail_prover.hpp"
#include "tests/support/rail_stranger.hpp"

using namespace cxxrun;
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;

namespace {

using wire::RailGreeting;
using Provers = std::function<std::unique_ptr<worker::RailProver>(int node)>;
using Listeners = std::vector<host::RailListener>;

/// For ranks that must never meet: their time is over when the event of the test has happened, in either process.
class Bell {
 public:
  Bell() { REQUIRE(::pipe(ends_) == 0); }
  void ring() const { REQUIRE(::write(ends_[1], "", 1) == 1); }
  [[nodiscard]] bool rung() const {
    pollfd entry{ends_[0], POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }

 private:
  int ends_[2]{};
};

struct UntilRung : NoMates {
  Bell const* bell = nullptr;
  [[nodiscard]] Clock::duration stopped() const override {
    return bell == nullptr || bell->rung() ? milliseconds(0) : milliseconds(60'000);
  }
};

std::unique_ptr<worker::RailProver> keyed(int node) {
  return prover_of(node);
}

/// The sum of all nodes' numbers, or the reason for the failure; rings the bell then.
std::string reduce(int node, Listeners& listeners, Provers const& provers, Bell const* bell = nullptr) {
  UntilRung mates;
  mates.bell = bell;
  auto const config = rail_config(node, listeners);
  auto mine = std::move(listeners[static_cast<std::size_t>(node)]);
  listeners.clear();
  mine.prover = provers(node);
  auto const limit = patience(bell != nullptr ? milliseconds(0) : milliseconds(60'000));
  try {
    host::Rails rails(config, std::move(mine), mates, limit);
    float value = static_cast<float>(node + 1);
    comm::Call call;
    call.kind = comm::Kind::all_reduce;
    call.type = DType::f32;
    call.count = 1;
    rails.all_reduce(call, reinterpret_cast<std::byte*>(&value), 1, limit);
    return std::to_string(static_cast<int>(value));
  } catch (Failure const& failure) {
    if (bell != nullptr) {
      bell->ring();
    }
    return failure.error().context;
  } catch (PeerFailure const& failure) {
    return failure.what();
  }
}

Listeners listeners_at(std::vector<std::string> const& hosts) {
  Listeners listeners;
  for (auto const& host : hosts) {
    listeners.push_back(host::listen_for_rails(host));
  }
  return listeners;
}

/// The greeting of a caller that claims to be the rank of node 0, to the rank of node 1.
RailGreeting pretence(wire::RailChannel channel = wire::RailChannel::data) {
  RailGreeting greeting{.channel = channel, .from = rank_of(0), .to = rank_of(1)};
  auto const config = rail_config(0, {});
  greeting.generation = config.generation;
  greeting.nonce = config.nonce;
  greeting.proves = 1;
  greeting.fresh.fill(7);
  return greeting;
}

/// Sends it over a connection to node 1 as a caller; returns the greeting that comes back.
RailGreeting say(int fd, RailGreeting& call) {
  see_ends(fd, call);
  send_all(fd, bytes_of_value(call));
  return read_greeting(fd);
}

}  // namespace

TEST_CASE("rail proofs: ranks that prove themselves meet and have the sum") {
  auto const hosts =
      GENERATE(std::vector<std::string>{"127.0.0.2", "127.0.0.3"},
               std::vector<std::string>{"127.0.0.2", "127.0.0.3", "127.0.0.4"}, std::vector<std::string>{"::1", "::1"});
  auto listeners = listeners_at(hosts);
  auto const nodes = static_cast<int>(hosts.size());
  auto const ends = run_ranks(nodes, [&](int node) { return reduce(node, listeners, keyed); });
  for (auto const& end : ends) {
    CHECK(end.said == std::to_string(nodes * (nodes + 1) / 2));
  }
}

TEST_CASE("rail proofs: a stranger who knows the nonce and comes first gets no proof and no data") {
  auto listeners = loopback_listeners(2);
  struct Stranger {
    os::UniqueFd fd;
    bool heard;  // it gets a greeting
  };
  std::vector<Stranger> strangers;
  auto const comes = [&](RailGreeting greeting, std::string const& more, bool heard = true) {
    auto fd = connect_to(listeners[1].address);
    see_ends(fd.get(), greeting);
    send_all(fd.get(), bytes_of_value(greeting) + more);
    strangers.push_back({std::move(fd), heard});
  };
  for (auto const channel : {wire::RailChannel::data, wire::RailChannel::control}) {
    auto modest = pretence(channel);
    modest.proves = 0;
    auto later = pretence(channel);
    later.version = 99;
    comes(pretence(channel), "");  // and says nothing more
    comes(pretence(channel), std::string(wire::kRailProof - 1, 'x'));
    comes(pretence(channel), std::string(wire::kRailProof, '\0'));
    comes(pretence(channel), std::string(5000, 'x'));
    comes(modest, "");
    comes(later, "");
  }
  comes(pretence(static_cast<wire::RailChannel>(7)), "");
  auto const ends = run_ranks(2, [&](int node) { return reduce(node, listeners, keyed); });
  CHECK(ends[0].said == "3");
  CHECK(ends[1].said == "3");
  for (auto const& stranger : strangers) {
    auto const heard = read_up_to(stranger.fd.get(), 2 * sizeof(RailGreeting));
    CHECK(heard.size() == sizeof(RailGreeting));
  }
}

TEST_CASE("rail proofs: no word of a stranger makes a rank give up") {
  auto listeners = loopback_listeners(2);
  std::vector<os::UniqueFd> strangers;
  for (std::size_t at = 0; at < sizeof(RailGreeting); ++at) {
    auto fd = connect_to(listeners[1].address);
    auto greeting = pretence();
    see_ends(fd.get(), greeting);
    auto words = bytes_of_value(greeting);
    words[at] = static_cast<char>(words[at] ^ 1);
    send_all(fd.get(), words + std::string(wire::kRailProof, 'x'));
    strangers.push_back(std::move(fd));
  }
  auto const ends = run_ranks(2, [&](int node) { return reduce(node, listeners, keyed); });
  CHECK(ends[0].said == "3");
  CHECK(ends[1].said == "3");
}

TEST_CASE("rail proofs: a mirror in the place of a rank is not that rank") {
  auto listeners = loopback_listeners(2);
  Impostor mirror;
  Bell const bell;
  std::size_t reflected = 0;
  auto const ends = run_ranks(
      2,
      [&](int node) {
        listeners[1].address = mirror.address();
        return node == 1 ? "" : reduce(node, listeners, keyed, &bell);
      },
      [&](auto const&) {
        mirror.serve([&](int caller) {
          auto answer = read_greeting(caller);
          std::swap(answer.from, answer.to);
          send_all(caller, bytes_of_value(answer));
          auto const proof = read_up_to(caller, wire::kRailProof);
          send_all(caller, proof);
          reflected += proof.size();
          CHECK(read_up_to(caller, 1).empty());
          bell.ring();
        });
      });
  CHECK(reflected > 0);
  CAPTURE(ends[0].said);
  CHECK(ends[0].said.find("it does not know this job's key") != std::string::npos);
}

TEST_CASE("rail proofs: a relay is known by the ends of its connections, and one that lies by the proof") {
  bool const lies = GENERATE(false, true);
  CAPTURE(lies);
  auto listeners = loopback_listeners(2);
  Impostor between;
  Bell const bell;
  std::string said_by_called;
  auto const ends = run_ranks(
      2,
      [&](int node) {
        if (node == 0) {
          listeners[1].address = between.address();
        }
        return reduce(node, listeners, keyed, &bell);
      },
      [&](auto const&) {
        auto const to = listeners[1].address;
        listeners.clear();
        between.serve([&](int caller) {
          said_by_called += relay(caller, to, lies);
          bell.ring();
        });
      });
  CHECK(said_by_called.empty());
  CAPTURE(ends[0].said, ends[1].said);
  if (lies) {
    CHECK(ends[1].said.find("; a caller was refused: it does not know this job's key") != std::string::npos);
  } else {
    CHECK(ends[0].said.find("the connection is relayed: begun at 127.0.0.1:") != std::string::npos);
    CHECK(ends[0].said.find(", seen to come from 127.0.0.1:") != std::string::npos);
  }
}

TEST_CASE("rail proofs: the first to prove itself stands, whoever has greeted before or proves itself later") {
  auto listeners = loopback_listeners(2);
  auto const early = connect_to(listeners[1].address);
  auto const late = connect_to(listeners[1].address);
  Bell const bell;
  auto const ends = run_ranks(
      2, [&](int node) { return node == 0 ? "" : reduce(node, listeners, keyed, &bell); },
      [&](auto const&) {
        auto early_call = pretence();
        auto late_call = pretence();
        auto const early_answer = say(early.get(), early_call);
        auto const late_answer = say(late.get(), late_call);
        auto const prover = prover_of(0);
        auto const proof_for = [&](RailGreeting const& call, RailGreeting const& answer, std::string theirs) {
          return prover->ask({wire::RailSide::caller, call, answer, std::move(theirs)}, [] {});
        };
        send_all(late.get(), proof_for(late_call, late_answer, "").own);
        auto const theirs = read_up_to(late.get(), wire::kRailProof);
        CHECK(proof_for(late_call, late_answer, theirs).what == wire::RailVerdict::What::right);
        send_all(early.get(), proof_for(early_call, early_answer, "").own);
        CHECK(read_up_to(early.get(), 1).empty());
        bell.ring();
      });
  CHECK(ends[1].said.find("rank 10 on node0 has not connected") != std::string::npos);  // on the other channel
}

TEST_CASE("rail proofs: of two ends of which one has no agent, or another key, neither takes the other") {
  int const without = GENERATE(0, 1);
  bool const other_key = GENERATE(false, true);
  CAPTURE(without, other_key);
  auto listeners = loopback_listeners(2);
  Bell const bell;
  auto const ends = run_ranks(2, [&](int node) {
    auto const prover = [&](int rank) -> std::unique_ptr<worker::RailProver> {
      if (rank == without && !other_key) {
        return nullptr;
      }
      auto with_key = prover_of(rank, rank == without ? 2 : 1);
      with_key->trouble = [&] { bell.ring(); };
      return with_key;
    };
    return reduce(node, listeners, prover, &bell);
  });
  auto const said = [&](int node, std::string const& words) {
    CAPTURE(ends[static_cast<std::size_t>(node)].said);
    CHECK(ends[static_cast<std::size_t>(node)].said.find(words) != std::string::npos);
  };
  if (other_key) {
    said(1, "it does not know this job's key");
    said(0, "could not connect to all nodes within 0 ms: rank 11 on node1");
  } else {
    said(without, "asks for a proof that rank " + std::to_string(10 + without) + " on node" + std::to_string(without) +
                      " belongs to the job, and no agent proves that: start all ranks with cxxrun");
    said(1 - without, "could not connect to all nodes within 0 ms");
  }
}

TEST_CASE("rail proofs: an agent that says nothing is waited for as long as the call lasts, and no longer") {
  auto listeners = loopback_listeners(2);
  Bell const bell;
  auto const ends = run_ranks(2, [&](int node) {
    auto const prover = [&](int rank) {
      auto silent = prover_of(rank);
      silent->silent = rank == 0;
      silent->trouble = [&] { bell.ring(); };
      return std::unique_ptr<worker::RailProver>(std::move(silent));
    };
    return reduce(node, listeners, prover, &bell);
  });
  CHECK(ends[0].said == "rank 10 on node0 got no answer from its agent, which is to prove it to ranks of other nodes");
  CHECK(ends[1].said.find("rank 10 on node0 has not connected") != std::string::npos);
}
