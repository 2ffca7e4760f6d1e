// Key: the secret that one run's agents share, and what is derived from it. Pure.
//
// Whoever opens a run makes the key (docs/design/trust.md); it is never sent but wrapped, and never said in a log.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cxxrun::rendezvous {

/// 32 secret bytes, wiped when they go, and in memory that is left out of core dumps. A plain value otherwise.
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
  /// Takes the same time wherever the first difference is.
  bool operator==(Key const& other) const;

 private:
  Bytes* bytes_;
};

/// Overwrites what a secret was read from.
void wipe(std::string& text);

/// 64 hexadecimal digits, for files that only this user can read; and back.
[[nodiscard]] std::string key_text(Key const& key);
[[nodiscard]] std::optional<Key> read_key(std::string_view text);

/// Names a key to strangers, who learn nothing of it.
using KeyId = std::array<unsigned char, 8>;

[[nodiscard]] KeyId id_of(Key const& key);
/// Another key, for `purpose` alone; `context` may be of any length. Who knows one derived key learns nothing of the
/// rest.
[[nodiscard]] Key derive(Key const& key, std::string_view purpose, std::string_view context = {});
inline constexpr std::size_t kProofBytes = 16;
/// So many bytes that prove that whoever knows `key` has said `words`.
[[nodiscard]] std::string proof_of(Key const& key, std::string_view words);
[[nodiscard]] bool proves(Key const& key, std::string_view words, std::string_view proof);

}  // namespace cxxrun::rendezvous
