// Numbers and texts as bytes one after another, in files and on sockets: little-endian. Pure.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cxxrun {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");

inline void put(std::string& to, std::integral auto number) {
  to.append(reinterpret_cast<char const*>(&number), sizeof number);
}
/// The text after its length.
inline void put_text(std::string& to, std::string_view text) {
  put(to, static_cast<std::uint32_t>(text.size()));
  to += text;
}

/// Takes fields off the front. After the first error all fields are empty or 0, and at_end() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral Number>
  Number number() {
    Number value{};
    take(sizeof value).copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) {
      return spoil();
    }
    std::string_view const field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }
  std::string_view text(std::size_t most = UINT32_MAX) {
    auto const size = number<std::uint32_t>();
    return size > most ? spoil() : take(size);
  }
  std::string_view spoil() {
    ok_ = false;
    rest_ = {};
    return {};
  }
  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace cxxrun
