#include "launcher/logs/line_folder.hpp"

#include <map>
#include <random>

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{1000s};

/// Streams 0 to count - 1, of ranks 10, 11, …
LineFolder open_streams(std::uint32_t count) {
  LineFolder folder;
  for (std::uint32_t id = 0; id < count; ++id) {
    folder.open(id, 10 + id, "[h:" + std::to_string(10 + id) + "] ");
  }
  return folder;
}

std::vector<std::uint32_t> ranks_of(std::string const& list) {
  std::vector<std::uint32_t> ranks;
  for (auto const& item : split(list, ',')) {
    auto const ends = split(item, '-');
    for (auto rank = std::stoul(ends.front()); rank <= std::stoul(ends.back()); ++rank) {
      ranks.push_back(static_cast<std::uint32_t>(rank));
    }
  }
  return ranks;
}

/// Expands the output: the lines of each rank.
std::map<std::uint32_t, std::string> expanded(std::string const& out, std::uint32_t count) {
  std::map<std::uint32_t, std::string> ranks;
  for (std::string_view rest = out; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    auto const label = std::string(line.substr(0, line.find(']')));
    auto const text = line.substr(line.find(']') + 2);
    auto const list = label.starts_with("[h:")                ? label.substr(3)
                      : label.find(": ") != std::string::npos ? label.substr(label.find(": ") + 2)
                                                              : "10-" + std::to_string(9 + count);
    for (auto const rank : ranks_of(list)) {
      ranks[rank] += text;
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("line_folder: a line of every rank is one as soon as the last of them has said it", "[unit]") {
  auto folder = open_streams(8);
  std::string out;
  for (std::uint32_t id = 0; id < 8; ++id) {
    CHECK(out.empty());
    folder.feed(id, "epoch 1\n", kStart, out);
  }
  CHECK(out == "[×8] epoch 1\n");
  CHECK_FALSE(folder.due());
}

TEST_CASE("line_folder: a line of some ranks names them when its time is over, one of few is shown for each",
          "[unit]") {
  auto folder = open_streams(8);
  std::string out;
  for (std::uint32_t const id : {6U, 0U, 1U, 2U}) {
    folder.feed(id, "slow\n", kStart, out);
  }
  folder.feed(3, "alone\n", kStart + 1ms, out);
  for (std::uint32_t const id : {0U, 1U, 2U}) {
    folder.feed(id, "three\n", kStart + 1ms, out);
  }
  CHECK(*folder.due() == kStart + kHeldFor);
  folder.take(kStart + kHeldFor - 1ns, out);
  CHECK(out.empty());
  folder.take(kStart + kHeldFor, out);
  CHECK(out == "[×4: 10-12,16] slow\n");
  out.clear();
  folder.take(kStart + kHeldFor + 1ms, out);
  CHECK(out == "[h:13] alone\n[h:10] three\n[h:11] three\n[h:12] three\n");
}

TEST_CASE("line_folder: a line never overtakes what its rank has said before", "[unit]") {
  auto folder = open_streams(4);
  std::string out;
  folder.feed(0, "a\n", kStart, out);
  folder.feed(0, "b\n", kStart, out);
  folder.feed(1, "b\n", kStart, out);
  folder.feed(1, "a\n", kStart, out);  // cannot join the first a, which comes before b
  folder.flush(out);
  CHECK(out == "[h:10] a\n[h:10] b\n[h:11] b\n[h:11] a\n");
}

TEST_CASE("line_folder: the same line twice by one rank stays two", "[unit]") {
  auto folder = open_streams(4);
  std::string out;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t id = 0; id < 4; ++id) {
      folder.feed(id, "\n", kStart, out);
    }
  }
  CHECK(out == "[×4] \n[×4] \n");
}

TEST_CASE("line_folder: who has left has had its say, and a smaller generation is whole too", "[unit]") {
  auto folder = open_streams(5);
  std::string out;
  for (std::uint32_t id = 0; id < 5; ++id) {
    folder.feed(id, "bye\n", kStart, out);
    folder.close(id);
  }
  CHECK(out == "[×5] bye\n");
  out.clear();
  for (std::uint32_t id = 7; id < 11; ++id) {
    folder.open(id, id, "");
  }
  for (std::uint32_t id = 7; id < 11; ++id) {
    folder.feed(id, "hello\n", kStart, out);
  }
  CHECK(out == "[×4] hello\n");
}

TEST_CASE("line_folder: what is held is bounded", "[unit]") {
  auto folder = open_streams(4);
  std::string out;
  std::size_t given = 0;
  for (int i = 0; i < 100'000; ++i) {
    folder.feed(0, std::to_string(i) + "\n", kStart, out);
    given += out.size();
    out.clear();
  }
  folder.feed(1, std::string(kMostHeld, 'x') + "\n", kStart, out);
  CHECK(given > 0);
  CHECK_FALSE(folder.due());
}

TEST_CASE("line_folder: whatever is said in whatever order, expanding what comes out gives it again, in time",
          "[unit]") {
  std::mt19937 random(19);
  auto const below = [&random](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most - 1)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::uint32_t const count = 1 + below(12);
    std::uint32_t const words = 1 + below(6);
    auto folder = open_streams(count);
    std::map<std::uint32_t, std::string> said;
    std::string out;
    auto now = kStart;
    for (int i = 0; i < 300; ++i) {
      auto const id = below(count);
      auto const line = std::string(below(words), 'w') + "\n";
      said[10 + id] += line;
      folder.feed(id, line, now, out);
      now += Millis{below(30)};
      folder.take(now, out);
      if (folder.due()) {
        REQUIRE(*folder.due() > now);
        REQUIRE(*folder.due() <= now + kHeldFor);
      }
    }
    folder.flush(out);
    REQUIRE(expanded(out, count) == said);
  }
}
