// What every survivor of a node throws when a local peer dies, stops, leaves or makes another call.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <pthread.h>
#include <set>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "cxxrun/failure.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/cpu/node/node_layout.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/shared.hpp"

namespace cxxrun {
namespace {

using comm::Call;
using comm::Kind;
using test::NodeWorld;

constexpr int kVictim = 1;
constexpr int kRanks = 3;
constexpr std::size_t kCount = 3 * host::kPieceBytes / sizeof(float) + 5;  // three windows and a bit

/// Memory shared by the test and its ranks.
struct Board {
  std::array<std::atomic<pid_t>, 256> pids{};
  std::array<std::atomic<int>, 256> thrown{};
  std::atomic<int> flag{0};
};

std::string said_by(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (PeerFailure const& failure) {
    constexpr std::array kWhys{"died", "left", "timeout", "lost"};
    return std::string(kWhys.at(static_cast<std::size_t>(failure.why()))) + " " + std::to_string(failure.rank()) +
           " on " + failure.host() + ", generation " + std::to_string(failure.generation());
  } catch (Failure const& failure) {
    return std::string("failure: ") + failure.what();
  }
}

/// Runs `body`; returns what it threw, or "". A second call on the same backend must throw the same.
template <class Body>
std::string thrown_by(host::Backend& backend, Body const& body) {
  try {
    body();
    return "";
  } catch (...) {
    auto const said = said_by(std::current_exception());
    try {
      backend.run({.kind = Kind::barrier});
      return said + ", but the next call went well";
    } catch (...) {
      auto const again = said_by(std::current_exception());
      return again == said ? said : said + ", then " + again;
    }
  }
}

/// The buffers are large enough for every kind of call.
void call_often(host::Backend& backend, Kind kind, std::size_t count, int times, int ranks = kRanks) {
  std::vector<float> in(count * static_cast<std::size_t>(ranks));
  std::vector<float> out(in.size());
  for (int i = 0; i < times; ++i) {
    backend.run({.kind = kind, .type = DType::f32, .count = count, .in = in.data(), .out = out.data()});
  }
}

struct Scene {
  Kind kind = Kind::all_reduce;
  std::string at;
  std::string how;
  std::size_t count = kCount;
};

/// Runs worlds of such nodes, all at once; in each, the victim acts in its third call. Returns each rank's result, by
/// world.
std::vector<std::vector<test::RankEnd>> play(std::vector<int> const& sizes, std::vector<Scene> const& scenes,
                                             std::chrono::milliseconds op_timeout) {
  int const ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  std::vector<NodeWorld> nodes;
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    nodes.emplace_back(sizes, false, op_timeout);
  }
  Board& board = test::shared<Board>();
  auto const ends = test::run_ranks(ranks * static_cast<int>(scenes.size()), [&](int number) {
    auto const world = static_cast<std::size_t>(number / ranks);
    int const rank = number % ranks;
    auto const& scene = scenes[world];
    setenv("CXXRUN_FAULT", ("rank=1,call=3,at=" + scene.at + ",do=" + scene.how).c_str(), 1);
    host::arm_faults(rank, std::getenv("CXXRUN_FAULT"));
    board.pids[static_cast<std::size_t>(number)] = getpid();
    auto const backend = nodes[world].join(rank);
    auto said = thrown_by(*backend, [&] { call_often(*backend, scene.kind, scene.count, 5, ranks); });
    if (scene.how == "stop" && rank != kVictim && ++board.thrown[world] == ranks - 1) {
      kill(board.pids[world * static_cast<std::size_t>(ranks) + kVictim], SIGKILL);
    }
    return said;
  });
  std::vector<std::vector<test::RankEnd>> by_world;
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    auto const first = ends.begin() + static_cast<std::ptrdiff_t>(i) * ranks;
    by_world.emplace_back(first, first + ranks);
  }
  return by_world;
}

void require_survivors_say(std::vector<int> const& sizes, std::vector<Scene> const& scenes,
                           std::chrono::milliseconds op_timeout, std::string const& what) {
  auto const worlds = play(sizes, scenes, op_timeout);
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    INFO(scenes[i].how << " at " << scenes[i].at << " of " << comm::describe({.kind = scenes[i].kind}) << " of "
                       << scenes[i].count);
    CHECK(worlds[i][kVictim].status != 0);  // the point was reached
    for (std::size_t rank = 0; rank < worlds[i].size(); ++rank) {
      if (rank != kVictim) {
        CHECK(worlds[i][rank].said == what);
      }
    }
  }
}

std::vector<Scene> scenes_of(std::string const& how) {
  std::vector<Scene> scenes;
  for (char const* const at : {"enter", "copy_in", "reduce", "meet", "copy_out", "leave"}) {
    scenes.push_back({Kind::all_reduce, at, how, kCount});
  }
  for (char const* const at : {"enter", "copy_in", "reduce", "meet", "leave"}) {
    scenes.push_back({Kind::reduce_scatter, at, how, kCount});
  }
  for (Kind const kind : {Kind::all_gather, Kind::all_to_all}) {
    for (char const* const at : {"enter", "copy_in", "meet", "copy_out", "leave"}) {
      scenes.push_back({kind, at, how, kCount});
    }
  }
  for (char const* const at : {"enter", "meet", "copy_out", "leave"}) {
    scenes.push_back({Kind::broadcast, at, how, kCount});
  }
  for (Kind const kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::all_to_all,
                          Kind::barrier}) {  // calls whose data travels in the slot
    scenes.push_back({kind, "enter", how, 3});
    scenes.push_back({kind, "leave", how, 3});
  }
  return scenes;
}

}  // namespace

TEST_CASE("a mate that is killed at any point of any call is named by every survivor") {
  require_survivors_say({kRanks}, scenes_of("kill"), std::chrono::minutes(2), "died 1 on here, generation 7");
}

TEST_CASE("a mate that exits at any point of any call is named by every survivor") {
  require_survivors_say({kRanks}, scenes_of("exit"), std::chrono::minutes(2), "died 1 on here, generation 7");
}

TEST_CASE("a mate that stops is named when the patience of the others ends") {
  std::vector<Scene> scenes;
  for (auto const& scene : scenes_of("stop")) {
    if (scene.kind == Kind::all_reduce || scene.at == "enter") {
      scenes.push_back(scene);
    }
  }
  require_survivors_say({kRanks}, scenes, std::chrono::seconds(5), "timeout 1 on here, generation 7");
}

TEST_CASE("ranks that are all stopped for longer than their patience go on when they are continued") {
  constexpr std::chrono::milliseconds kPatience{3000};
  std::vector<NodeWorld> worlds;
  worlds.emplace_back(std::vector{2}, false, kPatience);
  worlds.emplace_back(std::vector{1, 1}, false, kPatience);
  Board& board = test::shared<Board>();
  auto const ends = test::run_ranks(
      4,
      [&](int number) {
        int const rank = number % 2;
        auto const backend = worlds[static_cast<std::size_t>(number / 2)].join(rank);
        call_often(*backend, Kind::all_reduce, 1, 1, 2);
        board.flag.fetch_add(1);
        while (rank == 1 && board.flag.load() < 5) {
          usleep(100);
        }
        return thrown_by(*backend, [&] { call_often(*backend, Kind::all_reduce, kCount, 2, 2); });
      },
      [&](std::vector<pid_t> const& pids) {
        while (board.flag.load() < 4) {
          usleep(100);
        }
        usleep(50'000);  // probably enough to be in the call; if not, this tests nothing and still passes
        for (pid_t const pid : pids) {
          kill(pid, SIGSTOP);
        }
        std::this_thread::sleep_for(kPatience + std::chrono::milliseconds(200));
        for (std::size_t const first : {0, 2}) {
          kill(pids[first], SIGCONT);
        }
        usleep(50'000);  // until the waiting ranks have timed out
        board.flag.fetch_add(1);
        for (pid_t const pid : pids) {
          kill(pid, SIGCONT);
        }
      });
  for (auto const& end : ends) {
    CHECK(end.said == "");
    CHECK(end.status == 0);
  }
}

TEST_CASE("a death and a stop between nodes are named by every survivor of all nodes") {
  std::vector<Scene> scenes;
  for (Kind const kind :
       {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::all_to_all}) {
    for (char const* const at : {"enter", "rail", "rail_middle", "meet", "leave"}) {
      scenes.push_back({kind, at, "kill", kCount});
    }
  }
  scenes.push_back({Kind::all_reduce, "enter", "kill", 3});
  scenes.push_back({Kind::barrier, "enter", "kill", 0});
  require_survivors_say({2, 2}, scenes, std::chrono::minutes(2), "died 1 on node0, generation 7");
  require_survivors_say({1, 1, 1}, scenes, std::chrono::minutes(2), "died 1 on node1, generation 7");
  scenes = {{Kind::all_reduce, "rail", "stop", kCount}, {Kind::all_reduce, "enter", "stop", 3}};
  require_survivors_say({2, 2}, scenes, std::chrono::seconds(6), "timeout 1 on node0, generation 7");
}

TEST_CASE("a mate that hangs at the end of the last call is named, and not a rank of another node that is done") {
  NodeWorld node({2, 1}, false, std::chrono::milliseconds(1500));
  Board& board = test::shared<Board>();
  auto const ends = test::run_ranks(
      3,
      [&](int rank) {
        host::arm_faults(rank, "rank=1,call=1,at=meet,do=stop");
        auto const backend = node.join(rank);
        float value = 4;
        Call const call{
            .kind = Kind::broadcast, .type = DType::f32, .root = 2, .count = 1, .in = &value, .out = &value};
        auto said = thrown_by(*backend, [&] { backend->run(call); });
        board.flag += rank == 0 ? 1 : 0;
        return said;  // the root sends its farewell here
      },
      [&](std::vector<pid_t> const& pids) {
        while (board.flag == 0) {
          usleep(100);
        }
        kill(pids[1], SIGKILL);
      });
  CHECK(ends[0].said == "timeout 1 on node0, generation 7");
  CHECK(ends[2].said == "");
}

TEST_CASE("calls that differ between nodes fail on every rank") {
  std::vector<float> data(200'000);
  Call const call{.kind = Kind::all_reduce, .type = DType::f32, .count = 100, .in = data.data(), .out = data.data()};
  std::vector<Call> others(4, call);
  others[0].count = 200'000;
  others[1].type = DType::i32;
  others[2].kind = Kind::barrier;
  others[3].kind = Kind::broadcast;
  for (auto const& other : others) {
    NodeWorld node({2, 2});
    for (auto const& end : test::run_ranks(4, [&](int rank) {
           auto const backend = node.join(rank);
           return thrown_by(*backend, [&] { backend->run(rank >= 2 ? other : call); });
         })) {
      CHECK(end.said.find("failure: ranks disagree about the ") == 0);
    }
  }
}

TEST_CASE("a death while nobody waits is thrown by the next call") {
  NodeWorld node({3});
  Board& board = test::shared<Board>();
  auto const ends = test::run_ranks(
      3,
      [&](int rank) {
        auto const backend = node.join(rank);
        board.flag.fetch_add(1);
        if (rank == 2) {
          pause();
        }
        while (board.flag.load() < 4) {
          usleep(100);
        }
        return thrown_by(*backend, [&] { call_often(*backend, Kind::all_reduce, 1, 1); });
      },
      [&](std::vector<pid_t> const& pids) {
        while (board.flag.load() < 3) {
          usleep(100);
        }
        kill(pids[2], SIGKILL);
        board.flag.fetch_add(1);
      });
  CHECK(ends[0].said == "died 2 on here, generation 7");
  CHECK(ends[1].said == "died 2 on here, generation 7");
}

TEST_CASE("of two deaths all survivors name the same") {
  for (int round = 0; round < 10; ++round) {
    NodeWorld node({5});
    Board& board = test::shared<Board>();
    auto const ends = test::run_ranks(
        5,
        [&](int rank) {
          auto const backend = node.join(rank);
          board.flag.fetch_add(1);
          return thrown_by(*backend, [&] { call_often(*backend, Kind::all_reduce, 100'000, 1'000'000, 1); });
        },
        [&](std::vector<pid_t> const& pids) {
          while (board.flag.load() < 5) {
            usleep(100);
          }
          kill(pids[3], SIGKILL);
          kill(pids[1], SIGKILL);
        });
    std::set<std::string> const said{ends[0].said, ends[2].said, ends[4].said};
    CHECK(said.size() == 1);
    CHECK((said.count("died 1 on here, generation 7") + said.count("died 3 on here, generation 7")) == 1);
  }
}

TEST_CASE("a rank that leaves while the others call is named; one that leaves after the last call is not missed") {
  NodeWorld node({3});
  auto const ends = test::run_ranks(3, [&](int rank) {
    auto backend = node.join(rank);
    call_often(*backend, Kind::all_reduce, 10, 20);
    backend->run({.kind = Kind::barrier});
    if (rank == 1) {
      backend.reset();
      return std::string();
    }
    return thrown_by(*backend, [&] { backend->run({.kind = Kind::barrier}); });
  });
  CHECK(ends[0].said == "left 1 on here, generation 7");
  CHECK(ends[1].said == "");
  CHECK(ends[2].said == "left 1 on here, generation 7");
}

TEST_CASE("calls that differ fail alike on every rank") {
  std::vector<float> data(200'000);
  Call const call{.kind = Kind::all_reduce, .type = DType::f32, .count = 100, .in = data.data(), .out = data.data()};
  std::vector<std::pair<Call, std::string>> cases(6, {call, ""});
  cases[0].first.count = 200'000;
  cases[0].second =
      "ranks disagree about the count: rank 0 called all_reduce of 100 f32, sum; "
      "rank 2 called all_reduce of 200000 f32, sum";
  cases[1].first.type = DType::i32;
  cases[1].second =
      "ranks disagree about the type: rank 0 called all_reduce of 100 f32, sum; "
      "rank 2 called all_reduce of 100 i32, sum";
  cases[2].first.op = ReduceOp::max;
  cases[2].second =
      "ranks disagree about how to reduce: rank 0 called all_reduce of 100 f32, sum; "
      "rank 2 called all_reduce of 100 f32, max";
  cases[3].first.kind = Kind::broadcast;
  cases[3].second =
      "ranks disagree about the operation: rank 0 called all_reduce of 100 f32, sum; "
      "rank 2 called broadcast of 100 f32 from rank 0";
  cases[4].first.kind = Kind::barrier;
  cases[4].second =
      "ranks disagree about the operation: rank 0 called all_reduce of 100 f32, sum; rank 2 called barrier";
  cases[5].first.scale = 0.5F;
  cases[5].second =
      "ranks disagree about the scale: rank 0 called all_reduce of 100 f32, sum; "
      "rank 2 called all_reduce of 100 f32, sum, scale 0.5";
  for (auto const& [other, what] : cases) {
    NodeWorld node({4});
    for (auto const& end : test::run_ranks(4, [&, &other = other](int rank) {
           auto const backend = node.join(rank);
           return thrown_by(*backend, [&] { backend->run(rank == 2 ? other : call); });
         })) {
      CHECK(end.said == "failure: " + what);
    }
  }
}

TEST_CASE("an arena that differs or that no machine has fails alike on every rank") {
  for (bool const huge : {false, true}) {
    NodeWorld node({2});
    for (auto const& end : test::run_ranks(2, [&](int rank) {
           auto const backend = node.join(rank);
           return thrown_by(*backend, [&] {
             std::ignore = backend->allocate(huge ? std::size_t{1} << 60 : static_cast<std::size_t>(rank + 1));
           });
         })) {
      CHECK(end.said == (huge ? "failure: rank 0 on here cannot share an arena of 1152921504606846976 bytes; ask for "
                                "less: Cannot allocate memory"
                              : "failure: ranks disagree about the size: rank 0 called arena of 1 bytes; rank 1 "
                                "called arena of 2 bytes"));
    }
  }
}

TEST_CASE("a limit of file sizes is refused, and kills nobody") {
  for (bool const at_once : {true, false}) {
    NodeWorld node({2});
    for (auto const& end : test::run_ranks(2, [&](int rank) {
           constexpr rlim_t kMost = rlim_t{32} << 20;
           rlimit const limit{at_once ? 4096 : kMost, RLIM_INFINITY};
           setrlimit(RLIMIT_FSIZE, &limit);
           try {
             auto const backend = node.join(rank);
             return thrown_by(*backend, [&] { std::ignore = backend->allocate(kMost / 2); });
           } catch (...) {
             return "join " + said_by(std::current_exception());
           }
         })) {
      CHECK(end.status == 0);
      if (at_once) {
        CHECK(end.said.find(" on here cannot map the memory that the ranks of this node share; raise the limit of file "
                            "sizes (ulimit -f): File too large") != std::string::npos);
      } else {
        CHECK(end.said ==
              "failure: rank 0 on here cannot share an arena of 16777216 bytes; ask for less, or raise the "
              "limit of file sizes (ulimit -f): File too large");
      }
    }
  }
}

TEST_CASE("a rank that can have no thread tells its mates, who do not wait for it") {
  NodeWorld node({3});
  auto const ends = test::run_ranks(3, [&](int rank) {
    if (rank == kVictim) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      pthread_attr_setstacksize(&attributes, std::size_t{1} << 50);  // no address space has that
      pthread_setattr_default_np(&attributes);
    }
    try {
      auto const backend = node.join(rank);
      return std::string("in");
    } catch (...) {
      return said_by(std::current_exception());
    }
  });
  for (auto const& end : ends) {
    CHECK(end.said.find("failure: rank 1 on here: the collective was interrupted: ") == 0);
  }
}

TEST_CASE("two processes that are one rank, and strangers, are turned away") {
  NodeWorld node({2});
  auto const ends = test::run_ranks(3, [&](int number) {
    try {
      auto const backend = node.join(number % 2);
      backend->run({.kind = Kind::barrier});
      return std::string("in");
    } catch (Failure const& failure) {
      return std::string(failure.what());
    }
  });
  int in = 0;
  int refused = 0;
  for (auto const& end : ends) {
    in += end.said == "in" ? 1 : 0;
    refused += end.said.find("two processes are rank 0: pids ") == 0 ? 1 : 0;
  }
  CHECK(in == 2);
  CHECK(refused == 1);
}

}  // namespace cxxrun
