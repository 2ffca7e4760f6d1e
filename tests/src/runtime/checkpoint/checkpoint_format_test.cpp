#include <algorithm>
#include <random>

#include "src/runtime/checkpoint/format.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::checkpoint;  // NOLINT(google-build-using-namespace)
using cxxrun::Errc;

namespace {

Header example() {
  return {42, 7, "gpt", {{"weights", 1000, 0x12345678}, {"", 0, 0}, {"sampler", 24, 1}}};
}

std::vector<std::byte> bytes_of(std::string const& text) {
  auto const bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("crc32c: the known answers of RFC 3720", "[unit]") {
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283U);
  CHECK(crc32c_portable(bytes_of("123456789")) == 0xe3069283U);
  CHECK(crc32c(bytes_of(std::string(32, '\0'))) == 0x8a9136aaU);
  CHECK(crc32c(bytes_of(std::string(32, '\xff'))) == 0x62a8ab43U);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("crc32c: table and instruction agree on every length, alignment and cut", "[unit]") {
  std::mt19937_64 random(1);  // NOLINT
  std::vector<std::byte> bytes(300);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  for (std::size_t first = 0; first < 9; ++first) {
    for (std::size_t size = 0; size + first <= bytes.size(); ++size) {
      auto const part = std::span(bytes).subspan(first, size);
      auto const whole = crc32c(part);
      REQUIRE(crc32c_portable(part) == whole);
      std::size_t const cut = size / 3;
      REQUIRE(crc32c(part.subspan(cut), crc32c(part.first(cut))) == whole);
    }
  }
}

TEST_CASE("checkpoint: a header comes back as it was", "[unit]") {
  for (Header const& header : {example(), Header{}, Header{~std::uint64_t{0}, ~std::uint64_t{0}, "", {}}}) {
    auto const bytes = encode(header);
    CHECK(bytes.size() == header_bytes(header));
    auto const again = decode(bytes, *file_bytes(header));
    REQUIRE(again);
    CHECK(*again == header);
  }
}

TEST_CASE("checkpoint: the bytes of a header are those of the documentation", "[unit]") {
  std::string hex;
  for (std::byte const byte : encode({42, 7, "m", {{"w", 3, 0x11223344}}})) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[std::to_integer<unsigned>(byte) >> 4U], kDigits[std::to_integer<unsigned>(byte) & 15U]};
  }
  CHECK(hex ==
        "89637878720d0a0a"
        "01000000"
        "3e000000"
        "2a00000000000000"
        "0700000000000000"
        "01000000"
        "01000000"
        "6d"
        "0300000000000000"
        "44332211"
        "01000000"
        "77"
        "4c943440");
}

TEST_CASE("checkpoint: a header that is cut or has one bit flipped is never believed", "[unit]") {
  auto const bytes = encode(example());
  auto const size = *file_bytes(example());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    auto const decoded = decode(std::span(bytes).first(cut), cut);
    REQUIRE_FALSE(decoded);
    REQUIRE(decoded.error().code == Errc::protocol);
  }
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    auto const decoded = decode(flipped, size);
    REQUIRE_FALSE(decoded);
    REQUIRE(decoded.error().code == Errc::protocol);
  }
  CHECK_FALSE(decode(bytes, size - 1));
  CHECK_FALSE(decode(bytes, size + 1));
}

TEST_CASE("checkpoint: a whole header of a later format is not taken for damage", "[unit]") {
  auto bytes = encode(example());
  bytes[8] = std::byte{2};
  auto const crc = crc32c(std::span(bytes).first(bytes.size() - 4));
  for (unsigned i = 0; i < 4; ++i) {
    bytes[bytes.size() - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
  auto const decoded = decode(bytes, *file_bytes(example()));
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code == Errc::usage);
  CHECK(decoded.error().context.find("format 2") != std::string::npos);
}

TEST_CASE("checkpoint: sizes are added up in 63 bits, and no further", "[unit]") {
  Header large = example();
  large.blobs[0].size = std::uint64_t{5} << 30U;
  CHECK(*file_bytes(large) == header_bytes(large) + (std::uint64_t{5} << 30U) + 24);
  auto const decoded = decode(encode(large), *file_bytes(large));
  REQUIRE(decoded);
  CHECK(*decoded == large);
  std::uint64_t const most = (std::uint64_t{1} << 63U) - 1;
  large.blobs[0].size = most - header_bytes(large) - 24;
  CHECK(file_bytes(large) == most);
  ++large.blobs[0].size;
  CHECK_FALSE(file_bytes(large));
  large.blobs[0].size = ~std::uint64_t{0};
  CHECK_FALSE(file_bytes(large));
  CHECK_FALSE(decode(encode(large), header_bytes(large) + 23));  // the sum if it overflowed
}

TEST_CASE("checkpoint: what cannot be saved is refused by name", "[unit]") {
  CHECK_FALSE(refusal(example()));
  CHECK(refusal({1, 1, "m", {{"w", 1, 0}, {"w", 2, 0}}})->find("\"w\"") != std::string::npos);
  CHECK(refusal({1, 1, std::string(256, 'm'), {}})->find("model") != std::string::npos);
  CHECK(refusal({1, 1, "two\nlines", {}}));
  CHECK(refusal({1, 1, "m", {{"a", 1, 0}, {std::string(256, 'n'), 1, 0}}})->find("blob 1") != std::string::npos);
  CHECK(refusal({1, 1, "m", {{"a", ~std::uint64_t{0}, 0}}})->find("larger") != std::string::npos);
  Header many;
  for (int i = 0; i < 1'000'000; ++i) {
    many.blobs.push_back({std::to_string(i), 1, 0});
  }
  CHECK(refusal(many)->find("too many") != std::string::npos);
}

TEST_CASE("checkpoint: names of files sort like steps, and no other name is one", "[unit]") {
  CHECK(file_name(42) == "step_00000000000000000042.ckpt");
  CHECK(file_name(9) < file_name(10));
  for (std::uint64_t const step : {std::uint64_t{0}, std::uint64_t{42}, ~std::uint64_t{0}}) {
    CHECK(step_of(file_name(step)) == step);
    CHECK(is_temporary(temporary_name(step, 3)));
    CHECK_FALSE(step_of(temporary_name(step, 3)));
    CHECK_FALSE(is_temporary(file_name(step)));
  }
  for (std::string const& name :
       {std::string(), std::string("step_"), std::string("step_42.ckpt"), file_name(1) + "x", "x" + file_name(1),
        std::string("step_99999999999999999999.ckpt"), std::string("step_0000000000000000004x.ckpt"),
        std::string("generation.tmp"), std::string("step_.tmp1"), file_name(1) + ".tmp", file_name(1) + ".tmpx"}) {
    CHECK_FALSE(step_of(name));
    CHECK_FALSE(is_temporary(name));
  }
}

TEST_CASE("claim: comes back as it was written, and nothing else is one", "[unit]") {
  for (Claim const& claim : {Claim{"4711.0", 7}, Claim{"", 0}, Claim{"a of run b", ~std::uint64_t{0}}}) {
    CHECK(parse_claim(format_claim(claim)) == claim);
  }
  CHECK(format_claim({"4711.0", 7}) == "generation 7 of run 4711.0\n");
  CHECK(parse_claim(format_claim({"two\nlines", 7}))->run == "two?lines");
  for (char const* const text : {"", "\n", "7\n", "generation 7\n", "generation 7 of run x", "generation  of run x\n",
                                 "generation 99999999999999999999 of run x\n", "generation 7 of run x\ny\n"}) {
    CHECK_FALSE(parse_claim(text));
  }
}

TEST_CASE("claim: an older generation of a run is refused, a new run takes over", "[unit]") {
  Claim const mine{"a", 2};
  for (When const when : {When::opening, When::saving}) {
    CHECK(admit(mine, std::nullopt, when) == Admission{"", true});
    CHECK(admit(mine, mine, when) == Admission{"", false});
    CHECK(admit(mine, Claim{"a", 1}, when) == Admission{"", true});
    auto const older = admit(mine, Claim{"a", 3}, when);
    CHECK(older.refusal.find("generation 3 of run a owns the directory, and this process is of generation 2") == 0);
    CHECK_FALSE(older.write);
  }
  CHECK(admit(mine, Claim{"b", 9}, When::opening) == Admission{"", true});
  CHECK(admit(mine, Claim{"b", 1}, When::saving).refusal.find("generation 1 of run b") == 0);
}
