#include "src/base/wire/store_protocol.hpp"

#include <cstring>

#include "tests/support/catch.hpp"

using namespace cxxrun::wire;
using Status = StoreDecoder::Status;
using namespace std::string_literals;

namespace {

std::string u64(std::uint64_t n) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out;
}

std::string text(std::string const& s) {
  return u64(s.size()) + s;
}

// A request points into the bytes that it was decoded from; these are bytes that outlive them.
std::string kept(StoreRequest const& request) {
  return encode_request(request, StoreDialect::greeted);
}

struct Decoded {
  std::vector<std::string> requests;
  std::string error;
  bool operator==(Decoded const&) const = default;
};

// Feeds `bytes` in pieces of `piece` bytes to one decoder.
Decoded decode(std::string_view bytes, std::size_t piece) {
  StoreDecoder decoder;
  Decoded out;
  while (!bytes.empty()) {
    std::string_view input = bytes.substr(0, piece);
    bytes.remove_prefix(input.size());
    StoreRequest request;
    Status status{};
    while ((status = decoder.next(input, request)) == Status::request) {
      out.requests.push_back(kept(request));
    }
    if (status == Status::broken) {
      out.error = decoder.error();
      return out;
    }
  }
  return out;
}

std::vector<StoreRequest> one_of_each() {
  return {SetRequest{"k", "v"},
          CompareSetRequest{"k", "", "a longer value than fits anywhere"},
          GetRequest{"k"},
          AddRequest{"n", -7},
          CheckRequest{{}},
          CheckRequest{{"a", "b"}},
          WaitRequest{{"a", "", "c"}},
          NumKeysRequest{},
          DeleteRequest{"k"},
          AppendRequest{"k", std::string_view("\0more", 5)},
          MultiGetRequest{{"a", "b"}},
          MultiSetRequest{{{"a", "1"}, {"b", ""}}},
          CancelWaitRequest{},
          SetRequest{"", ""}};
}

// Reads one request from the whole of `bytes`, which must be one request and no more.
std::string only_request(std::string const& bytes) {
  Decoded const out = decode(bytes, bytes.size());
  REQUIRE(out.error.empty());
  REQUIRE(out.requests.size() == 1);
  return out.requests[0];
}

std::string error_of(std::string const& bytes) {
  return decode(bytes, 1).error;
}

}  // namespace

TEST_CASE("store_protocol: plain opcodes are the ones torch 1.13 was seen to send", "[unit]") {
  CHECK(only_request("\x00"s + text("/k") + text("v")) == kept(SetRequest{"/k", "v"}));
  CHECK(only_request("\x01"s + text("/x") + text("") + text("a")) == kept(CompareSetRequest{"/x", "", "a"}));
  CHECK(only_request("\x02"s + text("/k")) == kept(GetRequest{"/k"}));
  CHECK(only_request("\x03"s + text("/n") + u64(5)) == kept(AddRequest{"/n", 5}));
  CHECK(only_request("\x04"s + u64(1) + text("/k")) == kept(CheckRequest{{"/k"}}));
  CHECK(only_request("\x05"s + u64(2) + text("/k") + text("/zz")) == kept(WaitRequest{{"/k", "/zz"}}));
  CHECK(only_request("\x06"s) == kept(NumKeysRequest{}));
  CHECK(only_request("\x08"s + text("/k")) == kept(DeleteRequest{"/k"}));
}

TEST_CASE("store_protocol: greeted opcodes are one higher up to NUMKEYS and the same from DELETE on", "[unit]") {
  std::string const hello = encode_greeting();

  CHECK(hello == "\x00\xCE\xF7\x85\x3C"s);
  CHECK(only_request(hello + "\x01"s + text("/k") + text("v")) == kept(SetRequest{"/k", "v"}));
  CHECK(only_request(hello + "\x02"s + text("/x") + text("e") + text("d")) == kept(CompareSetRequest{"/x", "e", "d"}));
  CHECK(only_request(hello + "\x03"s + text("/k")) == kept(GetRequest{"/k"}));
  CHECK(only_request(hello + "\x04"s + text("/n") + u64(5)) == kept(AddRequest{"/n", 5}));
  CHECK(only_request(hello + "\x05"s + u64(0)) == kept(CheckRequest{}));
  CHECK(only_request(hello + "\x06"s + u64(1) + text("/k")) == kept(WaitRequest{{"/k"}}));
  CHECK(only_request(hello + "\x07"s) == kept(NumKeysRequest{}));
  CHECK(only_request(hello + "\x08"s + text("/k")) == kept(DeleteRequest{"/k"}));
  CHECK(only_request(hello + "\x0D\x39\x05\x00\x00"s) == kept(PingRequest{1337}));
  CHECK(only_request(hello + "\x0E"s + text("/q") + text("v")) == kept(QueuePushRequest{"/q", "v"}));
  CHECK(only_request(hello + "\x0F"s + text("/q")) == kept(QueuePopRequest{"/q"}));
  CHECK(only_request(hello + "\x10"s + text("/q")) == kept(QueueLenRequest{"/q"}));
  CHECK(only_request(hello + "\x11"s) == kept(ListKeysRequest{}));
  CHECK(only_request(hello + "\x12"s + text("/b") + u64(4)) == kept(BarrierRequest{"/b", 4}));
}

TEST_CASE("store_protocol: the extended opcodes have one number in both dialects", "[unit]") {
  std::string const hello = GENERATE(std::string(), encode_greeting());

  CHECK(only_request(hello + "\x09"s + text("/k") + text("v")) == kept(AppendRequest{"/k", "v"}));
  CHECK(only_request(hello + "\x0A"s + u64(1) + text("/k")) == kept(MultiGetRequest{{"/k"}}));
  CHECK(only_request(hello + "\x0B"s + u64(1) + text("/k") + text("v")) == kept(MultiSetRequest{{{"/k", "v"}}}));
  CHECK(only_request(hello + "\x0C"s) == kept(CancelWaitRequest{}));
}

TEST_CASE("store_protocol: every request survives encoding and any cut of its bytes", "[unit]") {
  auto const dialect = GENERATE(StoreDialect::plain, StoreDialect::greeted);
  std::vector<StoreRequest> requests = one_of_each();
  std::string bytes;
  if (dialect == StoreDialect::greeted) {
    bytes = encode_greeting();
    requests.emplace_back(PingRequest{0xFFFFFFFF});
    requests.emplace_back(QueuePushRequest{"q", "v"});
    requests.emplace_back(QueuePopRequest{"q"});
    requests.emplace_back(QueueLenRequest{""});
    requests.emplace_back(ListKeysRequest{});
    requests.emplace_back(BarrierRequest{"b", -1});
  }
  Decoded expected;
  for (StoreRequest const& request : requests) {
    bytes += encode_request(request, dialect);
    expected.requests.push_back(kept(request));
  }

  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    CHECK(decode(bytes, piece) == expected);
  }
}

TEST_CASE("store_protocol: a first byte of zero is a SET unless the magic number follows", "[unit]") {
  // A key length whose low bytes start like the magic number, but do not end like it.
  std::string const key(0xCE, 'k');
  StoreDecoder decoder;
  std::string const bytes = "\x00"s + text(key) + text("v");
  StoreRequest request;
  for (char const c : bytes) {
    std::string_view input(&c, 1);
    (void)decoder.next(input, request);
  }

  CHECK(request == StoreRequest(SetRequest{key, "v"}));
  CHECK(decoder.dialect() == StoreDialect::plain);
}

TEST_CASE("store_protocol: opcodes 1 to 12 as the first byte are served without waiting for more", "[unit]") {
  StoreDecoder decoder;
  std::string_view input = "\x06";
  StoreRequest request;

  CHECK(decoder.next(input, request) == Status::request);
  CHECK(decoder.dialect() == StoreDialect::plain);
}

TEST_CASE("store_protocol: a VALIDATE cut anywhere still greets", "[unit]") {
  std::string const bytes = encode_greeting() + encode_request(PingRequest{7}, StoreDialect::greeted);

  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    StoreDecoder decoder;
    std::string_view head = std::string_view(bytes).substr(0, cut);
    std::string_view tail = std::string_view(bytes).substr(cut);
    StoreRequest request;
    CHECK(decoder.next(head, request) == Status::need_more);
    CHECK(decoder.next(tail, request) == Status::request);
    CHECK(request == StoreRequest(PingRequest{7}));
    CHECK(decoder.dialect() == StoreDialect::greeted);
  }
}

TEST_CASE("store_protocol: a second VALIDATE is ignored, one with a wrong number breaks", "[unit]") {
  std::string const hello = encode_greeting();

  CHECK(only_request(hello + hello + "\x07"s) == kept(NumKeysRequest{}));
  CHECK(error_of(hello + "\x00"s + "abcd") == "VALIDATE carries a wrong magic number");
}

TEST_CASE("store_protocol: opcodes that are not offered break by number", "[unit]") {
  CHECK(error_of("\x07"s) == "opcode 7 is not offered");  // WATCH_KEY
  CHECK(error_of("\x0D"s) == "opcode 13 is not offered");
  CHECK(error_of("\xFF"s) == "opcode 255 is not offered");
  CHECK(error_of(encode_greeting() + "\x13"s) == "opcode 19 is not offered");
}

TEST_CASE("store_protocol: lengths and counts over the limits break before anything is held", "[unit]") {
  CHECK(error_of("\x02"s + u64(kMaxStoreKeyBytes + 1)) == "GET with a key of 8193 bytes; at most 8192");
  CHECK(error_of("\x00"s + text("k") + u64(kMaxStoreValueBytes + 1)) ==
        "SET with a value of 67108865 bytes; at most 67108864");
  CHECK(error_of(encode_greeting() + "\x0E"s + text("q") + u64(kMaxStoreValueBytes + 1)) ==
        "QUEUE_PUSH with a value of 67108865 bytes; at most 67108864");
  CHECK(error_of("\x05"s + u64(kMaxStoreKeys + 1)) == "WAIT of 131073 keys; at most 131072");
  CHECK(error_of("\x0B"s + u64(~0ULL)) == "MULTI_SET of 18446744073709551615 keys; at most 131072");
  CHECK(error_of("\x00"s + u64(~0ULL)) == "SET with a key of 18446744073709551615 bytes; at most 8192");
}

TEST_CASE("store_protocol: each request of new clients has the limits of the others, and takes an empty key",
          "[unit]") {
  auto const [opcode, name] = GENERATE(table<char, std::string>(
      {{'\x0E', "QUEUE_PUSH"}, {'\x0F', "QUEUE_POP"}, {'\x10', "QUEUE_LEN"}, {'\x12', "BARRIER"}}));
  std::string const begin = encode_greeting() + opcode;
  std::string const rest = opcode == '\x0E' ? text("") : opcode == '\x12' ? u64(~0ULL) : "";

  CHECK(error_of(begin + u64(kMaxStoreKeyBytes + 1)) == name + " with a key of 8193 bytes; at most 8192");
  CHECK(error_of(begin + u64(~0ULL)) == name + " with a key of 18446744073709551615 bytes; at most 8192");
  CHECK(only_request(begin + text("") + rest) == opcode + text("") + rest);
}

TEST_CASE("store_protocol: a key of exactly the limit is taken, and none beyond it, in pieces or whole", "[unit]") {
  std::string const key(kMaxStoreKeyBytes, 'k');

  std::string const long_one = encode_greeting() + "\x06"s + u64(2) + text("a") + text(key + "k");
  CHECK(decode(long_one, long_one.size()).error == "WAIT with a key of 8193 bytes; at most 8192");
  CHECK(decode(long_one, 1).error == "WAIT with a key of 8193 bytes; at most 8192");
  CHECK(only_request("\x02"s + text(key)) == kept(GetRequest{key}));
}

TEST_CASE("store_protocol: the sum of one request's lengths is bounded", "[unit]") {
  std::string const chunk(kMaxStoreValueBytes, 'v');
  std::string const bytes = "\x0B"s + u64(3) + text("a") + text(chunk) + text("b") + text(chunk);

  CHECK(decode(bytes, 1 << 20).error == "MULTI_SET of more than 134217728 bytes");
}

TEST_CASE("store_protocol: a request in pieces holds no more than was announced", "[unit]") {
  static constexpr std::size_t kAnnounced = 1000;
  auto const first = GENERATE(range<std::size_t>(1, kAnnounced, 7));
  StoreDecoder decoder;
  std::string const bytes = "\x00"s + text("k") + u64(kAnnounced) + std::string(first, 'v');
  std::string_view head = bytes;
  std::string_view more = "v";
  StoreRequest request;
  REQUIRE(decoder.next(head, request) == Status::need_more);
  (void)decoder.next(more, request);

  CHECK(decoder.held_bytes() < kAnnounced + 256);
}

TEST_CASE("store_protocol: a length field alone allocates nothing", "[unit]") {
  StoreDecoder decoder;
  std::string const head = "\x00"s + text("k") + u64(kMaxStoreValueBytes);
  std::string_view input = head;
  StoreRequest request;

  CHECK(decoder.next(input, request) == Status::need_more);
  CHECK(decoder.held_bytes() < 256);
}

TEST_CASE("store_protocol: what came whole is left where it is, and what was gathered is taken without a copy",
          "[unit]") {
  std::string const bytes =
      encode_greeting() + encode_request(SetRequest{"k", std::string(99, 'v')}, StoreDialect::greeted);
  StoreDecoder whole;
  std::string_view input = bytes;
  StoreRequest request;
  REQUIRE(whole.next(input, request) == Status::request);
  CHECK(std::get<SetRequest>(request).value.data() == bytes.data() + bytes.size() - 99);
  CHECK(whole.held_bytes() == 0);

  StoreDecoder cut;
  std::string_view head = std::string_view(bytes).substr(0, 20);
  std::string_view tail = std::string_view(bytes).substr(20);
  REQUIRE(cut.next(head, request) == Status::need_more);
  REQUIRE(cut.next(tail, request) == Status::request);
  char const* const gathered = std::get<SetRequest>(request).value.data();
  std::string const taken = std::get<SetRequest>(request).value.take();
  CHECK(taken == std::string(99, 'v'));
  CHECK(taken.data() == gathered);
  cut.let_go();
  CHECK(cut.held_bytes() == 0);
}

TEST_CASE("store_protocol: a broken decoder stays broken and keeps its reason", "[unit]") {
  StoreDecoder decoder;
  StoreRequest request;
  std::string_view bad = "\x07";
  (void)decoder.next(bad, request);
  std::string_view good = "\x06";

  CHECK(decoder.next(good, request) == Status::broken);
  CHECK(decoder.error() == "opcode 7 is not offered");
  CHECK(good.size() == 1);
}

TEST_CASE("store_protocol: replies have torch's layout", "[unit]") {
  CHECK(encode_value_reply("v") == "\x01\0\0\0\0\0\0\0v"s);
  CHECK(encode_number_reply(-2) == "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s);
  CHECK(encode_ping_reply(0x01020304) == "\x04\x03\x02\x01"s);
}
