// Gpus: what NVIDIA's driver says of the GPUs of a node's workers, as the program that asks it tells the agent. Pure
// and total.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher::live {

/// The first argument that makes cxxrun the program that asks (launcher/programs/gpus_main.cpp).
inline constexpr std::string_view kTellGpus = "--tell-gpus";

/// What holds the clock of a GPU down; if several things do, the first of these.
enum class Throttle : std::uint8_t { none, heat, power, slowdown };
/// `reasons`: the bits of nvmlDeviceGetCurrentClocksThrottleReasons.
[[nodiscard]] Throttle throttle_of(std::uint64_t reasons);
/// None, if no such number is known.
[[nodiscard]] Throttle throttle_in(std::int64_t number);
/// "" = none.
[[nodiscard]] std::string name_of(Throttle throttle);

struct Gpu {
  std::uint32_t number = 0;   ///< as nvidia-smi counts
  std::uint32_t percent = 0;  ///< of the time in which it was busy
  std::uint32_t mhz = 0;      ///< clock of its multiprocessors now; 0: not known
  std::uint32_t max_mhz = 0;  ///< 0: not known
  Throttle throttled = Throttle::none;
  bool operator==(Gpu const&) const = default;
};
/// "GPU 4 is throttled by heat, 1290 of 1980 MHz"; "" if it is not throttled.
[[nodiscard]] std::string throttled_text(Gpu const& gpu);

/// The GPU of each worker, by local rank; nothing where it is not known.
using Gpus = std::vector<std::optional<Gpu>>;
/// One line, without its end.
[[nodiscard]] std::string gpus_line(Gpus const& gpus);
/// Nothing if it is no such line: a library may write, too.
[[nodiscard]] std::optional<Gpus> read_gpus(std::string_view line);

}  // namespace cxxrun::launcher::live
