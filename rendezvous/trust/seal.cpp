#include "rendezvous/trust/seal.hpp"

#include <array>
#include <sodium.h>

namespace cxxrun::rendezvous {
namespace {

static_assert(kSealBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(Key::kBytes == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

using Nonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

Nonce nonce_of(std::uint64_t number) {
  Nonce nonce{};
  for (std::size_t i = 0; i < sizeof number; ++i) {
    nonce[nonce.size() - 1 - i] = static_cast<unsigned char>(number >> (8 * i));
  }
  return nonce;
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

}  // namespace cxxrun::rendezvous
