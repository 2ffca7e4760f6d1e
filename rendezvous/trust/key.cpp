#include "rendezvous/trust/key.hpp"

#include <algorithm>
#include <new>
#include <sodium.h>

#include "rendezvous/trust/vault.hpp"

namespace cxxrun::rendezvous {
namespace {

static_assert(sizeof(Key::Bytes) == kSecretPlace);
static_assert(kProofBytes == crypto_generichash_BYTES_MIN);

unsigned char const* start_of(std::string_view text) {
  return reinterpret_cast<unsigned char const*>(text.data());
}

/// BLAKE2b under `key` of `purpose` and `text`; the length of `purpose` goes first, so that no two pairs are alike.
void hash(Key const& key, std::string_view purpose, std::string_view text, unsigned char* to, std::size_t bytes) {
  crypto_generichash_state state;
  auto const length = static_cast<unsigned char>(purpose.size());
  crypto_generichash_init(&state, key.bytes().data(), Key::kBytes, bytes);
  crypto_generichash_update(&state, &length, 1);
  crypto_generichash_update(&state, start_of(purpose), purpose.size());
  crypto_generichash_update(&state, start_of(text), text.size());
  crypto_generichash_final(&state, to, bytes);
  sodium_memzero(&state, sizeof state);
}

}  // namespace

Key::Key() : bytes_(new (take_secret_place()) Bytes{}) {}

Key::Key(Bytes const& bytes) : Key() {
  *bytes_ = bytes;
}

Key::~Key() {
  if (bytes_ != nullptr) {  // it may have been moved from
    give_back_secret_place(bytes_);
  }
}

bool Key::operator==(Key const& other) const {
  return sodium_memcmp(bytes_->data(), other.bytes_->data(), kBytes) == 0;
}

void wipe(std::string& text) {
  sodium_memzero(text.data(), text.size());
}

std::string key_text(Key const& key) {
  std::string text(2 * Key::kBytes + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), key.bytes().data(), Key::kBytes);
  text.pop_back();
  return text;
}

std::optional<Key> read_key(std::string_view text) {
  Key::Bytes bytes{};
  std::size_t read = 0;
  bool const whole = text.size() == 2 * Key::kBytes &&
                     sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &read, nullptr) == 0;
  return whole && read == Key::kBytes ? std::optional(Key(bytes)) : std::nullopt;
}

KeyId id_of(Key const& key) {
  Key const derived = derive(key, "cxxrun key id");
  KeyId id{};
  std::copy_n(derived.bytes().begin(), id.size(), id.begin());
  return id;
}

Key derive(Key const& key, std::string_view purpose, std::string_view context) {
  Key::Bytes bytes{};
  hash(key, purpose, context, bytes.data(), bytes.size());
  Key derived(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return derived;
}

std::string proof_of(Key const& key, std::string_view words) {
  std::string proof(kProofBytes, '\0');
  hash(key, "cxxrun proof", words, reinterpret_cast<unsigned char*>(proof.data()), kProofBytes);
  return proof;
}

bool proves(Key const& key, std::string_view words, std::string_view proof) {
  return proof.size() == kProofBytes && sodium_memcmp(proof_of(key, words).data(), proof.data(), kProofBytes) == 0;
}

}  // namespace cxxrun::rendezvous
