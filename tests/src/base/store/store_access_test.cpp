// Who is admitted to a store. Other users are in tests/launcher/programs/store_program_test.py, other hosts in
// tests/jobs/store_access_test.py.
#include <condition_variable>
#include <mutex>

#include "src/base/wire/store_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/store_fixture.hpp"

using namespace cxxrun::wire;   // NOLINT(google-build-using-namespace)
using namespace cxxrun::store;  // NOLINT(google-build-using-namespace)
using cxxrun::test::RawClient;

namespace {

/// A store whose questions about callers the test answers.
struct Guarded {
  explicit Guarded(StoreAccess access)
      : server([this](std::string const& line) { note([&] { warned += line + "\n"; }); }),
        port(server
                 .open(1, {0, true},
                       {access,
                        [this](std::vector<CallerQuestion> asked) {
                          note([&] { questions.insert(questions.end(), asked.begin(), asked.end()); });
                        }})
                 .value()) {}
  template <class Change>
  void note(Change change) {
    {
      std::lock_guard const lock(mutex);
      change();
    }
    changed.notify_all();
  }
  template <class Condition>
  bool await(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::milliseconds(cxxrun::test::kGuardMs), condition);
  }
  [[nodiscard]] bool says(std::string const& text) {
    return await([&] { return warned.find(text) != std::string::npos; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string warned;
  std::vector<CallerQuestion> questions;
  StoreServer server;
  std::uint16_t port;
};

Owner const kOurs{Owner::Kind::ours, 0, ""};
std::string const kSet = encode_request(SetRequest{"k", "v"}, StoreDialect::plain);
std::string const kCount = encode_request(NumKeysRequest{}, StoreDialect::plain);

}  // namespace

TEST_CASE("store_access: this user's own connections are let in without a question", "[process]") {
  Guarded store(StoreAccess::user);
  RawClient const client(store.port);
  client.send(kCount);
  CHECK(client.receive(8) == encode_number_reply(0));
  auto other = cxxrun::Store::connect({"::1", store.port}, cxxrun::Store::Millis(cxxrun::test::kGuardMs));
  if (other) {  // a machine may lack IPv6
    CHECK(other->num_keys().value() == 0);
  }
  auto mapped = cxxrun::Store::connect({"::ffff:127.0.0.1", store.port}, cxxrun::Store::Millis(cxxrun::test::kGuardMs));
  CHECK(mapped.value().num_keys().value() == 0);
  std::lock_guard const lock(store.mutex);
  CHECK(store.questions.empty());
  CHECK(store.warned.empty());
}

TEST_CASE("store_access: what a caller says is not read before its host has answered", "[process]") {
  Guarded store(StoreAccess::hosts);
  RawClient const first(store.port);
  RawClient const second(store.port);
  first.send(kSet);
  REQUIRE(store.await([&] { return store.questions.size() == 2; }));
  auto const [id, ends] = store.questions[0];
  CHECK(ends.called.port == store.port);

  store.server.tell(1, {HostsAsked{store.questions[1].id, 1}, OwnerFound{store.questions[1].id, kOurs}});
  second.send(kCount);
  CHECK(second.receive(8) == encode_number_reply(0));
  store.server.tell(1, {HostsAsked{id, 1}, OwnerFound{id, kOurs}});
  first.send(kCount);
  CHECK(first.receive(8) == encode_number_reply(1));
}

TEST_CASE("store_access: who is refused is closed by name, and nothing of it is stored", "[process]") {
  Guarded store(StoreAccess::hosts);
  RawClient const stranger(store.port);
  stranger.send(kSet);
  REQUIRE(store.await([&] { return store.questions.size() == 1; }));
  store.server.tell(1, {HostsAsked{store.questions[0].id, 0}});
  CHECK(stranger.closed_by_server());
  CHECK(store.says("store refused 127.0.0.1 port "));
  CHECK(store.says(": no agent of this job is at that address (--store-access hosts|any)"));

  RawClient const client(store.port);
  client.send(kCount);
  REQUIRE(store.await([&] { return store.questions.size() == 2; }));
  store.server.tell(1, {HostsAsked{store.questions[1].id, 1}, OwnerFound{store.questions[1].id, kOurs}});
  CHECK(client.receive(8) == encode_number_reply(0));
}

TEST_CASE("store_access: a host that says nothing is waited for, but not for ever", "[process]") {
  Guarded store(StoreAccess::hosts);
  RawClient const client(store.port);
  CHECK(store.says("its host did not say whose it is within 2 s"));
  CHECK(client.closed_by_server());
}

TEST_CASE("store_access: beyond 512 that wait callers stay outside until others have gone", "[process]") {
  Guarded store(StoreAccess::hosts);
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (std::size_t i = 0; i <= WaitingCallers::kMost; ++i) {
    crowd.push_back(std::make_unique<RawClient>(store.port));
  }
  REQUIRE(store.await([&] { return store.questions.size() == WaitingCallers::kMost; }));
  crowd.erase(crowd.begin(), crowd.end() - 1);
  CHECK(store.await([&] { return store.questions.size() == WaitingCallers::kMost + 1; }));
}
