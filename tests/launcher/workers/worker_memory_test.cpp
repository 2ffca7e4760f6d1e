#include "launcher/workers/worker_memory.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::MemoryKeys;
using What = MemoryKeys::Answer::What;

TEST_CASE("memory_keys: the first request makes, later ones have", "[unit]") {
  MemoryKeys keys;

  CHECK(keys.ask(5) == MemoryKeys::Answer{What::make, {}, ""});
  CHECK(keys.ask(6).what == What::make);
  CHECK(keys.ask(5) == MemoryKeys::Answer{What::have, {}, ""});
}

TEST_CASE("memory_keys: the oldest goes, and is refused from then on instead of being made again", "[unit]") {
  MemoryKeys keys;
  for (std::uint64_t key = 0; key < MemoryKeys::kKept; ++key) {
    CHECK_FALSE(keys.ask(key).drop);
  }

  CHECK(keys.ask(100).drop == 0U);
  CHECK(keys.ask(0).what == What::refuse);
  CHECK(keys.ask(1).what == What::have);
  CHECK(keys.ask(101).drop == 1U);
}

TEST_CASE("memory_keys: workers that split into pairs all at once find the memory of their mates", "[unit]") {
  MemoryKeys keys(128);
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    for (std::uint64_t pair = 0; pair < 64; ++pair) {
      CHECK(keys.ask(pair).what == (turn == 0 ? What::make : What::have));
    }
  }
}

TEST_CASE("memory_keys: a flood of keys ends in refusals, not in memory of its own", "[unit]") {
  MemoryKeys keys;
  std::uint64_t made = 0;
  while (keys.ask(made).what == What::make) {
    ++made;
  }

  CHECK(made == MemoryKeys::kKept + MemoryKeys::kRemembered);
  CHECK(keys.ask(made - 1).what == What::have);
}
