// Communicator: every failure is named, on every rank, and no rank waits forever.
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/runtime/comm/join_record.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("communicator: ranks that call different things all learn it, at once and ever after") {
  for (char const* const nodes : {"aaa", "aab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      std::vector<float> values(8, 1);
      std::string said;
      for (int i = 0; i < 2; ++i) {
        try {
          comm.all_reduce(values.data(), values.data(), rank == 2 ? 7 : 8, DType::f32);
          said += "no failure ";
        } catch (Failure const& failure) {
          said += failure.what();
        }
      }
      try {
        comm.start_all_reduce(values.data(), values.data(), 8, DType::f32).wait();
      } catch (Failure const& failure) {
        said += failure.what();
      }
      return said;
    });
    for (auto const& end : ends) {
      INFO(end.said);
      CHECK(end.returned());
      CHECK(has(end.said, "7 f32"));
      CHECK(end.said.size() % 3 == 0);
      CHECK(end.said.substr(0, end.said.size() / 3) == end.said.substr(end.said.size() / 3, end.said.size() / 3));
    }
  }
}

TEST_CASE("communicator: a call that is refused on one rank does not leave the others waiting") {
  for (char const* const nodes : {"aaa", "aab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      std::vector<float> values(8, 1);
      try {
        comm.broadcast(values.data(), 8, DType::f32, rank == 1 ? 3 : 0);
        comm.barrier();
      } catch (PeerFailure const& failure) {
        return "left by " + std::to_string(failure.rank());
      }
      return std::string("nothing");
    });
    CHECK(has(ends[1].said, "rank 1 on host_a: broadcast of 8 f32 from rank 3: the ranks are 0 to 2"));
    CHECK(ends[0].said == "left by 1");
    CHECK(ends[2].said == "left by 1");
  }
}

TEST_CASE("communicator: one that ends while others call makes them throw, naming who left") {
  for (char const* const nodes : {"aaa", "abc", "aab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      if (rank == 2) {
        comm.barrier();
        return std::string("gone");
      }
      try {  // the other rank's failure in the second call may reach a rank that is still in the first
        comm.barrier();
        comm.barrier();
      } catch (PeerFailure const& failure) {
        expect(failure.why() == PeerFailure::Why::left && failure.generation() == 1, failure.what());
        return std::to_string(failure.rank()) + " " + failure.host();
      }
      return std::string("nothing");
    });
    INFO(nodes);
    CHECK(ends[0].said == std::string("2 host_") + nodes[2]);
    CHECK(ends[1].said == std::string("2 host_") + nodes[2]);
    CHECK(ends[2].said == "gone");
  }
}

TEST_CASE("communicator: CXXRUN_OP_TIMEOUT bounds a call and names who is late") {
  for (char const* const nodes : {"aa", "ab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&](int rank) {
      setenv("CXXRUN_OP_TIMEOUT", "0.2", 1);
      auto comm = init(store, rank, nodes);
      comm.barrier();
      if (rank == 1) {  // until the other rank has given up
        or_throw(store.client().wait({"noticed"}));
        return std::string();
      }
      try {
        comm.barrier();
      } catch (PeerFailure const& failure) {
        or_throw(store.client().add("noticed", 1));
        return std::to_string(static_cast<int>(failure.why())) + " " + std::to_string(failure.rank());
      }
      return std::string("nothing");
    });
    CHECK(ends[0].said == "2 1");
  }
}

TEST_CASE("communicator: what is wrong with one rank's environment is told to all") {
  struct Case {
    char const* name;
    char const* value;
    char const* says;
  };
  for (Case const& wrong : {Case{"CXXRUN_OP_TIMEOUT", "soon", "CXXRUN_OP_TIMEOUT is \"soon\", not a number of seconds"},
                            Case{"CXXRUN_FAULT", "rank=1", "CXXRUN_FAULT is \"rank=1\", not like"},
                            Case{"CXXRUN_SOCKET_IFNAME", "ib9", "CXXRUN_SOCKET_IFNAME is \"ib9\", but no interface"}}) {
    for (int const broken : {0, 1}) {
      ForkedStore const store;
      auto const ends = run_ranks(3, [&](int rank) {
        if (rank == broken) {
          setenv(wrong.name, wrong.value, 1);
        }
        init(store, rank, "aab");
        return std::string("met");
      });
      for (auto const& end : ends) {
        INFO(end.said);
        CHECK(has(end.said, "exception: rank " + std::to_string(broken) + " on host_a (pid "));
        CHECK(has(end.said, wrong.says));
      }
    }
  }
}

TEST_CASE("communicator: a store that cannot be reached is named, with the rank that looks for it") {
  ForkedStore store;
  auto env = env_of(store, 1, 2);
  store.stop();
  setenv("CXXRUN_HOST", "host_a", 1);
  auto const ends = run_ranks(2, [&](int which) {
    auto mine = env;
    if (which == 1) {
      mine.store.reset();
    }
    (void)Communicator::init(mine, {.op_timeout = kGuard, .init_timeout = std::chrono::milliseconds(100)});
    return std::string("met");
  });
  INFO(ends[0].said);
  CHECK(has(ends[0].said, "exception: rank 1 on host_a (pid "));
  CHECK(has(ends[0].said, "store at 127.0.0.1 port " + std::to_string(env.store->port) + " within 100 ms"));
  CHECK(has(ends[1].said, "MASTER_ADDR and MASTER_PORT are not set"));
}

TEST_CASE("communicator: an arena that is exhausted or too large says so") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    auto comm = init(store, rank, "aa");
    auto arena = comm.arena(1024);
    expect(!arena.allocate<float>(256).empty(), "room");
    try {
      static_cast<void>(arena.allocate<float>(1));
      expect(false, "no room left");
    } catch (Failure const& failure) {
      expect(failure.error().code == Errc::usage, failure.what());
      expect(has(failure.what(), "rank " + std::to_string(rank) + " on host_a: arena exhausted"), failure.what());
    }
    comm.barrier();  // it was not a call, so nothing has ended
    try {
      static_cast<void>(comm.arena(std::size_t{1} << 46));
      expect(false, "no memory of that size");
    } catch (Failure const& failure) {
      expect(failure.error().code == Errc::io, failure.what());
    }
    return std::string();
  }));
}

TEST_CASE("communicator: a rank that is killed while the others join is named to them") {
  for (char const* const nodes : {"aaa", "aba", "abc"}) {
    ForkedStore const store;
    auto const ends = run_ranks(
        3,
        [&](int rank) {
          if (rank == 2) {  // comes when rank 1 is dead
            or_throw(store.client().wait({"killed"}));
          }
          Communicator::Options options;
          options.init_timeout = std::chrono::seconds(2);
          auto comm = init(store, rank, nodes, options);
          comm.barrier();
          return std::string("met");
        },
        [&](std::vector<pid_t> const& pids) {
          auto client = store.client();
          auto const first = comm::decode_record(client.get("cxxrun//1/0/0/first").value()).value();
          CHECK(client.wait({"cxxrun//1/0/0/" + std::to_string(first.nonce) + "/rank1"}));
          kill(pids[1], SIGKILL);
          CHECK(client.add("killed", 1));
        });
    for (int const rank : {0, 2}) {
      INFO(nodes << " rank " << rank << ": " << ends[static_cast<std::size_t>(rank)].said);
      CHECK(has(ends[static_cast<std::size_t>(rank)].said, "rank 1"));
    }
  }
}
