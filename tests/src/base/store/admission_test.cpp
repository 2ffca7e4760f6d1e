#include "src/base/store/admission.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;         // NOLINT(google-build-using-namespace)
using namespace cxxrun::store;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Kind = Owner::Kind;

namespace {

constexpr std::uint32_t kOwn = 1500;

TcpEnds ends(std::string_view caller = "10.1.2.3:40112") {
  return {*parse_end(caller), *parse_end("10.1.2.1:29500")};
}
SeenSocket seen(std::uint32_t uid = kOwn) {
  return {ends(), true, uid, 7};
}
std::string const kRefused = "store refused 10.1.2.3 port 40112: ";
std::string const kOther = kRefused + "it belongs to uid 65534, not 1500";
std::string const kNoAgent = kRefused + "no agent of this job is at that address (--store-access hosts|any)";

struct Callers {
  WaitingCallers all{kOwn};
  TimePoint now{};
  Callers() { all.add({1, ends()}, now); }
  [[nodiscard]] std::optional<CallerVerdict> found(Owner owner) { return all.on_news(OwnerFound{1, std::move(owner)}); }
};

}  // namespace

TEST_CASE("admission: a connection is ours when this very one stands, is held and belongs to the own user", "[unit]") {
  CHECK(judge(ends(), seen(), kOwn).kind == Kind::ours);
  CHECK(judge(ends(), seen(65534), kOwn) == Owner{Kind::other, 65534, ""});
  CHECK(judge(ends(), seen(0), kOwn) == Owner{Kind::other, 0, ""});
  CHECK(judge(ends(), std::nullopt, kOwn).kind == Kind::none);

  SeenSocket listener = seen();  // on the same port
  listener.ends.called = {};
  CHECK(judge(ends(), listener, kOwn).kind == Kind::none);
  SeenSocket closing = seen();
  closing.established = false;
  CHECK(judge(ends(), closing, kOwn).kind == Kind::none);
  SeenSocket orphan = seen();
  orphan.inode = 0;
  CHECK(judge(ends(), orphan, kOwn).kind == Kind::none);
}

TEST_CASE("admission: what this host alone can decide", "[unit]") {
  using Access = StoreAccess;
  Owner const ours{Kind::ours, 0, ""};
  Owner const other{Kind::other, 65534, ""};
  CHECK(decide_here(Access::any, true, ends(), {}, kOwn) == "");
  CHECK(decide_here(Access::user, true, ends(), ours, kOwn) == "");
  CHECK(decide_here(Access::user, true, ends(), other, kOwn) == kOther);
  CHECK(decide_here(Access::user, true, ends(), {}, kOwn) == std::nullopt);
  CHECK(decide_here(Access::hosts, true, ends(), {}, kOwn) == std::nullopt);
  CHECK(decide_here(Access::hosts, true, ends("127.0.0.1:9"), {}, kOwn) == std::nullopt);
  // No other host knows of our loopback addresses; and without other hosts there is none to ask.
  CHECK(decide_here(Access::user, true, ends("127.0.0.1:9"), {}, kOwn)
            ->find("no process of its host has this connection") != std::string::npos);
  CHECK(decide_here(Access::user, false, ends(), {}, kOwn) ==
        kRefused + "no other host can be asked for its owner (--store-access any)");
}

TEST_CASE("admission: the caller's host decides", "[unit]") {
  Callers callers;
  CHECK(callers.all.take_questions() == std::vector<CallerQuestion>{{1, ends()}});
  CHECK(callers.all.take_questions().empty());
  CHECK_FALSE(callers.all.on_news(HostsAsked{1, 1}));
  SECTION("ours") {
    CHECK(callers.found({Kind::ours, 0, ""}) == CallerVerdict{1, ""});
  }
  SECTION("another user's") {
    CHECK(callers.found({Kind::other, 65534, ""}) == CallerVerdict{1, kOther});
  }
  SECTION("a host that cannot tell") {
    CHECK(callers.found({Kind::unknown, 0, "no INET_DIAG"}) ==
          CallerVerdict{1, kRefused + "its host cannot tell whose it is: no INET_DIAG (--store-access hosts|any)"});
  }
  CHECK_FALSE(callers.found({Kind::ours, 0, ""}));  // the verdict was given
  CHECK_FALSE(callers.all.due());
}

TEST_CASE("admission: nobody at that address", "[unit]") {
  Callers callers;
  CHECK(callers.all.on_news(HostsAsked{1, 0}) == CallerVerdict{1, kNoAgent});
}

TEST_CASE("admission: of several hosts with one address the first that has it decides, or the last of all", "[unit]") {
  Callers callers;
  CHECK_FALSE(callers.all.on_news(HostsAsked{1, 3}));
  CHECK_FALSE(callers.found({}));
  SECTION("the second has it") {
    CHECK(callers.found({Kind::ours, 0, ""}) == CallerVerdict{1, ""});
  }
  SECTION("none has it, one knows whose it is") {
    CHECK_FALSE(callers.found({Kind::other, 65534, ""}));
    CHECK(callers.found({}) == CallerVerdict{1, kOther});
  }
}

TEST_CASE("admission: who is not judged in time is refused, and who has gone is not asked about", "[unit]") {
  Callers callers;
  callers.all.add({2, ends("10.1.2.4:1")}, callers.now + 1s);
  callers.all.add({3, ends("10.1.2.4:2")}, callers.now + 1s);
  callers.all.remove(3);
  CHECK(callers.all.take_questions().size() == 2);
  CHECK(callers.all.due() == callers.now + 2s);
  CHECK(callers.all.expire(callers.now + 1999ms).empty());
  CHECK(callers.all.expire(callers.now + 2s) ==
        std::vector<CallerVerdict>{{1, kRefused + "its host did not say whose it is within 2 s"}});
  CHECK(callers.all.due() == callers.now + 3s);
}

TEST_CASE("admission: a crowd waits outside", "[unit]") {
  WaitingCallers all;
  for (std::uint64_t id = 1; id <= WaitingCallers::kMost; ++id) {
    CHECK_FALSE(all.full());
    all.add({id, ends()}, TimePoint{});
  }
  CHECK(all.full());
  all.remove(7);
  CHECK_FALSE(all.full());
}
