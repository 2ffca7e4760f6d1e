// Fuzzes both ends of the handshake, the seals and the notes: whatever a forger says, who knows everything but the key,
// nothing of it comes through, and what honest ends say does. The target is libFuzzer's; tests/fuzz/driver.cpp runs it
// without libFuzzer.
//
// The input is a list of frames, each a byte for its kind, one for its length, and its bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/trust/secret.hpp"
#include "rendezvous/trust/secure_channel.hpp"

namespace {

using namespace cxxrun::rendezvous;

void require(bool holds, char const* what) {
  if (!holds) {
    std::fprintf(stderr, "trust_fuzz: %s\n", what);
    std::abort();
  }
}

Key key_of(unsigned char byte) {
  Key::Bytes bytes{};
  bytes.fill(byte);
  return Key(bytes);
}

Nonce nonce_of(std::string_view bytes) {
  Nonce nonce{};
  for (std::size_t i = 0; i < bytes.size() && i < nonce.size(); ++i) {
    nonce[i] = static_cast<unsigned char>(bytes[i]);
  }
  return nonce;
}

/// What a forger can say, who has read this program and has a key of its own.
std::string forge(std::uint8_t kind, std::string_view bytes, std::string const& heard) {
  switch (kind % 6) {
    case 0: return std::string(bytes);
    case 1: return write_call({nonce_of(bytes), id_of(key_of(kind % 9))}).append(bytes.substr(0, kind / 6 % 3));
    case 2: return write_answer({nonce_of(bytes), id_of(key_of(9)), {{WrapKind::secret, std::string(bytes)}}});
    case 3: return Sealer(key_of(8)).seal(bytes);
    case 4: return sign_death_notice(key_of(8), {std::string(bytes)});
    default: {  // what it has heard, with one byte changed
      std::string altered = heard;
      if (!altered.empty() && !bytes.empty()) {
        char& byte = altered[static_cast<unsigned char>(bytes[0]) % altered.size()];
        byte = static_cast<char>(byte ^ 1);
      }
      return altered;
    }
  }
}

/// Feeds forged frames, until the end does not listen any more; nothing may come through.
void forge_at(SecureChannel& end, std::string_view input, std::string heard) {
  while (input.size() >= 2) {
    auto const kind = static_cast<std::uint8_t>(input[0]);
    std::size_t const length = static_cast<std::uint8_t>(input[1]);
    auto const led_to = end.on_frame(forge(kind, input.substr(2, length), heard));
    require(!std::holds_alternative<Unsealed>(led_to), "a forged frame came through");
    require(!std::holds_alternative<DeathNotice>(led_to), "a forged note came through");
    require(!end.proven(), "a forger has proven itself");
    if (auto const* const back = std::get_if<SendBack>(&led_to)) {
      heard = back->frame;
    } else if (std::holds_alternative<WantsWraps>(led_to)) {
      heard = end.answer({{WrapKind::secret, wrap(key_of(1), write_grant({key_of(9), {"run"}, {}}), {})}});
    } else if (std::holds_alternative<Broken>(led_to)) {
      return;
    } else {
      end.use_key(key_of(9));  // it has the run's key, and the forger has not
      heard = end.seal("what the forger hears, and may send back");
    }
    input.remove_prefix(std::min(input.size(), 2 + length));
  }
}

void converse(std::string_view input) {
  SecureChannel caller = SecureChannel::of_caller(nonce_of(input), id_of(key_of(9)));
  SecureChannel called = SecureChannel::of_called(key_of(9), nonce_of("x"));
  (void)caller.on_frame(std::get<SendBack>(called.on_frame(caller.call())).frame);
  caller.use_key(key_of(9));
  for (std::size_t size = 0; size < input.size(); size += 7) {
    auto const heard = called.on_frame(caller.seal(input.substr(0, size)));
    require(std::get<Unsealed>(heard).payload == input.substr(0, size), "an honest frame did not come through");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const input(reinterpret_cast<char const*>(data), size);
  SecureChannel called = SecureChannel::of_called(key_of(9), nonce_of("y"));
  forge_at(called, input, "");
  SecureChannel caller = SecureChannel::of_caller(nonce_of("z"));
  forge_at(caller, input, caller.call());
  if (auto const answer = read_answer(input)) {
    require(read_answer(write_answer(*answer)).has_value(), "an answer cannot be written again");
  }
  require(!unwrap(key_of(1), input), "words came out of a wrap that nobody made");
  if (auto const grant = read_grant(input)) {
    require(read_grant(write_grant(*grant)).has_value(), "a grant cannot be written again");
    (void)take_key(*grant, {"run"}, id_of_call(input));
  }
  converse(input);
  return 0;
}

// Where the driver starts from: a call, an answer, a sealed frame, a note, and what was heard sent back.
std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = {write_answer({nonce_of("a"), id_of(key_of(9)), {{WrapKind::munge, "credential"}}}),
                                    write_grant({key_of(9), {"run"}, {id_of_call("call")}})};
  for (std::string const order : {"1", "13", "14", "15", "2", "23", "25", "0", "35"}) {
    std::string seed;
    for (char const kind : order) {
      seed += static_cast<char>(kind - '0');
      seed += '\4';
      seed += "word";
    }
    seeds.push_back(seed);
  }
  return seeds;
}
