#include "src/runtime/client/engine.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::Failure;
using cxxrun::PeerFailure;
using cxxrun::client::Engine;
using cxxrun::comm::Call;

namespace {

// Records the counts of its calls, and does what the test asks for.
class FakeBackend final : public cxxrun::host::Backend {
 public:
  struct Seen {
    std::mutex mutex;
    std::vector<std::size_t> counts;
    std::vector<std::thread::id> threads;
    std::atomic<int> left{0};
    std::atomic<bool> gone{false};
    std::function<void(std::size_t)> act = [](std::size_t) {};
  };
  explicit FakeBackend(Seen& seen) : seen_(seen) {}
  FakeBackend(FakeBackend const&) = delete;
  FakeBackend& operator=(FakeBackend const&) = delete;
  ~FakeBackend() override { seen_.gone = true; }

  void run(Call const& call) override {
    {
      std::lock_guard const lock(seen_.mutex);
      seen_.counts.push_back(call.count);
      seen_.threads.push_back(std::this_thread::get_id());
    }
    seen_.act(call.count);
  }
  std::byte* allocate(std::size_t bytes) override {
    seen_.act(bytes);
    return nullptr;
  }
  [[nodiscard]] std::string describe() const override { return "fake"; }
  void leave() noexcept override { ++seen_.left; }

 private:
  Seen& seen_;
};

Call numbered(std::size_t number) {
  return {.count = number};
}

// Closed until open() is called.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    std::lock_guard const lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

[[noreturn]] void fail_peer() {
  throw PeerFailure(PeerFailure::Why::died, 3, "node2", 7, std::chrono::microseconds(5));
}

}  // namespace

TEST_CASE("engine: a blocking call with nothing before it runs on the thread that makes it") {
  FakeBackend::Seen seen;
  Engine engine(std::make_unique<FakeBackend>(seen));
  engine.run(numbered(1));
  CHECK(seen.threads == std::vector{std::this_thread::get_id()});
}

TEST_CASE("engine: calls are carried out in the order in which they were made, whichever way") {
  FakeBackend::Seen seen;
  Engine engine(std::make_unique<FakeBackend>(seen));
  std::vector<std::size_t> expected;
  std::uint64_t last = 0;
  for (std::size_t i = 1; i <= 2000; ++i) {  // several times round the ring
    expected.push_back(i);
    if (i % 97 == 0) {
      engine.run(numbered(i));
      CHECK(engine.done(last));
    } else {
      last = engine.submit(numbered(i));
    }
  }
  engine.wait(last);
  CHECK(seen.counts == expected);
}

TEST_CASE("engine: what is submitted runs on one thread of its own, and wait() is for that call only") {
  FakeBackend::Seen seen;
  Gate second;
  seen.act = [&](std::size_t count) {
    if (count == 2) {
      second.pass();
    }
  };
  Engine engine(std::make_unique<FakeBackend>(seen));
  auto const first = engine.submit(numbered(1));
  auto const other = engine.submit(numbered(2));
  engine.wait(first);
  CHECK(engine.done(first));
  CHECK_FALSE(engine.done(other));
  second.open();
  engine.wait(other);
  CHECK(seen.threads[0] == seen.threads[1]);
  CHECK(seen.threads[0] != std::this_thread::get_id());
}

TEST_CASE("engine: a wait with a limit says whether the call is done, and throws what it failed with") {
  FakeBackend::Seen seen;
  Gate gate;
  seen.act = [&](std::size_t count) {
    gate.pass();
    if (count == 2) {
      fail_peer();
    }
  };
  Engine engine(std::make_unique<FakeBackend>(seen));
  auto const good = engine.submit(numbered(1));
  auto const bad = engine.submit(numbered(2));
  CHECK_FALSE(engine.wait_for(good, cxxrun::Millis{0}));
  CHECK_FALSE(engine.wait_for(good, cxxrun::Millis{5}));
  std::thread opener([&] { gate.open(); });
  CHECK(engine.wait_for(good, cxxrun::kForever));
  opener.join();
  CHECK_THROWS_AS(static_cast<void>(engine.wait_for(bad, cxxrun::kForever)), PeerFailure);
  CHECK(engine.wait_for(good, cxxrun::Millis{0}));
  CHECK_THROWS_AS(static_cast<void>(engine.wait_for(bad, cxxrun::Millis{0})), PeerFailure);
}

TEST_CASE("engine: the first failure is thrown by its call and by all that come after it, not by those before") {
  FakeBackend::Seen seen;
  Gate gate;
  seen.act = [&](std::size_t count) {
    gate.pass();
    if (count == 2) {
      fail_peer();
    }
  };
  Engine engine(std::make_unique<FakeBackend>(seen));
  auto const good = engine.submit(numbered(1));
  auto const bad = engine.submit(numbered(2));
  auto const after = engine.submit(numbered(3));
  gate.open();
  CHECK_NOTHROW(engine.wait(good));
  CHECK_THROWS_AS(engine.wait(bad), PeerFailure);
  CHECK_THROWS_AS(engine.wait(after), PeerFailure);
  CHECK(engine.done(after));
  CHECK_THROWS_AS(engine.run(numbered(4)), PeerFailure);
  CHECK_THROWS_AS(static_cast<void>(engine.submit(numbered(5))), PeerFailure);
  CHECK_THROWS_AS(static_cast<void>(engine.allocate(6)), PeerFailure);
  CHECK_NOTHROW(engine.wait(good));
  CHECK(seen.counts == std::vector<std::size_t>{1, 2});
  try {
    engine.run(numbered(7));
  } catch (PeerFailure const& failure) {
    CHECK(failure.rank() == 3);
    CHECK(failure.host() == "node2");
    CHECK(failure.after() == std::chrono::microseconds(5));
  }
}

TEST_CASE("engine: a failure of a blocking call or of allocate() is kept too, of whatever type") {
  FakeBackend::Seen seen;
  seen.act = [](std::size_t) { throw std::bad_alloc(); };
  Engine engine(std::make_unique<FakeBackend>(seen));
  SECTION("run") {
    CHECK_THROWS_AS(engine.run(numbered(1)), std::bad_alloc);
  }
  SECTION("allocate") {
    CHECK_THROWS_AS(static_cast<void>(engine.allocate(1)), std::bad_alloc);
  }
  seen.act = [](std::size_t) {};
  CHECK_THROWS_AS(engine.run(numbered(2)), std::bad_alloc);
}

TEST_CASE("engine: a refusal ends it, and the peers are left once") {
  FakeBackend::Seen seen;
  {
    Engine engine(std::make_unique<FakeBackend>(seen));
    auto const before = engine.submit(numbered(1));
    engine.refuse(Failure(fail(Errc::usage, "no")));
    CHECK_NOTHROW(engine.wait(before));
    CHECK_THROWS_AS(engine.run(numbered(2)), Failure);
    CHECK(seen.left == 0);
    engine.leave();
    CHECK(seen.left == 1);
  }
  CHECK(seen.left == 1);
}

TEST_CASE("engine: closing finishes what was submitted, leaves, and keeps the backend for whoever holds memory of it") {
  FakeBackend::Seen seen;
  auto engine = std::make_shared<Engine>(std::make_unique<FakeBackend>(seen));
  std::uint64_t last = 0;
  for (std::size_t i = 1; i <= 100; ++i) {
    last = engine->submit(numbered(i));
  }
  engine->close();
  CHECK(seen.counts.size() == 100);
  CHECK(engine->done(last));
  CHECK(seen.left == 1);
  CHECK_FALSE(seen.gone);
  engine.reset();
  CHECK(seen.gone);
}

TEST_CASE("engine: any number of threads wait for any call") {
  FakeBackend::Seen seen;
  Engine engine(std::make_unique<FakeBackend>(seen));
  std::vector<std::thread> waiters;
  for (std::size_t i = 1; i <= 200; ++i) {
    auto const ticket = engine.submit(numbered(i));
    if (i % 20 == 0) {
      waiters.emplace_back([&engine, ticket] { engine.wait(ticket); });
    }
  }
  for (auto& waiter : waiters) {
    waiter.join();
  }
  engine.run(numbered(201));
  CHECK(seen.counts.size() == 201);
}

TEST_CASE("engine: a failure reaches every waiting thread") {
  FakeBackend::Seen seen;
  Gate gate;
  seen.act = [&](std::size_t) {
    gate.pass();
    fail_peer();
  };
  Engine engine(std::make_unique<FakeBackend>(seen));
  auto const ticket = engine.submit(numbered(1));
  std::atomic<int> thrown{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      try {
        engine.wait(ticket);
      } catch (PeerFailure const& failure) {
        thrown += failure.what()[0] != '\0' ? 1 : 0;
      }
    });
  }
  gate.open();
  for (auto& waiter : waiters) {
    waiter.join();
  }
  CHECK(thrown == 4);
}
