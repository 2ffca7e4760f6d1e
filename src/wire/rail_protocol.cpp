#include "src/wire/rail_protocol.hpp"

#include <cstring>

namespace cxxrun::wire {
namespace {

/// The fixed part of a farewell; host and text follow.
struct Fixed {
  std::uint32_t size = 0;  // of everything, this part included
  std::uint32_t host_size = 0;
  std::int32_t rank = 0;
  std::int32_t os_errno = 0;
  std::uint8_t what = 0;
  std::uint8_t why = 0;
  std::uint8_t code = 0;
  std::uint8_t unused = 0;
};
static_assert(sizeof(Fixed) == 20);

constexpr std::size_t kMaxHost = 256;

}  // namespace

std::string encode_farewell(Farewell const& farewell) {
  std::string const host = farewell.host.substr(0, kMaxHost);
  std::string const text = farewell.error.context.substr(0, kMaxFarewell - sizeof(Fixed) - host.size());
  Fixed fixed;
  fixed.size = static_cast<std::uint32_t>(sizeof fixed + host.size() + text.size());
  fixed.host_size = static_cast<std::uint32_t>(host.size());
  fixed.rank = farewell.rank;
  fixed.os_errno = farewell.error.os_errno;
  fixed.what = static_cast<std::uint8_t>(farewell.what);
  fixed.why = static_cast<std::uint8_t>(farewell.why);
  fixed.code = static_cast<std::uint8_t>(farewell.error.code);
  std::string bytes(reinterpret_cast<char const*>(&fixed), sizeof fixed);
  return bytes + host + text;
}

Result<std::optional<Farewell>> decode_farewell(std::string_view bytes) {
  Fixed fixed;
  if (bytes.size() < sizeof fixed) {
    return std::optional<Farewell>();
  }
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.size < sizeof fixed || fixed.size > kMaxFarewell || fixed.host_size > fixed.size - sizeof fixed ||
      fixed.what > static_cast<std::uint8_t>(Farewell::What::failure) ||
      fixed.why > static_cast<std::uint8_t>(PeerFailure::Why::stopped) ||
      fixed.code > static_cast<std::uint8_t>(Errc::io)) {
    return fail(Errc::protocol, "a farewell that is none");
  }
  if (bytes.size() < fixed.size) {
    return std::optional<Farewell>();
  }
  Farewell farewell;
  farewell.what = static_cast<Farewell::What>(fixed.what);
  farewell.why = static_cast<PeerFailure::Why>(fixed.why);
  farewell.rank = fixed.rank;
  farewell.host = bytes.substr(sizeof fixed, fixed.host_size);
  farewell.error.code = static_cast<Errc>(fixed.code);
  farewell.error.os_errno = fixed.os_errno;
  farewell.error.context = bytes.substr(sizeof fixed + fixed.host_size, fixed.size - sizeof fixed - fixed.host_size);
  return std::optional<Farewell>(std::move(farewell));
}

}  // namespace cxxrun::wire
