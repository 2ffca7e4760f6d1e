// Fuzzes the store's decoder and keys: any bytes, cut in any way, give the same requests, and memory stays in
// proportion to what was sent. The target is libFuzzer's; tests/fuzz/driver.cpp runs it without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/store/kv_store.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace {

using namespace cxxrun::wire;
using cxxrun::store::ConnectionId;
using cxxrun::store::KvStore;

void require(bool holds, char const* what) {
  if (!holds) {
    std::fprintf(stderr, "store_protocol_fuzz: %s\n", what);
    std::abort();
  }
}

struct Transcript {
  std::vector<std::string> requests;  // encoded again: they point into what they were decoded from
  StoreDialect dialect = StoreDialect::undecided;
  std::string error;
  bool operator==(Transcript const&) const = default;
};

// Feeds the bytes in pieces whose sizes repeat the pattern of `cuts`; all at once without one.
Transcript decode(std::string_view bytes, std::string_view cuts) {
  StoreDecoder decoder;
  Transcript all;
  std::size_t fed = 0;
  for (std::size_t turn = 0; fed < bytes.size(); ++turn) {
    std::size_t const size = cuts.empty() ? bytes.size() : 1 + static_cast<std::uint8_t>(cuts[turn % cuts.size()]) % 32;
    std::string_view input = bytes.substr(fed, size);
    fed += input.size();
    StoreRequest request;
    auto status = decoder.next(input, request);
    for (; status == StoreDecoder::Status::request; status = decoder.next(input, request)) {
      all.requests.push_back(encode_request(request, decoder.dialect()));
    }
    // An empty string costs 8 bytes on the wire and 32 here, and vectors double.
    require(decoder.held_bytes() <= 8 * fed + 256, "the decoder holds more than came in explains");
    if (status == StoreDecoder::Status::broken) {
      require(!decoder.error().empty(), "broken without a reason");
      break;
    }
    require(input.empty(), "the decoder wants more, but left bytes unread");
  }
  all.dialect = decoder.dialect();
  all.error = decoder.error();
  return all;
}

// What was decoded can be encoded and decoded again.
void check_round_trip(Transcript const& all) {
  std::string again = all.dialect == StoreDialect::greeted ? encode_greeting() : std::string();
  for (std::string const& request : all.requests) {
    again += request;
  }
  require(decode(again, {}).requests == all.requests, "encoding and decoding again gives other requests");
}

// Three connections take turns; nobody is woken who does not wait, and nobody waits after all have left.
void check_store(std::string_view bytes) {
  constexpr ConnectionId kConnections = 3;
  KvStore kv;
  StoreDecoder decoder;
  std::string_view input = bytes;
  StoreRequest request;
  for (std::size_t i = 0; decoder.next(input, request) == StoreDecoder::Status::request; ++i) {
    std::size_t const before = kv.waiting();
    auto const outcome = kv.apply(i % kConnections, decoder.dialect(), request);
    require(outcome.woken.size() <= before, "more were woken than waited");
    require(kv.waiting() <= kConnections, "more wait than there are");
    require(outcome.close_reason.empty() || outcome.reply.empty(), "an answer and a closing at once");
  }
  for (ConnectionId id = 0; id < kConnections; ++id) {
    kv.forget(id);
  }
  require(kv.waiting() == 0, "somebody waits who left");
}

}  // namespace

// The first byte says how many of the next ones are the cutting pattern.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<char const*>(data), size);
  std::size_t const cuts_size = bytes.empty() ? 0 : 1 + static_cast<std::uint8_t>(bytes[0]) % 8;
  std::string_view const cuts = bytes.substr(0, cuts_size);
  bytes.remove_prefix(cuts.size());

  Transcript const whole = decode(bytes, {});
  require(decode(bytes, cuts) == whole, "another cut gives other requests");
  require(decode(bytes, std::string_view("\0", 1)) == whole, "byte by byte gives other requests");
  check_round_trip(whole);
  check_store(bytes);
  return 0;
}

// Where the driver starts from: requests in both dialects, so that mutations get past the first byte.
std::vector<std::string> fuzz_seeds() {
  std::vector<StoreRequest> const requests = {
      SetRequest{"/k", "v"},
      CompareSetRequest{"/k", "v", "w"},
      GetRequest{"/k"},
      AddRequest{"/n", -1},
      CheckRequest{{"/k", "/n"}},
      WaitRequest{{"/late", "/k", "/late"}},
      NumKeysRequest{},
      SetRequest{"/late", ""},
      DeleteRequest{"/k"},
      AppendRequest{"/k", "more"},
      MultiGetRequest{{"/k", "/n"}},
      MultiSetRequest{{{"/a", "1"}, {"/late", "2"}}},
      CancelWaitRequest{},
  };
  std::string plain = "abc";
  std::string greeted = "abc" + encode_greeting() + encode_request(PingRequest{7}, StoreDialect::greeted);
  std::vector<std::string> seeds;
  for (StoreRequest const& request : requests) {
    plain += encode_request(request, StoreDialect::plain);
    greeted += encode_request(request, StoreDialect::greeted);
    seeds.push_back("a" + encode_request(request, StoreDialect::plain));
  }
  for (StoreRequest const& request : std::initializer_list<StoreRequest>{
           QueuePushRequest{"/q", "v"}, WaitRequest{{"/q", "/none"}}, QueuePopRequest{"/q"}, QueueLenRequest{"/q"},
           ListKeysRequest{}, BarrierRequest{"/b", 2}, BarrierRequest{"/b", 2}, CancelWaitRequest{}}) {
    greeted += encode_request(request, StoreDialect::greeted);
  }
  seeds.push_back(plain);
  seeds.push_back(greeted);
  return seeds;
}
