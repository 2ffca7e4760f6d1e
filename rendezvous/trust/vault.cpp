#include "rendezvous/trust/vault.hpp"

#include <mutex>
#include <new>
#include <sodium.h>
#include <vector>

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kAtOnce = 512;

struct Vault {
  std::mutex mutex;
  std::vector<void*> free;
  std::size_t total = 0;

  void grow() {
    free.reserve(total + kAtOnce);  // so that giving back needs no memory
    auto* const more = sodium_init() < 0 ? nullptr : static_cast<char*>(sodium_allocarray(kAtOnce, kSecretPlace));
    if (more == nullptr) {
      throw std::bad_alloc();
    }
    total += kAtOnce;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      free.push_back(more + i * kSecretPlace);
    }
  }
};

Vault& vault() {
  static auto* const only = new Vault;  // never destroyed: keys may outlive it
  return *only;
}

}  // namespace

void* take_secret_place() {
  std::lock_guard const lock(vault().mutex);
  if (vault().free.empty()) {
    vault().grow();
  }
  void* const place = vault().free.back();
  vault().free.pop_back();
  return place;
}

void give_back_secret_place(void* place) noexcept {
  sodium_memzero(place, kSecretPlace);
  std::lock_guard const lock(vault().mutex);
  vault().free.push_back(place);
}

}  // namespace cxxrun::rendezvous
