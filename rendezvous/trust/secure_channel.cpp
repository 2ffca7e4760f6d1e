#include "rendezvous/trust/secure_channel.hpp"

#include <array>
#include <sodium.h>
#include <utility>

#include "src/base/wire/frame.hpp"

namespace cxxrun::rendezvous {
namespace {

static_assert(kSealBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(Key::kBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

using FrameNonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

FrameNonce nonce_of(std::uint64_t number) {
  FrameNonce nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    nonce[nonce.size() - 1 - i] = static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
}

constexpr std::string_view kNotice =
    "\x01"
    "cxxnote";
constexpr std::string_view kNoticePurpose = "cxxrun note";

FrameResult read_notice(Key const& key, std::string_view notice) {
  notice.remove_prefix(kNotice.size());
  if (notice.size() < kProofBytes ||
      !proves(derive(key, kNoticePurpose), notice.substr(kProofBytes), notice.substr(0, kProofBytes))) {
    return Broken{"it does not know this job's key"};
  }
  DeathNotice read;
  wire::FrameReader reader;
  reader.feed(notice.substr(kProofBytes));
  for (auto next = reader.next(); next && next->has_value(); next = reader.next()) {
    read.payloads.push_back(*std::move(*next));
  }
  return read;
}

}  // namespace

std::string Sealer::seal(std::string_view plain) {
  std::string sealed(plain.size() + kSealBytes, '\0');
  crypto_aead_chacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(sealed.data()), nullptr,
                                            reinterpret_cast<unsigned char const*>(plain.data()), plain.size(), nullptr,
                                            0, nullptr, nonce_of(number_++).data(), key_.bytes().data());
  return sealed;
}

std::optional<std::string> Opener::open(std::string_view sealed) {
  if (broken_ || sealed.size() < kSealBytes) {
    broken_ = true;
    return std::nullopt;
  }
  std::string plain(sealed.size() - kSealBytes, '\0');
  broken_ =
      crypto_aead_chacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(plain.data()), nullptr, nullptr,
                                                reinterpret_cast<unsigned char const*>(sealed.data()), sealed.size(),
                                                nullptr, 0, nonce_of(number_++).data(), key_.bytes().data()) != 0;
  return broken_ ? std::nullopt : std::optional(std::move(plain));
}

SecureChannel SecureChannel::of_caller(Nonce const& nonce, KeyId const& knows) {
  SecureChannel channel(nonce);
  channel.caller_ = true;
  channel.call_ = write_call({nonce, knows});
  return channel;
}

SecureChannel SecureChannel::of_called(std::optional<Key> key, Nonce const& nonce) {
  SecureChannel channel(nonce);
  channel.key_ = std::move(key);
  return channel;
}

FrameResult SecureChannel::on_frame(std::string_view frame) {
  if (!opener_) {
    return on_handshake(frame);
  }
  auto payload = opener_->open(frame);
  if (!payload) {
    return Broken{proven_ ? "a frame was altered in transit" : "it does not know this job's key"};
  }
  proven_ = true;
  return Unsealed{*std::move(payload)};
}

FrameResult SecureChannel::on_handshake(std::string_view frame) {
  if (caller_) {
    if (!answer_.empty()) {
      return Broken{"it sent a frame out of turn"};
    }
    auto answer = read_answer(frame);
    if (!answer) {
      return Broken{answer.error().message()};
    }
    answer_ = frame;
    return WantsKey{*std::move(answer)};
  }
  if (!key_) {
    return Broken{"this agent has no key yet"};
  }
  if (frame.starts_with(kNotice)) {
    return read_notice(*key_, frame);
  }
  if (!call_.empty()) {
    return Broken{"it sent a frame out of turn"};
  }
  auto const call = read_call(frame);
  if (!call) {
    return Broken{call.error().message()};
  }
  call_ = frame;
  return call->knows == id_of(*key_) ? FrameResult(SendBack{answer({})}) : FrameResult(WantsWraps{id_of_call(call_)});
}

std::string SecureChannel::answer(std::vector<Wrap> wraps) {
  assert(key_ && !call_.empty());
  answer_ = write_answer({nonce_, id_of(*key_), std::move(wraps)});
  use_key(*key_);
  return answer_;
}

void SecureChannel::use_key(Key const& key) {
  assert(!answer_.empty());
  ChannelKeys const keys = channel_keys(key, call_, answer_);
  sealer_.emplace(caller_ ? keys.caller : keys.called);
  opener_.emplace(caller_ ? keys.called : keys.caller);
}

std::string sign_death_notice(Key const& key, std::vector<std::string> const& payloads) {
  std::string words;
  for (auto const& payload : payloads) {
    words += wire::frame(payload);
  }
  return std::string(kNotice).append(proof_of(derive(key, kNoticePurpose), words)).append(words);
}

}  // namespace cxxrun::rendezvous
