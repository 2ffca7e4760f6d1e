#include "src/base/wire/rail_protocol.hpp"

#include <utility>

#include "src/base/core/bytes.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::wire {

constexpr std::size_t kFixed = 20;  // bytes before host and text
constexpr std::size_t kMaxHost = 256;

std::string relay_text(RailGreeting const& call, RailGreeting const& answer) {
  std::string const how = call.caller != answer.caller
                              ? "begun at " + end_text(call.caller) + ", seen to come from " + end_text(answer.caller)
                              : "made to " + end_text(call.called) + ", seen to arrive at " + end_text(answer.called);
  return "the connection is relayed: " + how +
         "; where addresses are translated give that node its outer one with --local-addr";
}

std::string encode_farewell(Farewell const& farewell) {
  std::string const host = farewell.host.substr(0, kMaxHost);
  std::string const text = farewell.error.context.substr(0, kMaxFarewell - kFixed - host.size());
  std::string bytes;
  put(bytes, static_cast<std::uint32_t>(kFixed + host.size() + text.size()));
  put(bytes, static_cast<std::uint32_t>(host.size()));
  put(bytes, std::int32_t{farewell.rank});
  put(bytes, std::int32_t{farewell.error.os_errno});
  put(bytes, static_cast<std::uint8_t>(farewell.what));
  put(bytes, static_cast<std::uint8_t>(farewell.why));
  put(bytes, static_cast<std::uint8_t>(farewell.error.code));
  put(bytes, std::uint8_t{0});  // unused
  return bytes + host + text;
}

Result<std::optional<Farewell>> decode_farewell(std::string_view bytes) {
  if (bytes.size() < kFixed) {
    return std::optional<Farewell>();
  }
  ByteReader from(bytes);
  auto const size = from.number<std::uint32_t>();
  auto const host_size = from.number<std::uint32_t>();
  Farewell farewell;
  farewell.rank = from.number<std::int32_t>();
  farewell.error.os_errno = from.number<std::int32_t>();
  farewell.what = static_cast<Farewell::What>(from.number<std::uint8_t>());
  farewell.why = static_cast<PeerFailure::Why>(from.number<std::uint8_t>());
  farewell.error.code = static_cast<Errc>(from.number<std::uint8_t>());
  if (size < kFixed || size > kMaxFarewell || host_size > size - kFixed || farewell.what > Farewell::What::failure ||
      farewell.why > PeerFailure::Why::stopped || farewell.error.code > Errc::io) {
    return fail(Errc::protocol, "a malformed farewell");
  }
  if (bytes.size() < size) {
    return std::optional<Farewell>();
  }
  farewell.host = printable(bytes.substr(kFixed, host_size));
  farewell.error.context = printable(bytes.substr(kFixed + host_size, size - kFixed - host_size), size);
  return std::optional<Farewell>(std::move(farewell));
}

}  // namespace cxxrun::wire
