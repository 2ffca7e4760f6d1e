#include "rendezvous/trust/secret.hpp"

#include <algorithm>
#include <set>
#include <sodium.h>

#include "src/base/core/ports.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::string_view kTag = "cxxrun wrapped key 2";
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kLeast = 32;
/// Different bytes needed. 32 random hexadecimal digits have fewer once in ten million times; "password" has seven.
constexpr std::size_t kLeastDifferent = 8;

static_assert(WrapNonce{}.size() == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
static_assert(Key::kBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

unsigned char const* bytes_of(std::string_view text) {
  return reinterpret_cast<unsigned char const*>(text.data());
}

std::size_t different_bytes(std::string_view text) {
  return std::set<char>(text.begin(), text.end()).size();
}

/// Evidently not random: few different characters, "abcdef…", or one piece repeated.
bool is_pattern(std::string_view text) {
  std::string steps;
  for (std::size_t i = 1; i < text.size(); ++i) {
    steps.push_back(static_cast<char>(text[i] - text[i - 1]));
  }
  bool repeats = false;
  for (std::size_t piece = 1; piece <= text.size() / 2 && !repeats; ++piece) {
    repeats = text.substr(piece) == text.substr(0, text.size() - piece);
  }
  return repeats || different_bytes(text) < kLeastDifferent || different_bytes(steps) < kLeastDifferent;
}

}  // namespace

Result<Key> read_secret(std::string_view text) {
  text = trim(text);
  if (text.size() < kLeast) {
    return fail(Errc::usage, "it has " + std::to_string(text.size()) + " bytes and needs " + std::to_string(kLeast) +
                                 " random ones, as `openssl rand -hex 32` makes them");
  }
  if (is_pattern(text)) {
    return fail(Errc::usage, "it is not random, so others can guess it; make it with `openssl rand -hex 32`");
  }
  return derive(Key(), "cxxrun secret", text);
}

std::vector<std::uint16_t> hidden_ports(Key const& secret, std::vector<std::uint16_t> const& ports) {
  std::string run;
  for (auto const port : ports) {
    run += std::to_string(port) + ",";
  }
  Key const drawn = derive(secret, "cxxrun hidden ports", run);
  auto const& bytes = drawn.bytes();
  std::vector<std::uint16_t> hidden;
  for (std::size_t i = 0; i + 1 < bytes.size() && hidden.size() < kHiddenPorts; i += 2) {
    auto const port = static_cast<std::uint16_t>(kDerivedPorts.first + (bytes[i] * 256U + bytes[i + 1]) % kDerived);
    if (std::find(hidden.begin(), hidden.end(), port) == hidden.end()) {
      hidden.push_back(port);
    }
  }
  return hidden;
}

std::string wrap(Key const& secret, std::string_view words, WrapNonce const& nonce) {
  std::string wrapped(nonce.begin(), nonce.end());
  wrapped.resize(nonce.size() + words.size() + kTagBytes);
  crypto_aead_xchacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(wrapped.data()) + nonce.size(), nullptr,
                                             bytes_of(words), words.size(), bytes_of(kTag), kTag.size(), nullptr,
                                             nonce.data(), secret.bytes().data());
  return wrapped;
}

std::optional<std::string> unwrap(Key const& secret, std::string_view wrapped) {
  constexpr std::size_t kNonce = WrapNonce{}.size();
  if (wrapped.size() < kNonce + kTagBytes) {
    return std::nullopt;
  }
  std::string words(wrapped.size() - kNonce - kTagBytes, '\0');
  bool const opened =
      crypto_aead_xchacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(words.data()), nullptr, nullptr,
                                                 bytes_of(wrapped) + kNonce, wrapped.size() - kNonce, bytes_of(kTag),
                                                 kTag.size(), bytes_of(wrapped), secret.bytes().data()) == 0;
  return opened ? std::optional(std::move(words)) : std::nullopt;
}

}  // namespace cxxrun::rendezvous
