#include "src/base/wire/store_protocol.hpp"
#include "src/base/wire/store_shapes.hpp"

namespace cxxrun::wire {

std::string encode_greeting() {
  std::string out(1, static_cast<char>(kGreeting));
  put(out, kGreetingMagic);
  return out;
}

std::string encode_request(StoreRequest const& request, StoreDialect dialect) {
  std::size_t const op = request.index() + 1;
  bool const lower = dialect == StoreDialect::plain && op <= kPlainWatchKey;
  std::string out(1, static_cast<char>(lower ? op - 1 : op));
  kShapes[op].write({out}, request);
  return out;
}

std::string refusal_of(std::string_view request) {
  StoreDecoder decoder(StoreDialect::greeted);
  StoreRequest decoded;
  static_cast<void>(decoder.next(request, decoded));
  return decoder.error();
}

std::string encode_value_reply(std::string_view value) {
  std::string out;
  out.reserve(sizeof(std::uint64_t) + value.size());
  append_string(out, value);
  return out;
}

void append_value_reply(std::string& out, std::string_view value) {
  append_string(out, value);
}

std::string encode_number_reply(std::int64_t number) {
  std::string out;
  put(out, number);
  return out;
}

std::string encode_ping_reply(std::uint32_t nonce) {
  std::string out;
  put(out, nonce);
  return out;
}

}  // namespace cxxrun::wire
