#include "rendezvous/trust/secret.hpp"

#include <sodium.h>

#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::string_view kTag = "cxxrun wrapped key 1";
constexpr std::size_t kLeast = 32;

static_assert(WrapNonce{}.size() == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
static_assert(Key::kBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

unsigned char const* bytes_of(std::string_view text) {
  return reinterpret_cast<unsigned char const*>(text.data());
}

}  // namespace

Result<Key> read_secret(std::string_view text) {
  text = trim(text);
  if (text.size() < kLeast) {
    return fail(Errc::usage, "it has " + std::to_string(text.size()) + " bytes and needs " + std::to_string(kLeast) +
                                 " random ones, as `openssl rand -hex 32` makes them");
  }
  return derive(Key(), "cxxrun secret", text);
}

std::string wrap(Key const& secret, Key const& key, WrapNonce const& nonce) {
  std::string wrapped(nonce.begin(), nonce.end());
  wrapped.resize(nonce.size() + Key::kBytes + crypto_aead_xchacha20poly1305_ietf_ABYTES);
  crypto_aead_xchacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(wrapped.data()) + nonce.size(), nullptr,
                                             key.bytes().data(), Key::kBytes, bytes_of(kTag), kTag.size(), nullptr,
                                             nonce.data(), secret.bytes().data());
  return wrapped;
}

std::optional<Key> unwrap(Key const& secret, std::string_view wrapped) {
  constexpr std::size_t kNonce = WrapNonce{}.size();
  if (wrapped.size() != kNonce + Key::kBytes + crypto_aead_xchacha20poly1305_ietf_ABYTES) {
    return std::nullopt;
  }
  Key::Bytes bytes{};
  bool const opened = crypto_aead_xchacha20poly1305_ietf_decrypt(
                          bytes.data(), nullptr, nullptr, bytes_of(wrapped) + kNonce, wrapped.size() - kNonce,
                          bytes_of(kTag), kTag.size(), bytes_of(wrapped), secret.bytes().data()) == 0;
  std::optional<Key> key = opened ? std::optional(Key(bytes)) : std::nullopt;
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

}  // namespace cxxrun::rendezvous
