#include "src/base/wire/frame.hpp"

#include <cstdint>

namespace cxxrun::wire {

constexpr std::size_t kHeader = 4;

std::string frame(std::string_view payload) {
  auto const length = static_cast<std::uint32_t>(payload.size());
  std::string bytes;
  bytes.reserve(kHeader + payload.size());
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>((length >> static_cast<unsigned>(shift)) & 0xFFU));
  }
  return bytes.append(payload);
}

void FrameReader::feed(std::string_view bytes) {
  if (start_ > 0) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<std::string>> FrameReader::next() {
  std::string_view const rest = std::string_view(buffer_).substr(start_);
  if (rest.size() < kHeader) {
    return std::optional<std::string>();
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < kHeader; ++i) {
    length = length << 8U | static_cast<unsigned char>(rest[i]);
  }
  if (length > most_) {
    return fail(Errc::protocol, "frame of " + std::to_string(length) + " bytes announced; at most " +
                                    std::to_string(most_) + " are allowed");
  }
  if (rest.size() < kHeader + length) {
    return std::optional<std::string>();
  }
  start_ += kHeader + length;
  return std::optional<std::string>(rest.substr(kHeader, length));
}

}  // namespace cxxrun::wire
