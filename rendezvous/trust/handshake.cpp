#include "rendezvous/trust/handshake.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {
namespace {

constexpr std::string_view kMagic =
    "\x01"
    "cxxkey";  // seven bytes; the version follows
constexpr std::size_t kFrameHead = kMagic.size() + 1;
constexpr std::size_t kId = kFrameHead + Nonce{}.size();
constexpr std::size_t kLeastFrame = kId + KeyId{}.size();  // both frames have this layout; wraps follow in an answer
constexpr std::size_t kWrapHead = 3;                       // kind, length

std::string begin(Nonce const& nonce, KeyId const& key) {
  std::string bytes(kMagic);
  bytes.push_back(static_cast<char>(kHandshakeVersion));
  bytes.append(nonce.begin(), nonce.end());
  bytes.append(key.begin(), key.end());
  return bytes;
}

std::size_t number_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

Result<void> check_head(std::string_view frame) {
  if (!frame.starts_with(kMagic)) {
    return fail(Errc::protocol, "it does not speak cxxrun's handshake");
  }
  if (std::size_t const version = frame.size() < kFrameHead ? 0 : number_at(frame, kMagic.size());
      version != kHandshakeVersion) {
    return fail(Errc::protocol, "its handshake has version " + std::to_string(version) + ", this one has " +
                                    std::to_string(kHandshakeVersion) + "; use the same cxxrun on all nodes");
  }
  if (frame.size() < kLeastFrame) {
    return fail(Errc::protocol, "its handshake is cut short");
  }
  return {};
}

}  // namespace

std::string write_call(Call const& call) {
  return begin(call.nonce, call.knows);
}

std::string write_answer(KeyOffer const& answer) {
  std::string bytes = begin(answer.nonce, answer.key);
  for (auto const& wrap : answer.wraps) {
    bytes.push_back(static_cast<char>(wrap.kind));
    bytes.push_back(static_cast<char>(wrap.bytes.size() >> 8U));
    bytes.push_back(static_cast<char>(wrap.bytes.size()));
    bytes.append(wrap.bytes);
  }
  return bytes;
}

Result<Call> read_call(std::string_view bytes) {
  if (auto const head = check_head(bytes); !head) {
    return head.error();
  }
  if (bytes.size() != kLeastFrame) {
    return fail(Errc::protocol, "its handshake is too long");
  }
  Call call;
  std::copy_n(bytes.begin() + kFrameHead, call.nonce.size(), call.nonce.begin());
  std::copy_n(bytes.begin() + kId, call.knows.size(), call.knows.begin());
  return call;
}

Result<KeyOffer> read_answer(std::string_view bytes) {
  if (auto const head = check_head(bytes); !head) {
    return head.error();
  }
  KeyOffer answer;
  std::copy_n(bytes.begin() + kFrameHead, answer.nonce.size(), answer.nonce.begin());
  std::copy_n(bytes.begin() + kId, answer.key.size(), answer.key.begin());
  std::size_t wraps = 0;
  for (auto rest = bytes.substr(kLeastFrame); !rest.empty();) {
    std::size_t const length = rest.size() < kWrapHead ? 0 : number_at(rest, 1) << 8U | number_at(rest, 2);
    if (rest.size() < kWrapHead + length || bytes.size() > kLeastFrame + kMostWrapped || ++wraps > kMostWraps) {
      return fail(Errc::protocol, "its handshake holds no wrapped key");
    }
    auto const kind = static_cast<WrapKind>(rest[0]);
    if (kind == WrapKind::munge || kind == WrapKind::secret) {
      answer.wraps.push_back({kind, std::string(rest.substr(kWrapHead, length))});
    }
    rest.remove_prefix(kWrapHead + length);
  }
  return answer;
}

ChannelKeys channel_keys(Key const& key, std::string_view call, std::string_view answer) {
  std::string const both = std::string(call).append(answer);  // no two pairs collide: the call's length is fixed
  return {derive(key, "cxxrun caller", both), derive(key, "cxxrun called", both)};
}

}  // namespace cxxrun::rendezvous
