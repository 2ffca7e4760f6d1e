#include "rendezvous/trust/key.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <sodium.h>
#include <vector>

namespace cxxrun::rendezvous {
namespace {

static_assert(sizeof(Key::Bytes) == Key::kBytes);
static_assert(kProofBytes == crypto_generichash_BYTES_MIN);

/// Where keys lie: pages of their own, since only whole pages can be left out of core dumps. They are locked into
/// memory as far as the limit allows. Any thread may use it.
struct Vault {
  static constexpr std::size_t kGrowth = 512;  ///< keys
  std::mutex mutex;
  std::vector<void*> free;
  std::size_t total = 0;

  /// Throws std::bad_alloc.
  void* take() {
    std::lock_guard const lock(mutex);
    if (free.empty()) {
      grow();
    }
    void* const place = free.back();
    free.pop_back();
    return place;
  }
  void give_back(void* place) noexcept {
    sodium_memzero(place, Key::kBytes);
    std::lock_guard const lock(mutex);
    free.push_back(place);
  }
  void grow() {
    free.reserve(total + kGrowth);  // so that give_back() allocates nothing
    auto* const more = sodium_init() < 0 ? nullptr : static_cast<char*>(sodium_allocarray(kGrowth, Key::kBytes));
    if (more == nullptr) {
      throw std::bad_alloc();
    }
    total += kGrowth;
    for (std::size_t i = 0; i < kGrowth; ++i) {
      free.push_back(more + i * Key::kBytes);
    }
  }
};

Vault& vault() {
  static auto* const only = new Vault;  // never destroyed: keys may outlive it
  return *only;
}

unsigned char const* start_of(std::string_view text) {
  return reinterpret_cast<unsigned char const*>(text.data());
}

/// BLAKE2b of `purpose` and `text` under `key`. The length of `purpose` goes first, so that no two pairs collide.
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

Key::Key() : bytes_(new (vault().take()) Bytes{}) {}

Key::Key(Bytes const& bytes) : Key() {
  *bytes_ = bytes;
}

Key::~Key() {
  if (bytes_ != nullptr) {  // null: moved from
    vault().give_back(bytes_);
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
