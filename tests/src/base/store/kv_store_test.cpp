#include "src/base/store/kv_store.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::wire;
using cxxrun::store::ConnectionId;
using cxxrun::store::KvStore;
using cxxrun::store::StoreOutcome;
using namespace std::string_literals;

namespace {

const std::string stop(1, kStoreStopWaiting);
const std::string ready(1, kStoreReady);
const std::string not_ready(1, kStoreNotReady);
const std::string cancelled(1, kStoreWaitCancelled);

// A store, and short calls to it; from connection 1 by default.
struct Bench {
  KvStore kv;

  StoreOutcome plain(StoreRequest request, ConnectionId from = 1) {
    return kv.apply(from, StoreDialect::plain, std::move(request));
  }
  StoreOutcome greeted(StoreRequest request, ConnectionId from = 1) {
    return kv.apply(from, StoreDialect::greeted, std::move(request));
  }
  std::string reply(StoreRequest request, ConnectionId from = 1) { return plain(std::move(request), from).reply; }
  std::vector<ConnectionId> woken(StoreRequest request, ConnectionId from = 9) {
    return plain(std::move(request), from).woken;
  }
};

using Ids = std::vector<ConnectionId>;

}  // namespace

TEST_CASE("kv_store: SET has no reply and GET returns the last value", "[unit]") {
  Bench b;

  CHECK(b.reply(SetRequest{"k", "one"}).empty());
  CHECK(b.reply(SetRequest{"k", "two"}).empty());
  CHECK(b.reply(GetRequest{"k"}) == encode_value_reply("two"));
}

TEST_CASE("kv_store: GET of a missing key closes a plain connection and gives a greeted one nothing", "[unit]") {
  Bench b;

  CHECK(b.plain(GetRequest{"no"}).close_reason == "GET of the missing key \"no\"");
  CHECK(b.plain(GetRequest{"no"}).reply.empty());
  CHECK(b.greeted(GetRequest{"no"}).reply == encode_value_reply(""));
  CHECK(b.greeted(GetRequest{"no"}).close_reason.empty());
}

TEST_CASE("kv_store: ADD starts at zero and keeps decimal text", "[unit]") {
  Bench b;

  CHECK(b.reply(AddRequest{"n", 5}) == encode_number_reply(5));
  CHECK(b.reply(AddRequest{"n", -7}) == encode_number_reply(-2));
  CHECK(b.reply(GetRequest{"n"}) == encode_value_reply("-2"));
}

TEST_CASE("kv_store: ADD reads a number as std::stoll does and closes on anything else", "[unit]") {
  Bench b;
  b.plain(SetRequest{"n", " +12 apples"});
  b.plain(SetRequest{"bad", "apples"});
  b.plain(SetRequest{"empty", ""});
  b.plain(SetRequest{"sign", "+-3"});
  b.plain(SetRequest{"long", "99999999999999999999"});

  CHECK(b.reply(AddRequest{"n", 1}) == encode_number_reply(13));
  CHECK(b.plain(AddRequest{"bad", 1}).close_reason == "ADD to the key \"bad\", whose value is not a number");
  CHECK_FALSE(b.plain(AddRequest{"empty", 1}).close_reason.empty());
  CHECK_FALSE(b.plain(AddRequest{"sign", 1}).close_reason.empty());
  CHECK_FALSE(b.plain(AddRequest{"long", 1}).close_reason.empty());
  CHECK(b.reply(GetRequest{"bad"}) == encode_value_reply("apples"));
}

TEST_CASE("kv_store: ADD wraps around instead of failing", "[unit]") {
  Bench b;
  b.plain(AddRequest{"n", INT64_MAX});

  CHECK(b.reply(AddRequest{"n", 1}) == encode_number_reply(INT64_MIN));
}

TEST_CASE("kv_store: COMPARE_SET on a missing key stores only for an empty expectation", "[unit]") {
  Bench b;

  CHECK(b.reply(CompareSetRequest{"k", "old", "new"}) == encode_value_reply("old"));
  CHECK(b.kv.size() == 0);
  CHECK(b.reply(CompareSetRequest{"k", "", "new"}) == encode_value_reply("new"));
  CHECK(b.reply(GetRequest{"k"}) == encode_value_reply("new"));
}

TEST_CASE("kv_store: COMPARE_SET replaces only the expected value and returns what is there", "[unit]") {
  Bench b;
  b.plain(SetRequest{"k", "a"});

  CHECK(b.reply(CompareSetRequest{"k", "x", "b"}) == encode_value_reply("a"));
  CHECK(b.reply(CompareSetRequest{"k", "", "b"}) == encode_value_reply("a"));
  CHECK(b.reply(CompareSetRequest{"k", "a", "b"}) == encode_value_reply("b"));
}

TEST_CASE("kv_store: CHECK is ready only when every key exists, and for no key at all", "[unit]") {
  Bench b;
  b.plain(SetRequest{"a", ""});

  CHECK(b.reply(CheckRequest{{}}) == ready);
  CHECK(b.reply(CheckRequest{{"a"}}) == ready);
  CHECK(b.reply(CheckRequest{{"a", "b"}}) == not_ready);
}

TEST_CASE("kv_store: DELETE_KEY counts what it deleted and NUMKEYS what is left", "[unit]") {
  Bench b;
  b.plain(MultiSetRequest{{{"a", "1"}, {"b", "2"}}});

  CHECK(b.reply(NumKeysRequest{}) == encode_number_reply(2));
  CHECK(b.reply(DeleteRequest{"a"}) == encode_number_reply(1));
  CHECK(b.reply(DeleteRequest{"a"}) == encode_number_reply(0));
  CHECK(b.reply(NumKeysRequest{}) == encode_number_reply(1));
}

TEST_CASE("kv_store: APPEND creates, then concatenates, up to the longest value", "[unit]") {
  Bench b;
  b.plain(AppendRequest{"k", "ab"});
  b.plain(AppendRequest{"k", "cd"});

  CHECK(b.reply(GetRequest{"k"}) == encode_value_reply("abcd"));
  std::string const rest(kMaxStoreValueBytes - 4, 'x');
  CHECK(b.plain(AppendRequest{"k", rest}).close_reason.empty());
  CHECK(b.plain(AppendRequest{"k", "x"}).close_reason == "APPEND would make the key \"k\" longer than 67108864 bytes");
}

TEST_CASE("kv_store: MULTI_GET answers in the order asked", "[unit]") {
  Bench b;
  b.plain(MultiSetRequest{{{"a", "1"}, {"b", "2"}}});

  CHECK(b.reply(MultiGetRequest{{"b", "a"}}) == encode_value_reply("2") + encode_value_reply("1"));
  CHECK(b.greeted(MultiGetRequest{{"x", "a"}}).reply == encode_value_reply("") + encode_value_reply("1"));
  CHECK_FALSE(b.plain(MultiGetRequest{{"a", "x"}}).close_reason.empty());
}

TEST_CASE("kv_store: MULTI_GET of one big key many times is refused, not answered", "[unit]") {
  Bench b;
  b.plain(SetRequest{"k", std::string(1 << 20, 'v')});
  std::vector<Text> const keys(257, "k");

  CHECK(b.plain(MultiGetRequest{keys}).close_reason == "MULTI_GET asks for more than 268435456 bytes");
}

TEST_CASE("kv_store: PING and CANCEL_WAIT are answered whatever goes on", "[unit]") {
  Bench b;

  CHECK(b.greeted(PingRequest{77}).reply == encode_ping_reply(77));
  CHECK(b.greeted(CancelWaitRequest{}).reply == cancelled);
}

TEST_CASE("kv_store: WAIT is answered at once when all keys exist, and for no key at all", "[unit]") {
  Bench b;
  b.plain(SetRequest{"a", "1"});

  CHECK(b.reply(WaitRequest{{"a", "a"}}) == stop);
  CHECK(b.reply(WaitRequest{{}}) == stop);
  CHECK(b.kv.waiting() == 0);
}

TEST_CASE("kv_store: every request that creates a key wakes its waiters, once and in the order of asking", "[unit]") {
  StoreRequest const creation =
      GENERATE(StoreRequest(SetRequest{"k", "v"}), StoreRequest(AddRequest{"k", 1}),
               StoreRequest(CompareSetRequest{"k", "", "v"}), StoreRequest(AppendRequest{"k", "v"}),
               StoreRequest(MultiSetRequest{{{"j", "v"}, {"k", "v"}}}));
  Bench b;
  CHECK(b.reply(WaitRequest{{"k"}}, 3).empty());
  CHECK(b.reply(WaitRequest{{"k"}}, 2).empty());

  CHECK(b.woken(creation) == Ids{3, 2});
  CHECK(b.woken(creation).empty());
}

TEST_CASE("kv_store: a COMPARE_SET that stores nothing wakes nobody", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"k"}}, 2);

  CHECK(b.woken(CompareSetRequest{"k", "x", "v"}).empty());
  CHECK(b.kv.waiting() == 1);
}

TEST_CASE("kv_store: a WAIT for several keys ends with the last of them, named twice or not", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"a", "b", "a"}}, 2);

  CHECK(b.woken(SetRequest{"a", ""}).empty());
  CHECK(b.woken(SetRequest{"b", ""}) == Ids{2});
}

TEST_CASE("kv_store: a key deleted again still counts for a WAIT that saw it", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"a", "b"}}, 2);
  b.plain(SetRequest{"a", ""}, 9);
  b.plain(DeleteRequest{"a"}, 9);

  CHECK(b.woken(SetRequest{"a", ""}).empty());
  CHECK(b.woken(SetRequest{"b", ""}) == Ids{2});
}

TEST_CASE("kv_store: a new request ends the connection's abandoned WAIT without an answer", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"late"}}, 2);

  CHECK(b.reply(AddRequest{"n", 1}, 2) == encode_number_reply(1));
  CHECK(b.woken(SetRequest{"late", ""}).empty());
}

TEST_CASE("kv_store: CANCEL_WAIT ends the WAIT and says so", "[unit]") {
  Bench b;
  b.greeted(WaitRequest{{"late"}}, 2);

  CHECK(b.greeted(CancelWaitRequest{}, 2).reply == cancelled);
  CHECK(b.woken(SetRequest{"late", ""}).empty());
}

TEST_CASE("kv_store: a later WAIT replaces the earlier one of the same connection", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"a", "b"}}, 2);
  b.plain(WaitRequest{{"b"}}, 2);

  CHECK(b.woken(SetRequest{"a", ""}).empty());
  CHECK(b.woken(SetRequest{"b", ""}) == Ids{2});
}

TEST_CASE("kv_store: a connection that is gone is not woken, others on the same key are", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"a", "b"}}, 2);
  b.plain(WaitRequest{{"a"}}, 3);
  b.kv.forget(2);

  CHECK(b.woken(SetRequest{"a", ""}) == Ids{3});
  CHECK(b.kv.waiting() == 0);
}

TEST_CASE("kv_store: keys in a closing reason are short and printable", "[unit]") {
  Bench b;
  auto const reason = b.plain(GetRequest{"\n\x01"s + std::string(500, 'k')}).close_reason;

  CHECK(reason == "GET of the missing key \".." + std::string(78, 'k') + "...\"");
}

TEST_CASE("kv_store: beyond its bytes nothing more is taken, and what is deleted makes room", "[unit]") {
  Bench b;
  b.kv = KvStore(2000);
  auto const refused = [&](StoreRequest request) { return !b.plain(std::move(request), 7).close_reason.empty(); };
  std::string const value(1000, 'v');
  REQUIRE_FALSE(refused(SetRequest{"a", value}));
  CHECK(refused(SetRequest{"b", value}));
  CHECK(refused(AppendRequest{"a", value}));
  CHECK(refused(CompareSetRequest{"b", "", value}));
  CHECK(refused(MultiSetRequest{{{"b", ""}, {"c", value}}}));
  CHECK(refused(WaitRequest{{std::string(500, 'k')}}));
  CHECK(refused(QueuePushRequest{"q", value}));
  CHECK(refused(BarrierRequest{std::string(500, 'k'), 2}));
  CHECK(b.plain(SetRequest{"b", value}).close_reason == "the store would hold more than 2000 bytes");
  CHECK(b.kv.size() == 1);
  CHECK(b.kv.waiting() == 0);

  CHECK_FALSE(refused(DeleteRequest{"a"}));
  CHECK(b.kv.bytes() == 0);
  CHECK_FALSE(refused(SetRequest{"b", value}));
}

TEST_CASE("kv_store: what a WAIT costs is free again when it ends, one way or the other", "[unit]") {
  Bench b;
  b.plain(WaitRequest{{"k", "l"}}, 1);
  b.plain(WaitRequest{{"k"}}, 2);
  REQUIRE(b.kv.bytes() > 0);
  b.plain(MultiSetRequest{{{"k", "long"}, {"l", ""}}}, 3);
  b.plain(SetRequest{"k", ""}, 3);
  b.plain(AddRequest{"n", 99}, 3);
  b.plain(AddRequest{"n", 1}, 3);
  b.plain(AppendRequest{"l", "more"}, 3);
  b.plain(CompareSetRequest{"l", "more", "m"}, 3);
  b.plain(WaitRequest{{"never"}}, 4);
  b.kv.forget(4);
  for (std::string const key : {"k", "l", "n"}) {
    b.plain(DeleteRequest{key}, 3);
  }
  CHECK(b.kv.bytes() == 0);
}

TEST_CASE("kv_store: a queue gives what was pushed in order, with the length before each pop", "[unit]") {
  Bench b;
  CHECK(b.greeted(QueuePopRequest{"q"}).reply == encode_number_reply(0));
  CHECK(b.greeted(QueuePushRequest{"q", "one"}).reply.empty());
  b.greeted(QueuePushRequest{"q", ""});

  CHECK(b.greeted(QueueLenRequest{"q"}).reply == encode_number_reply(2));
  CHECK(b.greeted(QueuePopRequest{"q"}).reply == encode_number_reply(2) + encode_value_reply("one"));
  CHECK(b.greeted(QueuePopRequest{"q"}).reply == encode_number_reply(1) + encode_value_reply(""));
  CHECK(b.greeted(QueueLenRequest{"q"}).reply == encode_number_reply(0));
  CHECK(b.kv.bytes() == 0);
}

TEST_CASE("kv_store: a queue is present while it holds something, and is no key", "[unit]") {
  Bench b;
  b.greeted(QueuePushRequest{"q", "one"});

  CHECK(b.greeted(CheckRequest{{"q"}}).reply == ready);
  CHECK(b.greeted(WaitRequest{{"q"}}).reply == stop);
  CHECK(b.greeted(NumKeysRequest{}).reply == encode_number_reply(0));
  CHECK(b.greeted(GetRequest{"q"}).reply == encode_value_reply(""));
  b.greeted(QueuePopRequest{"q"});
  CHECK(b.greeted(CheckRequest{{"q"}}).reply == not_ready);
}

TEST_CASE("kv_store: a push wakes the one that has waited longest, whatever its number", "[unit]") {
  Bench b;
  b.greeted(WaitRequest{{"q", "never"}}, 4);
  b.greeted(WaitRequest{{"q"}}, 3);
  b.greeted(WaitRequest{{"q"}}, 2);

  CHECK(b.greeted(QueuePushRequest{"q", "one"}, 9).woken == Ids{3});
  b.kv.forget(2);
  CHECK(b.greeted(QueuePushRequest{"q", "two"}, 9).woken.empty());
  CHECK(b.woken(SetRequest{"never", ""}) == Ids{4});
  CHECK(b.kv.waiting() == 0);
}

TEST_CASE("kv_store: who waited for a queue and has gone, or has given up, is passed over by a push", "[unit]") {
  Bench b;
  b.greeted(WaitRequest{{"q"}}, 1);
  b.greeted(WaitRequest{{"q"}}, 2);
  b.greeted(WaitRequest{{"q"}}, 3);
  b.kv.forget(1);
  CHECK(b.greeted(CancelWaitRequest{}, 2).reply == cancelled);

  CHECK(b.greeted(QueuePushRequest{"q", ""}, 9).woken == Ids{3});
  CHECK(b.kv.waiting() == 0);
}

TEST_CASE("kv_store: a queue, a key and a barrier may have the empty name, and are three things", "[unit]") {
  Bench b;
  CHECK(b.greeted(QueueLenRequest{""}).reply == encode_number_reply(0));
  b.greeted(QueuePushRequest{"", "pushed"});
  b.greeted(SetRequest{"", "1"});

  CHECK(b.greeted(BarrierRequest{"", 2}, 2).reply == stop);
  CHECK(b.greeted(QueuePopRequest{""}).reply == encode_number_reply(1) + encode_value_reply("pushed"));
  CHECK(b.greeted(GetRequest{""}).reply == encode_value_reply("2"));
}

TEST_CASE("kv_store: a BARRIER of a negative number is open, of a huge one it waits, and a gone one is not woken",
          "[unit]") {
  Bench b;
  CHECK(b.greeted(BarrierRequest{"b", INT64_MIN}, 1).reply == stop);
  CHECK(b.greeted(BarrierRequest{"b", INT64_MAX}, 1).reply.empty());
  CHECK(b.greeted(BarrierRequest{"b", 4}, 2).reply.empty());
  b.kv.forget(2);

  CHECK(b.greeted(BarrierRequest{"b", 4}, 3).woken.empty());
  CHECK(b.kv.waiting() == 1);
}

TEST_CASE("kv_store: LIST_KEYS names each key and no queue", "[unit]") {
  Bench b;
  CHECK(b.greeted(ListKeysRequest{}).reply == encode_number_reply(0));
  b.greeted(SetRequest{"a", "1"});
  b.greeted(AddRequest{"b", 2});
  b.greeted(QueuePushRequest{"q", "one"});

  std::string const a = encode_value_reply("a");
  std::string const other = encode_value_reply("b");
  auto const reply = b.greeted(ListKeysRequest{}).reply;
  CHECK((reply == encode_number_reply(2) + a + other || reply == encode_number_reply(2) + other + a));
}

TEST_CASE("kv_store: a BARRIER ends for all when the last one comes, and stays open", "[unit]") {
  Bench b;
  CHECK(b.greeted(BarrierRequest{"b", 3}, 2).reply.empty());
  CHECK(b.greeted(BarrierRequest{"b", 3}, 1).reply.empty());
  CHECK(b.kv.waiting() == 2);

  auto const last = b.greeted(BarrierRequest{"b", 3}, 3);
  CHECK(last.reply == stop);
  CHECK(last.woken == Ids{2, 1});
  CHECK(b.kv.waiting() == 0);
  CHECK(b.greeted(GetRequest{"b"}).reply == encode_value_reply("3"));
  CHECK(b.greeted(BarrierRequest{"b", 3}, 4).reply == stop);
  CHECK(b.greeted(BarrierRequest{"empty", 0}, 4).reply == stop);
}

TEST_CASE("kv_store: who gives up a BARRIER has been counted and is not woken", "[unit]") {
  Bench b;
  b.greeted(BarrierRequest{"b", 2}, 1);

  CHECK(b.greeted(CancelWaitRequest{}, 1).reply == cancelled);
  CHECK(b.greeted(BarrierRequest{"b", 2}, 2).woken.empty());
  b.greeted(SetRequest{"b", "text"});
  CHECK(b.greeted(BarrierRequest{"b", 2}).close_reason == "BARRIER to the key \"b\", whose value is not a number");
}

TEST_CASE("kv_store: a greeted connection's WAIT goes on beside other requests, and is answered first", "[unit]") {
  Bench b;
  b.greeted(WaitRequest{{"k"}}, 2);

  CHECK(b.greeted(AddRequest{"n", 1}, 2).reply == encode_number_reply(1));
  auto const own = b.greeted(AddRequest{"k", 7}, 2);
  CHECK(own.reply == stop + encode_number_reply(7));
  CHECK(own.woken.empty());
}
