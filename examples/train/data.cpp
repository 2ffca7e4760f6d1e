#include "train/data.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "cxxrun/failure.hpp"

namespace train {
namespace {

std::string_view without_comment(std::string_view text) {
  if (text.starts_with('#')) {
    auto const end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return text;
}

}  // namespace

std::string_view built_in_text() {
  static constexpr char const kText[] =
#include "text.inc"
      ;
  return without_comment({kText, sizeof(kText) - 1});
}

Text::Text(std::string_view text, std::size_t context)
    : context_(context), hash_(hash_of(std::as_bytes(std::span(text)))) {
  if (text.size() < context + 1) {
    throw cxxrun::Failure({cxxrun::Errc::usage, "the text has " + std::to_string(text.size()) +
                                                    " characters; one sample needs " + std::to_string(context + 1)});
  }
  std::array<bool, 256> seen{};
  for (char const c : text) {
    seen[static_cast<unsigned char>(c)] = true;
  }
  std::array<std::uint8_t, 256> number{};
  for (std::size_t c = 0; c < seen.size(); ++c) {
    number[c] = static_cast<std::uint8_t>(vocabulary_);
    vocabulary_ += seen[c] ? 1 : 0;
  }
  tokens_.reserve(text.size());
  for (char const c : text) {
    tokens_.push_back(number[static_cast<unsigned char>(c)]);
  }
}

std::string Text::read(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string const text((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad()) {
    throw cxxrun::Failure({cxxrun::Errc::io, "cannot read the text " + path, errno});
  }
  return std::string(without_comment(text));
}

Text::Batch Text::batch(std::span<std::uint64_t const> samples) const {
  Batch batch;
  for (std::uint64_t const sample : samples) {
    auto const first = tokens_.begin() + static_cast<std::ptrdiff_t>(sample * kStride);
    auto const length = static_cast<std::ptrdiff_t>(context_);
    batch.tokens.insert(batch.tokens.end(), first, first + length);
    batch.targets.insert(batch.targets.end(), first + 1, first + 1 + length);
  }
  return batch;
}

std::uint64_t hash_of(std::span<std::byte const> bytes, std::uint64_t hash) {
  for (std::byte const byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace train
