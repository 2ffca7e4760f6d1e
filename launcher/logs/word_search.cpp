#include "launcher/logs/word_search.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kLeast = 4;  // bytes of a word

std::size_t byte_of(char c) {
  return static_cast<unsigned char>(c);
}

std::uint32_t first_four(char const* text) {
  std::uint32_t four = 0;
  std::memcpy(&four, text, sizeof four);
  return four;
}

std::size_t pair_of(char first, char second) {
  return byte_of(first) << 8U | byte_of(second);
}

}  // namespace

WordSearch::WordSearch(std::span<std::string_view const> words, Way way) : words_(words) {
#if defined(__x86_64__)
  wide_ = way == Way::best && __builtin_cpu_supports("avx2") != 0;
#else
  static_cast<void>(way);
#endif
  for (std::size_t i = 0; i < words.size(); ++i) {
    begins_.push_back({first_four(words[i].data()), static_cast<std::uint32_t>(i)});
    pairs_.set(pair_of(words[i][0], words[i][1]));
  }
  auto const by_text = [&](Begin const& a, Begin const& b) {
    return words[a.word].substr(0, kLeast) < words[b.word].substr(0, kLeast);
  };
  std::stable_sort(begins_.begin(), begins_.end(), by_text);
  // Words that begin alike share a bit: of two that do not, each lets the other's bytes pass in its places.
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const word = words[begins_[i].word];
    auto const bit = static_cast<std::uint8_t>(1U << (i * 8 / words.size()));
    for (std::size_t place = 0; place < rows_.size(); ++place) {
      rows_.at(place).low.at(byte_of(word[place]) & 15U) |= bit;
      rows_.at(place).high.at(byte_of(word[place]) >> 4U) |= bit;
    }
    for (auto first = byte_of(word[0]) + 1; first < by_first_.size(); ++first) {
      by_first_.at(first) = i + 1;
    }
  }
}

std::optional<WordSearch::Found> WordSearch::find(std::string_view text, std::size_t from) const {
  return wide_ ? find_wide(text, from) : find_portable(text, from);
}

inline std::optional<WordSearch::Found> WordSearch::word_at(std::string_view text, std::size_t at) const {
  if (at + kLeast > text.size()) {
    return std::nullopt;
  }
  auto const four = first_four(text.data() + at);
  auto const* begin = begins_.data() + by_first_[byte_of(text[at])];
  auto const* const end = begins_.data() + by_first_[byte_of(text[at]) + 1];
  for (; begin != end; ++begin) {
    if (begin->four == four && text.substr(at).starts_with(words_[begin->word])) {
      return Found{at, begin->word};
    }
  }
  return std::nullopt;
}

std::optional<WordSearch::Found> WordSearch::find_portable(std::string_view text, std::size_t from) const {
  for (auto at = from; at + kLeast <= text.size(); ++at) {
    if (pairs_.test(pair_of(text[at], text[at + 1]))) {
      if (auto const found = word_at(text, at)) {
        return found;
      }
    }
  }
  return std::nullopt;
}

#if defined(__x86_64__)

namespace {

constexpr std::size_t kWide = 32;

__attribute__((target("avx2"), always_inline)) inline __m256i load(char const* from) {
  return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));  // NOLINT(*reinterpret-cast): as it is meant
}

/// In 32 places at once: the bits whose words may have this byte there.
__attribute__((target("avx2"), always_inline)) inline __m256i bits_of(__m256i bytes, __m256i low, __m256i high) {
  auto const half = _mm256_set1_epi8(15);
  return _mm256_and_si256(_mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half)),
                          _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), half)));
}

__attribute__((target("avx2"), always_inline)) inline __m256i twice(std::array<std::uint8_t, 16> const& table) {
  // NOLINTNEXTLINE(*reinterpret-cast): as it is meant
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<__m128i const*>(table.data())));
}

}  // namespace

__attribute__((target("avx2"))) std::optional<WordSearch::Found> WordSearch::find_wide(std::string_view text,
                                                                                       std::size_t from) const {
  auto const low0 = twice(rows_[0].low);
  auto const low1 = twice(rows_[1].low);
  auto const low2 = twice(rows_[2].low);
  auto const high0 = twice(rows_[0].high);
  auto const high1 = twice(rows_[1].high);
  auto const high2 = twice(rows_[2].high);
  std::array<char, kWide + 2> rest{};  // the last places, and zeros
  for (auto at = from; at + kLeast <= text.size(); at += kWide) {
    char const* here = text.data() + at;
    if (text.size() - at < rest.size()) {
      std::memcpy(rest.data(), here, text.size() - at);
      here = rest.data();
    }
    auto bits = bits_of(load(here), low0, high0);
    bits = _mm256_and_si256(bits, bits_of(load(here + 1), low1, high1));
    bits = _mm256_and_si256(bits, bits_of(load(here + 2), low2, high2));
    auto places = ~static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bits, _mm256_setzero_si256())));
    for (; places != 0; places &= places - 1) {
      if (auto const found = word_at(text, at + static_cast<std::size_t>(std::countr_zero(places)))) {
        return found;
      }
    }
  }
  return std::nullopt;
}

#else

std::optional<WordSearch::Found> WordSearch::find_wide(std::string_view text, std::size_t from) const {
  return find_portable(text, from);
}

#endif

}  // namespace cxxrun::launcher
