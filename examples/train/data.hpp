// The text that is learnt: characters as small numbers, and samples cut out of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// What the trainer learns when no other text is named: data/romeo_and_juliet.txt, built in.
[[nodiscard]] std::string_view built_in_text();

/// A sample is `context` characters and, as targets, the same shifted by one. Samples overlap.
class Text {
 public:
  /// Throws cxxrun::Failure (usage) when the text is too short for one sample.
  Text(std::string_view text, std::size_t context);
  /// The whole file; a first line that starts with '#' is left out. Throws cxxrun::Failure.
  static std::string read(std::string const& path);

  [[nodiscard]] std::size_t samples() const { return (tokens_.size() - context_ - 1) / kStride + 1; }
  [[nodiscard]] std::size_t vocabulary() const { return vocabulary_; }
  /// Tells texts apart, for the name of a checkpoint.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  struct Batch {
    std::vector<std::uint8_t> tokens, targets;
  };
  [[nodiscard]] Batch batch(std::span<std::uint64_t const> samples) const;

 private:
  static constexpr std::size_t kStride = 8;
  std::size_t context_;
  std::size_t vocabulary_ = 0;
  std::uint64_t hash_;
  std::vector<std::uint8_t> tokens_;
};

/// FNV-1a.
[[nodiscard]] std::uint64_t hash_of(std::span<std::byte const> bytes, std::uint64_t start = 0xcbf29ce484222325);

}  // namespace train
