// Key: the secret that the agents of a run share, and what is derived from it.
//
// The agent that opens a run makes its key. It is sent only wrapped, and never logged (docs/design/trust.md).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cxxrun::rendezvous {

/// 32 secret bytes in memory that is left out of core dumps and wiped in the end. A plain value otherwise; constructors
/// throw std::bad_alloc.
class Key {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<unsigned char, kBytes>;

  Key();
  explicit Key(Bytes const& bytes);
  Key(Key const& other) : Key(other.bytes()) {}
  Key(Key&& other) noexcept : bytes_(std::exchange(other.bytes_, nullptr)) {}
  Key& operator=(Key const& other) { return *this = Key(other); }
  Key& operator=(Key&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Key();

  [[nodiscard]] Bytes const& bytes() const { return *bytes_; }
  /// In constant time.
  bool operator==(Key const& other) const;

 private:
  Bytes* bytes_;
};

/// Overwrites a text that holds a secret.
void wipe(std::string& text);

/// A key as 64 hexadecimal digits, for files that only this user can read; and back.
[[nodiscard]] std::string key_text(Key const& key);
[[nodiscard]] std::optional<Key> read_key(std::string_view text);

/// Identifies a key without revealing anything about it.
using KeyId = std::array<unsigned char, 8>;

[[nodiscard]] KeyId id_of(Key const& key);
/// A key for one purpose; `context` may have any length. Derived keys reveal nothing about each other or about `key`.
[[nodiscard]] Key derive(Key const& key, std::string_view purpose, std::string_view context = {});
inline constexpr std::size_t kProofBytes = 16;
/// kProofBytes that prove that the writer of `words` knows `key` (a MAC).
[[nodiscard]] std::string proof_of(Key const& key, std::string_view words);
[[nodiscard]] bool proves(Key const& key, std::string_view words, std::string_view proof);

}  // namespace cxxrun::rendezvous
