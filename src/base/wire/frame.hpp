// Frames: a 4-byte big-endian length, then that many bytes. The outer layer of the agent protocol. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"

namespace cxxrun::wire {

/// The longest payload. A peer that announces more is not one of ours.
inline constexpr std::size_t kMaxFrame = 1U << 20U;

/// The bytes of one frame. `payload` must not be longer than kMaxFrame.
[[nodiscard]] std::string frame(std::string_view payload);

/// Incremental decoder: total, holds at most one frame and what arrived with it.
class FrameReader {
 public:
  /// Accepts no longer payload than this from now on, instead of kMaxFrame.
  void limit(std::size_t most) { most_ = most; }
  /// Adds bytes as they came from the socket.
  void feed(std::string_view bytes);
  /// The next complete payload; nothing when more bytes are needed; Errc::protocol when the announced length is beyond
  /// the limit (the reader cannot be used afterwards).
  Result<std::optional<std::string>> next();
  /// After next() has given nothing: whether part of a frame has arrived.
  [[nodiscard]] bool midway() const { return buffer_.size() > start_; }

 private:
  std::string buffer_;
  std::size_t start_ = 0;
  std::size_t most_ = kMaxFrame;
};

}  // namespace cxxrun::wire
