#include "cxxrun/arena.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/failure.hpp"
#include "tests/support/catch.hpp"

using cxxrun::Arena;
using cxxrun::Errc;
using cxxrun::Failure;
using cxxrun::PeerFailure;
using namespace std::chrono_literals;

namespace {

Arena arena_of(std::size_t bytes) {
  auto memory = std::make_shared<std::vector<std::byte>>(bytes);
  return {std::span(*memory), memory};
}

std::string refusal(Arena& arena, std::size_t bytes) {
  try {
    static_cast<void>(arena.allocate_bytes(bytes));
  } catch (Failure const& failure) {
    CHECK(failure.error().code == Errc::usage);
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("arena: buffers lie one after another, each on its own cache lines", "[unit]") {
  auto arena = arena_of(1000);
  auto const first = arena.allocate<float>(3);
  auto const second = arena.allocate<double>(5);
  CHECK(first.size() == 3);
  CHECK(reinterpret_cast<std::byte*>(second.data()) - reinterpret_cast<std::byte*>(first.data()) == Arena::kAlignment);
  CHECK(arena.used() == Arena::kAlignment + 40);
  CHECK(arena.size() == 1000);
  second[4] = 1.0;  // ours to write
}

TEST_CASE("arena: when it is full it says what was asked for, used and there", "[unit]") {
  auto arena = arena_of(256);
  static_cast<void>(arena.allocate_bytes(100));
  CHECK(refusal(arena, 129) == "arena exhausted: asked for 129 bytes, 100 of its 256 are used; make a larger one");
  CHECK(arena.used() == 100);  // a refused allocation takes nothing
  CHECK(arena.allocate_bytes(128).size() == 128);
  CHECK(arena.used() == 256);
  CHECK(arena.allocate_bytes(0).empty());
  CHECK(!refusal(arena, 1).empty());
}

TEST_CASE("arena: a size that overflows is refused", "[unit]") {
  auto arena = arena_of(1000);
  static_cast<void>(arena.allocate_bytes(1));
  CHECK(!refusal(arena, SIZE_MAX).empty());
  CHECK(!refusal(arena, SIZE_MAX - 127).empty());
  CHECK_THROWS_AS(arena.allocate<double>(SIZE_MAX / 8 + 2), Failure);  // 8 bytes if the product had wrapped around
  CHECK(arena.used() == 1);
}

TEST_CASE("arena: copies never hand out the same bytes, and keep the memory", "[unit]") {
  auto first = std::make_unique<Arena>(arena_of(512));
  Arena second = *first;
  auto const a = first->allocate_bytes(10);
  auto const b = second.allocate_bytes(10);
  CHECK(b.data() - a.data() == Arena::kAlignment);
  first.reset();
  b[9] = std::byte{1};  // under ASan this shows that the memory still exists
}

TEST_CASE("arena: the empty one has nothing", "[unit]") {
  Arena none;
  CHECK(none.size() == 0);
  CHECK(none.allocate_bytes(0).empty());
  CHECK(!refusal(none, 1).empty());
}

TEST_CASE("failure: a peer's failure says who, where, how and when", "[unit]") {
  PeerFailure const died(PeerFailure::Why::died, 3, "node2", 4, 1249us);
  CHECK(std::string(died.what()) == "rank 3 on node2 died (call began 1.2 ms ago, generation 4)");
  CHECK(died.rank() == 3);
  CHECK(died.host() == "node2");
  CHECK(died.generation() == 4);
  CHECK(died.after() == 1249us);
  CHECK(died.why() == PeerFailure::Why::died);
}

TEST_CASE("failure: every way has its words", "[unit]") {
  using Why = PeerFailure::Why;
  CHECK(std::string(PeerFailure(Why::left, 0, "a", 0, 999us).what()) ==
        "rank 0 on a left while others still called (call began 999 us ago, generation 0)");
  CHECK(std::string(PeerFailure(Why::timeout, 1, "b", 1, 5min).what()) ==
        "rank 1 on b did not arrive in time (call began 300.0 s ago, generation 1)");
  CHECK(std::string(PeerFailure(Why::lost, 2, "c", 2, -1us).what()) ==
        "the connection to rank 2 on c is lost (call began 0 us ago, generation 2)");
}
