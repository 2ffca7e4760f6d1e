// Fuzzes the decoder of checkpoint files: no bytes crash it, what it takes encodes to the same bytes, and files of any
// size are not believed beyond what is there.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/runtime/checkpoint/format.hpp"

namespace {

using namespace cxxrun::checkpoint;  // NOLINT(google-build-using-namespace)

void require(bool holds, char const* what) {
  if (!holds) {
    std::fprintf(stderr, "checkpoint_fuzz: %s\n", what);
    std::abort();
  }
}

void check(std::span<std::byte const> bytes, std::uint64_t size) {
  auto const header = decode(bytes, size);
  if (!header) {
    require(!header.error().context.empty(), "an error without a reason");
    return;
  }
  require(!refusal(*header), "a header was read that cannot be written");
  require(file_bytes(*header) == size, "the blobs are not in the file");
  auto const again = encode(*header);
  require(again.size() == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0,
          "encoding again gives other bytes");
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) {
    std::memcpy(bytes.data(), data, size);
  }
  check(bytes, size);
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  (void)step_of(text);
  (void)is_temporary(text);
  if (auto const claim = parse_claim(text)) {
    require(parse_claim(format_claim(*claim)).has_value(), "a claim cannot be written again");
  }
  // Past the checksum, where mutations seldom come by themselves: cut to the length the header states, and sum anew.
  auto const length = decode_preamble(bytes);
  if (!length || *length > bytes.size()) {
    return 0;
  }
  bytes.resize(*length);
  auto const crc = crc32c(std::span(bytes).first(bytes.size() - 4));
  for (unsigned i = 0; i < 4; ++i) {
    bytes[bytes.size() - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
  check(bytes, size);
  auto const alone = decode(bytes, bytes.size());
  require(!alone || file_bytes(*alone) == bytes.size(), "blobs without bytes");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds = {format_claim({"4711.0", 7}), file_name(42), temporary_name(42, 3)};
  for (Header const& header :
       {Header{}, Header{42, 7, "gpt", {{"weights", 5, 1}, {"", 0, 0}}}, Header{1, 1, "m", {{"w", 1ULL << 40U, 0}}}}) {
    auto const bytes = encode(header);
    seeds.emplace_back(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    seeds.push_back(seeds.back() + "12345");
  }
  return seeds;
}
