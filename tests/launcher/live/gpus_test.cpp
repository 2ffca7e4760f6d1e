#include "launcher/live/gpus.hpp"

#include "launcher/live/live.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::live;  // NOLINT(google-build-using-namespace)

TEST_CASE("gpus: what holds a clock down is heat before power, and idling is nothing of it", "[unit]") {
  CHECK(throttle_of(0) == Throttle::none);
  CHECK(throttle_of(0x1 | 0x2 | 0x10 | 0x100) == Throttle::none);  // idle, application clocks, sync boost, display
  CHECK(throttle_of(0x8) == Throttle::slowdown);
  CHECK(throttle_of(0x4) == Throttle::power);
  CHECK(throttle_of(0x8 | 0x80) == Throttle::power);
  CHECK(throttle_of(0x20) == Throttle::heat);
  CHECK(throttle_of(0x4 | 0x8 | 0x40) == Throttle::heat);
  CHECK(name_of(throttle_in(1)) == "heat");
  CHECK(name_of(throttle_in(3)) == "slowdown");
  CHECK(name_of(throttle_in(4)).empty());
  CHECK(name_of(throttle_in(-1)).empty());
}

TEST_CASE("gpus: a throttled one is a sentence, with its clock where that is known", "[unit]") {
  CHECK(throttled_text({4, 97, 1290, 1980, Throttle::heat}) == "GPU 4 is throttled by heat, 1290 of 1980 MHz");
  CHECK(throttled_text({0, 97, 1290, 0, Throttle::power}) == "GPU 0 is throttled by power");
  CHECK(throttled_text({0, 97, 0, 1980, Throttle::slowdown}) == "GPU 0 is throttled by its hardware");
  CHECK(throttled_text({4, 97, 1290, 1980, Throttle::none}).empty());
}

TEST_CASE("gpus: a line has a word for each worker, and no other line is taken for one", "[unit]") {
  Gpus const gpus{Gpu{4, 97, 1290, 1980, Throttle::heat}, std::nullopt, Gpu{}};
  CHECK(gpus_line(gpus) == "gpus 4:97:1290:1980:1 - 0:0:0:0:0");
  CHECK(read_gpus(gpus_line(gpus)) == gpus);
  CHECK(read_gpus("gpus") == Gpus{});
  CHECK(read_gpus("gpus 4:97:1290:1980 4:97:1290:1980:x -1:97:1290:1980:0 4294967296:0:0:0:0 ") == Gpus(5));
  for (auto const* const line : {"", "no driver", "NVML: gpus", "gpus4:97:1290:1980:1"}) {
    CHECK_FALSE(read_gpus(line));
  }
}

TEST_CASE("gpus: the figures of a pulse say the same, and absurd ones are no trouble", "[unit]") {
  Row row{};
  CHECK_FALSE(gpu_of(row));
  Gpu const gpu{0, 97, 1290, 1980, Throttle::power};
  set_gpu(row, gpu);
  CHECK(gpu_of(row) == gpu);
  of(row, Figure::gpu) = -1;
  CHECK_FALSE(gpu_of(row));
  of(row, Figure::gpu) = INT64_MAX;
  of(row, Figure::gpu_mhz) = INT64_MIN;
  of(row, Figure::throttled) = INT64_MAX;
  CHECK(gpu_of(row) == Gpu{UINT32_MAX - 1, 97, 0, 1980, Throttle::none});
}
