#include "src/base/worker/agent_packets.hpp"

#include <random>

#include "tests/support/catch.hpp"

using namespace cxxrun::worker;  // NOLINT(google-build-using-namespace)
using namespace cxxrun::wire;    // NOLINT(google-build-using-namespace)

namespace {

std::vector<FromWorker> const kWorkers{Register{3, 7, true},
                                       Register{3, 7, true, true},
                                       Register{},
                                       Parked{~0ULL, "rank 2 is gone\n"},
                                       Parked{1, ""},
                                       RailClaim{},
                                       RailClaim{RailSide::called, {.from = 3}, {.from = 7}, "sixteen bytes it"},
                                       Question{"status"},
                                       Question{}};
std::vector<FromAgent> const kAgents{Welcome{},
                                     No{"no worker of this agent"},
                                     Resume{4, {"RANK=1", "EMPTY=", "A=b=c"}},
                                     Resume{},
                                     RailVerdict{},
                                     RailVerdict{RailVerdict::What::relayed, ""},
                                     RailVerdict{RailVerdict::What::right, "sixteen bytes it"},
                                     Answer{true, "{}\n"},
                                     Answer{}};

bool understood(std::string_view bytes) {
  return decode_from_worker(bytes) || decode_from_agent(bytes);
}

}  // namespace

TEST_CASE("every packet between a worker and its agent reads back as it was written") {
  for (auto const& packet : kWorkers) {
    CHECK(decode_from_worker(encode(packet)) == packet);
    CHECK_FALSE(decode_from_agent(encode(packet)));  // no message of a worker is one of an agent
  }
  for (auto const& packet : kAgents) {
    CHECK(decode_from_agent(encode(packet)) == packet);
    CHECK_FALSE(decode_from_worker(encode(packet)));
  }
}

TEST_CASE("no part of a worker's packet passes for one, nor one with something behind it") {
  for (auto const& packet : kWorkers) {
    std::string const whole = encode(packet);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CHECK_FALSE(understood(whole.substr(0, size)));
    }
    CHECK_FALSE(understood(whole + '\0'));
  }
}

TEST_CASE("an environment that is too long is cut at a variable, and a reason at 500 bytes") {
  Resume resume{9, {}};
  for (int i = 0; i < 1000; ++i) {
    resume.environment.push_back("VARIABLE" + std::to_string(i) + "=" + std::string(100, 'x'));
  }
  std::string const bytes = encode(FromAgent{resume});
  CHECK(bytes.size() <= kMostBytes);
  CHECK(bytes.size() > kMostBytes - 200);
  auto const read = decode_from_agent(bytes);
  REQUIRE(read);
  auto const& some = std::get<Resume>(*read).environment;
  REQUIRE(some.size() < resume.environment.size());
  CHECK(std::equal(some.begin(), some.end(), resume.environment.begin()));
  auto const parked = decode_from_worker(encode(FromWorker{Parked{1, std::string(600, 'y')}}));
  REQUIRE(parked);
  CHECK(std::get<Parked>(*parked).why == std::string(500, 'y'));
}

TEST_CASE("what is no variable, no flag or too large is no packet") {
  for (auto const* const word : {"RANK", "=1", ""}) {
    CHECK_FALSE(decode_from_agent(encode(FromAgent{Resume{1, {word}}})));
  }
  CHECK_FALSE(decode_from_agent(encode(FromAgent{Resume{1, {std::string("A=b\0c", 5)}}})));
  std::string flag = encode(FromWorker{Register{1, 1, true}});
  flag.back() = 3;
  CHECK_FALSE(understood(flag));
  CHECK_FALSE(understood(encode(FromAgent{Resume{1, {"A=" + std::string(kMostBytes - 40, 'x')}}}) +
                         std::string(kMostBytes, '\0')));
}

TEST_CASE("bytes that are damaged are another packet or none") {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp)
  std::vector<std::string> all;
  for (auto const& packet : kWorkers) {
    all.push_back(encode(packet));
  }
  for (auto const& packet : kAgents) {
    all.push_back(encode(packet));
  }
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = all[random() % all.size()];
    for (std::uint32_t i = 0; i <= random() % 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (auto const worker = decode_from_worker(bytes)) {
      CHECK(encode(*worker) == bytes);
    }
    if (auto const agent = decode_from_agent(bytes)) {
      CHECK(encode(*agent) == bytes);
    }
  }
}
