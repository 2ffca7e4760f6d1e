// Vault: where keys lie. Pages of their own, for only whole pages can be left out of a core dump; out of swap, too, as
// far as the limit for locked memory goes. Any thread.
#pragma once

#include <cstddef>

namespace cxxrun::rendezvous {

inline constexpr std::size_t kSecretPlace = 32;  ///< bytes of each

/// Throws std::bad_alloc.
[[nodiscard]] void* take_secret_place();
/// Wipes it.
void give_back_secret_place(void* place) noexcept;

}  // namespace cxxrun::rendezvous
