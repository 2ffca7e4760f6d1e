// The plugin when the double fails: delayed errors, hangs, aborts, and what remains afterwards.
#include <csignal>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_world.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using comm::Call;
using comm::Kind;

namespace {

constexpr std::chrono::milliseconds kShort{200};

Call all_reduce(PluginComm& comm, std::size_t count) {
  Call call;
  call.kind = Kind::all_reduce;
  call.type = DType::f32;
  call.count = count;
  call.in = call.out = comm.allocate(count * sizeof(float));
  return call;
}

/// Runs it until it fails; returns "NUMBER: message" with the number of successful runs.
std::string until_it_fails(PluginComm& comm, Call const& call, int most) {
  int good = 0;
  try {
    for (; good < most; ++good) {
      comm.run(call);
      comm.synchronize();
    }
  } catch (PluginError const& error) {
    return std::to_string(good) + ": " + std::to_string(error.detail()) + " " + error.what();
  }
  return "no failure";
}

/// Whether a point after everything queued is reached soon.
bool stuck(PluginComm& comm) {
  cxxrun_cuda_status status{};
  std::uint64_t point = 0;
  comm.check(comm.api().mark(comm.raw(), &point, &status), status);
  try {
    comm.until_done([&](cxxrun_cuda_status* now) { return comm.api().reached(comm.raw(), point, now); }, kShort);
    return false;
  } catch (std::runtime_error const&) {
    return true;
  }
}

}  // namespace

TEST_CASE("cuda plugin: an error of NCCL's that comes later is told by poll", "[process]") {
  auto const said =
      on_devices(2, "error=3", [](PluginComm& comm, int) { return until_it_fails(comm, all_reduce(comm, 10), 10); });
  CHECK(has(said, "3: 6 NCCL: remote process exited or there was a network error"));
}

TEST_CASE("cuda plugin: a collective that hangs ends when it is aborted, and everything else is refused", "[process]") {
  auto const said = on_devices(2, "hang=1", [](PluginComm& comm, int) -> std::string {
    auto const call = all_reduce(comm, 10);
    comm.run(call);
    comm.synchronize();
    comm.run(call);
    cxxrun_cuda_status status{};
    std::uint64_t point = 0;
    comm.check(comm.api().mark(comm.raw(), &point, &status), status);
    bool const hung = stuck(comm) && comm.api().poll(comm.raw(), &status) == CXXRUN_CUDA_OK;
    comm.api().abort(comm.raw());
    comm.until_done([&](cxxrun_cuda_status* now) { return comm.api().reached(comm.raw(), point, now); });
    auto const plain = plugin_call(call);
    auto const refused = comm.api().enqueue(comm.raw(), &plain, &status);
    return hung && refused == CXXRUN_CUDA_NCCL ? status.text : "wrong";
  });
  CHECK(said == "the communicator was aborted\nthe communicator was aborted\n");
}

TEST_CASE("cuda plugin: nothing is written to the host's memory after an abort", "[process]") {
  auto const said = on_devices(2, "hang=0", [](PluginComm& comm, int) -> std::string {
    auto const call = all_reduce(comm, 10);
    comm.run(call);
    float value = -1;
    comm.copy(&value, call.out, sizeof(value));
    cxxrun_cuda_status status{};
    std::uint64_t point = 0;
    comm.check(comm.api().mark(comm.raw(), &point, &status), status);
    comm.api().abort(comm.raw());
    comm.until_done([&](cxxrun_cuda_status* now) { return comm.api().reached(comm.raw(), point, now); });
    return value == -1 ? "" : "written";
  });
  CHECK(said == "");
}

TEST_CASE("cuda plugin: a communicator that never begins, or whose peer does not come, stays in progress",
          "[process]") {
  for (char const* const script : {"init=stuck", ""}) {
    CAPTURE(script);
    auto const said = alone(script, [](cxxrun_cuda_api const& api) -> std::string {
      try {
        PluginComm const comm(api, 0, fresh_id(), 0, 2, kShort);
      } catch (std::runtime_error const& error) {
        return error.what();
      }
      return "ready";
    });
    CHECK(said == "in progress");
  }
}

TEST_CASE("cuda plugin: an error while a communicator begins is told", "[process]") {
  auto const said = on_devices(2, "init=2", [](PluginComm&, int) { return std::string("ready"); });
  CHECK(has(said, "ncclCommInitRankConfig: unhandled system error"));
  CHECK_FALSE(has(said, "ready"));
}

TEST_CASE("cuda plugin: ranks that call in another order are noticed by all, and sum nothing", "[process]") {
  auto const said = on_devices(3, "", [](PluginComm& comm, int rank) {
    auto call = all_reduce(comm, 10);
    comm.run(call);
    comm.synchronize();
    call.count = rank == 1 ? 9 : 10;
    return until_it_fails(comm, call, 1);
  });
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(has(said, "0: 5 NCCL: invalid usage"));
  }
}

TEST_CASE("cuda plugin: a peer that is killed is an error where NCCL sees it, and a hang where it does not",
          "[process]") {
  auto const kill_one = [](std::string const& script, std::function<std::string(PluginComm&)> const& survivor) {
    return on_devices(2, script, [&](PluginComm& comm, int rank) -> std::string {
      auto const call = all_reduce(comm, 10);
      comm.run(call);
      comm.synchronize();
      if (rank == 1) {
        ::kill(::getpid(), SIGKILL);
      }
      comm.run(call);
      return survivor(comm);
    });
  };
  CHECK(has(kill_one("deaths=seen",
                     [](PluginComm& comm) {
                       try {
                         comm.synchronize();
                       } catch (PluginError const& error) {
                         return std::string(error.what());
                       }
                       return std::string("no error");
                     }),
            "NCCL: remote process exited"));
  CHECK(has(kill_one("", [](PluginComm& comm) { return std::string(stuck(comm) ? "hangs" : "goes on"); }), "hangs"));
}

TEST_CASE("cuda plugin: an abort may take its time on a thread of its own", "[process]") {
  auto const said = on_devices(2, "abort=1,hang=0", [](PluginComm& comm, int) -> std::string {
    comm.run(all_reduce(comm, 10));
    cxxrun_cuda_status status{};
    std::atomic<bool> through = false;
    std::thread aborting([&] {
      comm.api().abort(comm.raw());
      through = true;
    });
    bool const still =
        comm.api().is_device_memory(&through, &status) == 0 && !through;  // nothing more of this communicator
    aborting.join();
    return still ? "" : "wrong";
  });
  CHECK(said == "");
}

TEST_CASE("cuda plugin: a new communicator works after an aborted one, whose memory is given back", "[process]") {
  auto const again = [](std::string const& script) {
    auto const first = fresh_id();
    auto const second = fresh_id();
    auto const ends = run_ranks(2, [&](int rank) {
      ::setenv("CXXRUN_CUDA_DOUBLE", script.c_str(), 1);
      auto const& api = load_plugin(CXXRUN_CUDA_PLUGIN);
      {
        PluginComm comm(api, rank, first, rank, 2);
        comm.run(all_reduce(comm, 5000));
        comm.synchronize();
        comm.api().abort(comm.raw());
      }
      auto const freed = cxxrun_cuda_double_calls("ncclMemFree");
      PluginComm comm(api, rank, second, rank, 2);
      auto const call = all_reduce(comm, 5000);
      comm.run(call);
      comm.synchronize();
      return std::to_string(freed) + " freed";
    });
    return ends[0].said + "; " + ends[1].said;
  };
  for (char const* const script : {"", "nccl=22907", "nccl=22107"}) {
    CHECK(again(script) == "1 freed; 1 freed");
  }
}

TEST_CASE("cuda plugin: memory is a symmetric window from NCCL 2.29.7 on, and before it registered only", "[process]") {
  auto const calls = [](std::string const& script) {
    return on_devices(2, script, [](PluginComm& comm, int) {
      comm.run(all_reduce(comm, 10));
      comm.synchronize();
      comm.finalize();
      std::string all;
      for (char const* const name : {"ncclCommWindowRegister", "ncclCommWindowDeregister", "ncclCommRegister",
                                     "ncclCommDeregister", "ncclCommFinalize", "ncclCommDestroy", "ncclCommAbort"}) {
        all += std::to_string(cxxrun_cuda_double_calls(name));
      }
      return all;
    });
  };
  CHECK(calls("nccl=22907") == "1100110\n1100110\n");
  for (char const* const before : {"nccl=22107", "nccl=22703", "", "nccl=22906"}) {
    CHECK(calls(before) == "0011110\n0011110\n");
  }
}

TEST_CASE("cuda plugin: a collective in the communicator's memory can be given up when a peer is killed", "[process]") {
  for (char const* const script : {"nccl=22809", "nccl=22906", "nccl=22907"}) {
    CAPTURE(script);
    auto const said = on_devices(2, script, [](PluginComm& comm, int rank) -> std::string {
      auto const call = all_reduce(comm, 10);
      comm.run(call);
      comm.synchronize();
      if (rank == 1) {
        ::kill(::getpid(), SIGKILL);
      }
      comm.run(call);
      auto const given_up = std::async(std::launch::async, [&] { comm.api().abort(comm.raw()); });
      if (given_up.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
        std::_Exit(1);  // it waits for a kernel that nothing ends
      }
      return "free";
    });
    CHECK(has(said, "free"));
  }
}

TEST_CASE("cuda plugin: a call before the communicator is connected is refused", "[process]") {
  auto const said = alone("init=stuck", [](cxxrun_cuda_api const& api) {
    cxxrun_cuda_status status{};
    cxxrun_cuda_device_facts facts{};
    cxxrun_cuda_comm* comm = nullptr;
    auto const id = fresh_id();
    api.open_device(0, &facts, &status);
    api.comm_begin(id.data(), 0, 2, &kNoSettings, &comm, &status);
    void* memory = nullptr;
    std::string text = api.allocate(comm, 64, &memory, &status) == CXXRUN_CUDA_NCCL ? status.text : "allocated";
    api.comm_free(comm);
    return text;
  });
  CHECK(said == "it is not connected yet: poll first");
}

TEST_CASE(
    "cuda plugin: a thread that waits inside NCCL for room on the device comes out by an abort, before it is freed",
    "[process]") {
  for (char const* const script : {"hang=0,launches=2", "hang=0,launches=2,nccl=22907"}) {
    auto const said = on_devices(2, script, [](PluginComm& comm, int) -> std::string {
      auto const call = all_reduce(comm, 10);
      std::thread aborting([&] {
        eventually([] { return cxxrun_cuda_double_calls("launches kept") != 0; });
        comm.api().abort(comm.raw());
      });
      std::string text;
      try {
        for (;;) {
          comm.run(call);
        }
      } catch (PluginError const& error) {
        text = error.what();
      }
      aborting.join();
      cxxrun_cuda_status status{};
      return comm.api().drained(comm.raw(), &status) == CXXRUN_CUDA_OK ? text : "not drained";
    });
    CHECK(said == "the communicator was aborted\nthe communicator was aborted\n");
  }
}
