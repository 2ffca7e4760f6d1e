// NodeLayout: the layout of the memory that the ranks of a node share.
//
//   Header | Slot of each rank | staging of each rank | one unused page | arenas …
//
// A rank writes its own Slot, and the others read it; exceptions say so. Everything read from another rank is checked
// before it is used as an offset: garbage from a local peer must not lead outside the memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "src/base/core/call.hpp"
#include "src/base/worker/futex.hpp"

namespace cxxrun::host {

constexpr std::uint64_t kNodeMagic =
    0x6e75'7278'7863'0001;          // "cxxrun" and the version of the layout: change it with the layout
constexpr std::size_t kLine = 128;  ///< two cache lines, because the second is fetched with the first
constexpr std::size_t kPage = std::size_t{64}
                              << 10;        ///< the largest page size of any machine; mmap takes multiples of it
constexpr std::size_t kInlineBytes = 2048;  ///< buffers up to this size travel in the slot
constexpr std::size_t kPieceBytes = std::size_t{512} << 10;  ///< larger buffers are cut into pieces of this size
constexpr std::size_t kPieces = 3;                           ///< pieces of a rank in use at the same time

/// The first failure of the node. Written once, by the process that changes `state` from 0.
struct Alarm {
  static constexpr std::uint32_t kQuiet = 0;
  static constexpr std::uint32_t kRaised = 1;
  static constexpr std::uint32_t kWriting = 2;  ///< plus the index of the writer
  worker::FutexWord state{};
  bool peer = false;  ///< PeerFailure, otherwise Failure
  std::uint8_t why = 0;
  std::int32_t rank = 0;
  std::int32_t code = 0;
  std::int32_t os_errno = 0;
  std::array<char, 256> host{};
  std::array<char, 1024> text{};
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): cache lines of their own
struct alignas(kLine) Header {
  std::atomic<std::uint64_t> magic{};
  std::atomic<std::uint64_t> nonce{};
  std::atomic<std::uint32_t> size{};        ///< ranks
  alignas(kLine) worker::FutexWord bell{};  ///< changes when sleepers should look around; any rank may ring it
  worker::FutexWord sleepers{};
  alignas(kLine) Alarm alarm{};
};

/// One rank's call, so that the others can compare it and find its buffers.
struct Published {
  /// In place of an offset: the buffer is not in an arena.
  static constexpr std::uint64_t kElsewhere = ~std::uint64_t{0};
  comm::CallFields call{};
  std::uint32_t error = 0;  ///< errno of this rank's part in allocate
  std::uint64_t in = kElsewhere;
  std::uint64_t out = kElsewhere;
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): cache lines of their own
struct alignas(kLine) Slot {
  /// The step this rank has arrived at: the only word that changes in every step.
  worker::FutexWord arrived{};
  std::atomic<std::int32_t> held_up_by{-1};  ///< rank of another node, or -1
  std::atomic<std::uint32_t> left{};
  std::atomic<std::int32_t> pid{};
  /// Thread id while the rank lives; the kernel sets FUTEX_OWNER_DIED in it.
  alignas(kLine) worker::FutexWord lifeline{};
  /// For odd and for even calls: a rank that is done with one call may publish the next while others still read the
  /// first.
  struct alignas(kLine) Publication {
    Published call{};
    alignas(kLine) std::array<std::byte, kInlineBytes> data{};
  };
  std::array<Publication, 2> publications{};
};

struct NodeLayout {
  int size = 1;

  [[nodiscard]] std::size_t slot(int index) const { return sizeof(Header) + at(index) * sizeof(Slot); }
  /// Offset of piece `piece` of a rank's staging memory.
  [[nodiscard]] std::size_t staging(int index, std::size_t piece) const {
    return staging_begin() + (at(index) * kPieces + piece) * kPieceBytes;
  }
  /// A page where one may write a byte to grow the file.
  [[nodiscard]] std::size_t spare_page() const { return staging(size, 0); }
  [[nodiscard]] std::size_t arenas() const { return spare_page() + kPage; }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  [[nodiscard]] std::size_t staging_begin() const { return (slot(size) + kPage - 1) / kPage * kPage; }
};

}  // namespace cxxrun::host
