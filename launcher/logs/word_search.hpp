// WordSearch: where the first of many words is in a text, at several gigabytes a second when none is. Pure.
//
// A CPU with AVX2 looks at 32 places at once: whether the three bytes there can be those with which a word begins. It
// is told by two tables of 16 entries for each of the three, one for each half of a byte, in which the words share
// eight bits ("Teddy" of Hyperscan). What passes is compared with the words.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cxxrun::launcher {

class WordSearch {
 public:
  struct Found {
    std::size_t at;    ///< where it begins in the text
    std::size_t word;  ///< its number in the list
    bool operator==(Found const&) const = default;
  };
  /// How to look: the best way that this CPU has, or the one that each has.
  enum class Way : std::uint8_t { best, portable };

  /// The words outlive it; each has four bytes or more.
  explicit WordSearch(std::span<std::string_view const> words, Way way = Way::best);

  /// The first place at or after `from`; of the words that begin there the first of the list.
  [[nodiscard]] std::optional<Found> find(std::string_view text, std::size_t from = 0) const;

 private:
  struct Begin {
    std::uint32_t four;  ///< bytes
    std::uint32_t word;  ///< its number
  };
  struct Row {
    std::array<std::uint8_t, 16> low{};
    std::array<std::uint8_t, 16> high{};
  };

  [[nodiscard]] std::optional<Found> find_portable(std::string_view text, std::size_t from) const;
  [[nodiscard]] std::optional<Found> find_wide(std::string_view text, std::size_t from) const;
  [[nodiscard]] std::optional<Found> word_at(std::string_view text, std::size_t at) const;

  std::span<std::string_view const> words_;
  std::vector<Begin> begins_;                ///< sorted by their first four bytes, of equal ones as in the list
  std::array<std::size_t, 257> by_first_{};  ///< where among these each first byte begins
  std::bitset<65536> pairs_;                 ///< with which the words begin
  std::array<Row, 3> rows_{};                ///< by place; a word's bit is set for what it has there
  bool wide_ = false;
};

}  // namespace cxxrun::launcher
