#include <array>
#include <csignal>
#include <pthread.h>
#include <unistd.h>

#include "src/base/os/tcp_sockets.hpp"
#include "src/runtime/client/bootstrap.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace std::chrono_literals;
using cxxrun::Errc;
using cxxrun::Store;
using cxxrun::StoreAddress;
using cxxrun::client::host_store;

namespace {

/// A port that was free a moment ago.
std::uint16_t free_port() {
  return cxxrun::os::listen_at({0, true}).value().port;
}

}  // namespace

TEST_CASE("host_store: the others may come first, and rank 0 may ask twice", "[process]") {
  StoreAddress const address{"localhost", free_port()};
  std::array<int, 2> gate{};
  REQUIRE(pipe(gate.data()) == 0);
  auto const ends = cxxrun::test::run_ranks(3, [&](int rank) -> std::string {
    char byte = 0;
    if (rank != 0) {  // nobody listens yet
      if (Store::connect(address, 1ms) || write(gate[1], &byte, 1) != 1) {
        return "too early";
      }
    } else {
      if (read(gate[0], &byte, 1) != 1 || read(gate[0], &byte, 1) != 1) {  // both have looked
        return "alone";
      }
      if (!host_store(address) || !host_store(address)) {
        return "not hosted";
      }
    }
    auto store = Store::connect(address, 60s);
    if (!store || !store->add("here", 1)) {
      return "no store";
    }
    if (rank == 0) {  // the store ends with this process
      return store->wait({"read 1", "read 2"}, 60s) && store->get("here").value() == "3" ? "yes" : "no";
    }
    return store->set("read " + std::to_string(rank), "") ? "yes" : "no";
  });
  close(gate[0]);
  close(gate[1]);

  for (auto const& end : ends) {
    CHECK(end.said == "yes");
  }
}

TEST_CASE("host_store: it is found at any address of this machine that the ranks were given", "[process]") {
  for (char const* const host : {"127.0.0.1", "127.0.0.2", "localhost"}) {
    StoreAddress const address{host, free_port()};
    auto const ends = cxxrun::test::run_ranks(1, [&](int) -> std::string {
      if (auto const hosted = host_store(address); !hosted) {
        return hosted.error().message();
      }
      auto const store = Store::connect(address, 10s);
      return store ? "found" : store.error().message();
    });
    CHECK(ends[0].said == "found");
  }
}

TEST_CASE("host_store: where no thread can be started it says so, and signals still come", "[process]") {
  auto const ends = cxxrun::test::run_ranks(1, [](int) -> std::string {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 60);  // no machine has that much
    pthread_setattr_default_np(&attributes);
    auto const hosted = cxxrun::client::host_store({"127.0.0.1", 0});
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return (hosted ? std::string("hosted") : hosted.error().context) +
           (sigismember(&blocked, SIGTERM) != 0 ? ", blocked" : ", open");
  });
  CHECK(ends[0].said == "rank 0 is to host the store, but there is no thread for it, open");
}

TEST_CASE("host_store: a taken port is named with what to change", "[process]") {
  auto const taken = cxxrun::os::listen_at({0, true}).value();
  // In a separate process: the store's thread stays, and with a thread no other test can fork under a sanitizer.
  auto const ends = cxxrun::test::run_ranks(1, [&](int) -> std::string {
    auto const hosted = host_store({"127.0.0.1", taken.port});
    return hosted ? "hosted" : (hosted.error().code == Errc::in_use ? "" : "not as in use: ") + hosted.error().context;
  });
  CHECK(ends[0].said == "rank 0 is to host the store, but port " + std::to_string(taken.port) +
                            " is taken by another program on this machine; choose another MASTER_PORT on all ranks");
}
