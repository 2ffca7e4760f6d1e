#include <csignal>
#include <cstdlib>
#include <sys/wait.h>

#include "src/runtime/cpu/common/fault_points.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rail.hpp"

using namespace cxxrun;
using comm::Call;
using comm::Kind;
using std::chrono::milliseconds;

namespace {

constexpr int kVictim = 2;
constexpr std::size_t kLarge = 1'000'001;

Call sum_of(std::size_t count) {
  Call call;
  call.kind = Kind::all_reduce;
  call.type = DType::f32;
  call.count = count;
  return call;
}

/// "died 12", or the message of a Failure.
std::string report(std::function<void()> const& calls) {
  static char const* const kWhy[] = {"died", "left", "timeout", "lost"};
  try {
    calls();
    return "nothing";
  } catch (PeerFailure const& error) {
    return std::string(kWhy[static_cast<int>(error.why())]) + " " + std::to_string(error.rank()) + " " + error.host();
  } catch (Failure const& error) {
    return error.error().context;
  }
}

/// Like report(), and tells the peers.
std::string report(host::Rails& rails, std::function<void()> const& calls) {
  return report([&] {
    try {
      test::meet(rails);
      calls();
    } catch (...) {
      rails.fail(std::current_exception());
      throw;
    }
  });
}

void run_collective(host::Rails& rails, int node, Kind kind, std::size_t count, milliseconds timeout) {
  static std::vector<float> data;
  data.resize(count * 6);
  auto const patience = test::patience(timeout);
  auto* const bytes = reinterpret_cast<std::byte*>(data.data());
  Call call = sum_of(count);
  call.kind = kind;
  std::size_t const nodes = 5;  // at most
  std::vector<std::byte const*> parts;
  std::vector<std::span<std::byte const>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::size_t i = 0; i < nodes; ++i) {
    parts.push_back(bytes + i * count * sizeof(float));
    receives.emplace_back(bytes + i * count * sizeof(float), count * sizeof(float));
    sends.emplace_back(bytes + static_cast<std::size_t>(node) * count * sizeof(float), count * sizeof(float));
  }
  switch (kind) {
    case Kind::all_reduce: return rails.all_reduce(call, bytes, count, patience);
    case Kind::reduce_scatter:
      return rails.reduce_scatter(call, parts, bytes + nodes * count * sizeof(float), count, patience);
    case Kind::broadcast: return rails.broadcast(call, {bytes, count * sizeof(float)}, 0, patience);
    default: return rails.exchange(call, sends, receives, patience);
  }
}

void wait_until(pid_t pid, int state) {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, state | WNOWAIT);
}

struct Deed {
  std::string how;
  std::string why;
};

std::vector<test::RankEnd> run_with_fault(Deed const& deed, std::string const& at, Kind kind, std::size_t count) {
  ::setenv("CXXRUN_FAULT",
           ("rank=" + std::to_string(test::rank_of(kVictim)) + ",call=3,at=" + at + ",do=" + deed.how).c_str(), 1);
  auto ends = test::run_rail(
      4,
      [&](int node, host::Rails& rails) {
        host::arm_faults(test::rank_of(node), std::getenv("CXXRUN_FAULT"));
        return report(rails, [&] {
          for (int i = 0; i < 4; ++i) {
            host::count_call();
            run_collective(rails, node, kind, count, milliseconds(deed.how == "stop" && i >= 2 ? 400 : 60'000));
          }
        });
      },
      [&](std::vector<pid_t> const& pids) {
        for (std::size_t i = 0; i < pids.size() && deed.how == "stop"; ++i) {
          wait_until(pids[i], i == kVictim ? WSTOPPED : WEXITED);
        }
        if (deed.how == "stop") {
          wait_until(pids[3], WEXITED);
          ::kill(pids[kVictim], SIGKILL);
        }
      });
  ::unsetenv("CXXRUN_FAULT");
  return ends;
}

}  // namespace

TEST_CASE("every survivor names the rank that dies, stops or exits in a call") {
  auto const deed = GENERATE(Deed{"kill", "died"}, Deed{"exit", "died"}, Deed{"stop", "timeout"});
  auto const kind = GENERATE(Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast);
  auto const* const at = GENERATE("rail", "rail_middle");
  std::size_t const count = GENERATE(std::size_t{1}, kLarge);
  if (deed.how == "stop" && (kind == Kind::reduce_scatter || kind == Kind::all_gather)) {
    return;  // with a stop, the wait lasts as long as the patience
  }
  CAPTURE(deed.how, static_cast<int>(kind), at, count);
  auto const ends = run_with_fault(deed, at, kind, count);
  for (std::size_t node = 0; node < ends.size(); ++node) {
    if (node != kVictim) {
      CAPTURE(node);
      CHECK(ends[node].said == deed.why + " 12 node2");
    }
  }
}

TEST_CASE("a call that a peer does not make is a Failure that names both, on every node") {
  std::size_t const count = GENERATE(std::size_t{5}, kLarge);
  int const how = GENERATE(range(0, 5));
  CAPTURE(count, how);
  auto const ends = test::run_rail(3, [&](int node, host::Rails& rails) {
    std::vector<float> data(count + 1);
    Call call = sum_of(count);
    if (node == 1) {
      call.count += how == 0 ? 1 : 0;
      call.op = how == 1 ? ReduceOp::max : call.op;
      call.wire = how == 2 ? Wire::bf16 : call.wire;
      call.kind = how == 3 ? Kind::broadcast : call.kind;
      call.scale = how == 4 ? 0.5F : call.scale;
    }
    return report(rails, [&] {
      auto* const bytes = reinterpret_cast<std::byte*>(data.data());
      if (call.kind == Kind::broadcast) {
        rails.broadcast(call, {bytes, call.count * sizeof(float)}, 0, test::patience());
      } else {
        rails.all_reduce(call, bytes, call.count, test::patience());
      }
    });
  });
  for (auto const& end : ends) {
    CHECK(end.said.find("ranks disagree") == 0);
    CHECK(end.said.find("rank 11 called") != std::string::npos);
  }
}

TEST_CASE("sizes that differ although the calls agree are a Failure") {
  auto const ends = test::run_rail(2, [&](int node, host::Rails& rails) {
    std::vector<std::byte> data(100);
    std::size_t const mine = node == 0 ? 60 : 50;
    std::vector<std::span<std::byte const>> const sends(2, {data.data(), mine});
    std::vector<std::span<std::byte>> const receives(2, {data.data(), 60});
    return report(rails, [&] {
      rails.exchange(sum_of(1), sends, receives, test::patience());
      rails.exchange(sum_of(1), sends, receives, test::patience());  // node 1 got what it expected
    });
  });
  for (auto const& end : ends) {
    CHECK(end.said == "rank 11 on node1 sends 50 bytes in all_reduce of 1 f32, sum, rank 10 expects 60");
  }
}

TEST_CASE("who may wait for a rank of its own node is waited for longer, unless it has begun the exchange") {
  host::Patience const patience{{}, {}, true, milliseconds(500)};
  host::Link link;
  link.alone = false;
  CHECK(host::grace_for(link, patience, 0) == milliseconds(500));
  CHECK(host::grace_for(link, patience, 2) == milliseconds(500));
  link.header_got = sizeof link.header_in - 1;
  CHECK(host::grace_for(link, patience, 0) == milliseconds(500));
  link.header_got = sizeof link.header_in;
  CHECK(host::grace_for(link, patience, 0) == milliseconds(0));
  CHECK(host::grace_for(link, patience, 2) == milliseconds(100));
  link = {};
  link.alone = true;
  CHECK(host::grace_for(link, patience, 0) == milliseconds(0));
}

TEST_CASE("a rank that leaves while others call is named as having left") {
  auto const ends = test::run_rail(3, [](int node, host::Rails& rails) {
    float value = 1;
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    return report(rails, [&] {
      rails.all_reduce(sum_of(1), bytes, 1, test::patience());
      if (node != 1) {
        rails.all_reduce(sum_of(1), bytes, 1, test::patience());
      }
    });
  });
  CHECK(ends[0].said == "left 11 node1");
  CHECK(ends[1].said == "nothing");
  CHECK(ends[2].said == "left 11 node1");
}

TEST_CASE("nobody fails when all leave after the same call") {
  for (int round = 0; round < 20; ++round) {
    for (auto const &end : test::run_rail(5, [](int node, host::Rails&rails) {
           return report(rails, [&] { run_collective(rails, node, Kind::barrier, 0, milliseconds(60'000)); });
         })) {
      CHECK(end.said == "nothing");
    }
  }
}

TEST_CASE("what a rank's call failed with is what its peers throw") {
  struct Case {
    std::exception_ptr thrown;
    char const* said;
  };
  auto const wrong = GENERATE(
      Case{std::make_exception_ptr(PeerFailure(PeerFailure::Why::died, 42, "node1", 7, std::chrono::microseconds(1))),
           "died 42 node1"},
      Case{std::make_exception_ptr(Failure(fail(Errc::usage, "rank 42 called something else"))),
           "rank 42 called something else"},
      Case{std::make_exception_ptr(std::bad_alloc()),
           "rank 11 on node1: the collective was interrupted: std::bad_alloc"},
      Case{std::make_exception_ptr(7), "rank 11 on node1: the collective was interrupted"});
  auto const ends = test::run_rail(3, [&](int node, host::Rails& rails) -> std::string {
    float value = 1;
    if (node == 1) {
      test::meet(rails);
    }
    if (node == 1) {
      rails.fail(wrong.thrown);
      return "";
    }
    return report(rails,
                  [&] { rails.all_reduce(sum_of(1), reinterpret_cast<std::byte*>(&value), 1, test::patience()); });
  });
  for (std::size_t const node : {0, 2}) {
    CHECK(ends[node].said == wrong.said);
  }
}
