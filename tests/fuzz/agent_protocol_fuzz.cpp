// Fuzzes what strangers can send to a coordinator or put into the environment: frames, messages, host lists. Whatever
// the bytes are, there is an answer; and a message that is understood survives being written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/wire/frame.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

void require(bool holds, char const* what) {
  if (!holds) {
    std::fprintf(stderr, "agent_protocol_fuzz: %s\n", what);
    std::abort();
  }
}

template <class Message, class Decode>
void check(std::string_view text, Decode decode) {
  auto const first = decode(text);
  if (!first) {
    require(!first.error().context.empty(), "an error says nothing");
    return;
  }
  std::string const written = encode(Message(*first));
  require(written.size() <= wire::kMaxFrame, "a message does not fit a frame");
  auto const second = decode(std::string_view(written));
  require(static_cast<bool>(second), "a message does not survive");
  require(encode(Message(*second)) == written, "a message changes when written again");
}

void check_message(std::string_view text) {
  check<ToCoordinator>(text, decode<ToCoordinator>);
  check<ToAgent>(text, decode<ToAgent>);
  check<AboutCallers>(text, decode<AboutCallers>);
  check<AskHost>(text, decode<AskHost>);
  check<LiveUp>(text, decode<LiveUp>);
  check<LiveDown>(text, decode<LiveDown>);
  check<Hello>(text, decode<Hello>);
  check<HelloReply>(text, decode<HelloReply>);
  check<Beat>(text, decode<Beat>);
  check<BeatAck>(text, decode<BeatAck>);
}

void check_frames(std::string_view bytes) {
  wire::FrameReader reader;
  std::size_t used = 0;
  reader.feed(bytes);
  for (auto next = reader.next(); next && next->has_value(); next = reader.next()) {
    used += 4 + (*next)->size();
    check_message(**next);
  }
  require(used <= bytes.size(), "more came out than went in");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  WorkerExit exit;
  exit.status = ExitStatus::signalled(9);
  exit.stderr_tail = "last words";
  Decree const decree{3, 4, 5, 1, 2, 0xfedcba9876543210U, Tie::fence};
  FollowerInfo follower_info;
  follower_info.decided = decree;
  follower_info.rank = 2;
  follower_info.prepared_rank = 1;
  Prepare prepare;
  prepare.generation.decree = decree;
  prepare.generation.successors = {{0, "node1", "10.0.0.1", 4711}, {1, "node2", "fe80::1%eth0", 4712}};
  std::vector<std::string> seeds;
  for (auto const& message : std::vector<ToCoordinator>{
           Join{}, Join{{}, Terms{}}, Ack{1}, WorkerFailed{1, exit}, Succeeded{2}, Stopped{3, {exit}, {"pid 7"}},
           Leaving{15}, Unfit{1, "no GPU"}, FollowerInfo{}, follower_info,
           Vote{3, {2, 1}, {2, 1}, AcceptedDecree{{1, 0}, decree}, Millis{900}}, Vote{}, Accepted{3, {2, 1}, {3, 0}},
           Gone{3, 2}, Stopped{3, {}, {}, {}, true}, Complete{3},
           Progress{3, {{1, 8, 7, 0x10203, 25, Millis{15'000}, true, false, {{7, 8, 2}}}}}}) {
    seeds.push_back(encode(message));
    seeds.push_back(wire::frame(encode(message)));
  }
  for (auto const& message :
       std::vector<LiveUp>{NodePulse{3, 8, 2, {1, 2, 3, -1}}, Ask{1, "status"}, Told{1, "{}", true}}) {
    seeds.push_back(encode(message));
  }
  seeds.push_back(encode(LiveDown(Pace{Millis{1000}})));
  for (auto const& message : std::vector<ToAgent>{
           Prepare{}, Start{1}, Stop{1, StopKind::user, "why"}, Finished{3, "line"}, Refused{1, "x"}, prepare,
           VoteRequest{3, {2, 1}}, Propose{{2, 1}, decree}, Decided{decree, prepare.generation.successors},
           Dropped{4, "why"}, Kill{4, 1, 7, "did not enter barrier #8"}, LeftOut{4}}) {
    seeds.push_back(encode(message));
  }
  TcpEnds const ends{*parse_end("10.1.2.3:40112"), *parse_end("[fd00::1]:29500")};
  seeds.push_back(encode(AskHost(WhoseCalls{1, {{7, ends}}})));
  seeds.push_back(encode(AboutCallers(HostAddresses{{"10.1.2.3", "fd00::1"}})));
  seeds.push_back(encode(AboutCallers(Owners{1, {{7, {store::Owner::Kind::unknown, 65534, "why"}}}})));
  seeds.push_back(encode(Hello{}));
  seeds.push_back(encode(HelloReply{}));
  seeds.push_back(encode(Beat{1, 2, 3}));
  seeds.push_back(encode(BeatAck{1, 2, Millis{4000}, 3}));
  seeds.emplace_back("node[1-3,07],gpu[01-16]x[1-2],login");
  seeds.emplace_back("3,1(x2)");
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const bytes(reinterpret_cast<char const*>(data), size);
  check_message(bytes);
  check_frames(bytes);
  if (auto const hosts = expand_hostlist(bytes)) {
    require(hosts->size() <= 65536, "a host list is longer than its bound");
  }
  (void)expand_counts(bytes);
  return 0;
}
