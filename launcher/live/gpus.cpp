#include "launcher/live/gpus.hpp"

#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::live {
namespace {

constexpr std::string_view kBegin = "gpus";
constexpr char const* kNotKnown = "-";

// nvml.h: nvmlClocksThrottleReason…
constexpr std::uint64_t kSwPowerCap = 0x4;
constexpr std::uint64_t kHwSlowdown = 0x8;  // also set with each of the other reasons of the hardware
constexpr std::uint64_t kSwThermal = 0x20;
constexpr std::uint64_t kHwThermal = 0x40;
constexpr std::uint64_t kHwPowerBrake = 0x80;

std::optional<Gpu> read_gpu(std::string const& word) {
  std::array<std::uint32_t, 5> numbers{};
  auto const texts = split(word, ':');
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto const number = i < texts.size() ? number_in<std::uint32_t>(texts[i]) : std::nullopt;
    if (!number) {
      return std::nullopt;
    }
    numbers.at(i) = *number;
  }
  auto const [number, percent, mhz, max_mhz, throttled] = numbers;
  return Gpu{number, percent, mhz, max_mhz, throttle_in(throttled)};
}

}  // namespace

Throttle throttle_of(std::uint64_t reasons) {
  return (reasons & (kSwThermal | kHwThermal)) != 0       ? Throttle::heat
         : (reasons & (kSwPowerCap | kHwPowerBrake)) != 0 ? Throttle::power
         : (reasons & kHwSlowdown) != 0                   ? Throttle::slowdown
                                                          : Throttle::none;
}

Throttle throttle_in(std::int64_t number) {
  return number > 0 && number <= static_cast<std::int64_t>(Throttle::slowdown) ? static_cast<Throttle>(number)
                                                                               : Throttle::none;
}

std::string name_of(Throttle throttle) {
  switch (throttle) {
    case Throttle::none: break;
    case Throttle::heat: return "heat";
    case Throttle::power: return "power";
    case Throttle::slowdown: return "slowdown";
  }
  return "";
}

std::string throttled_text(Gpu const& gpu) {
  if (gpu.throttled == Throttle::none) {
    return "";
  }
  auto const by = gpu.throttled == Throttle::slowdown ? "its hardware" : name_of(gpu.throttled);
  auto const mhz = gpu.mhz > 0 && gpu.max_mhz > 0
                       ? ", " + std::to_string(gpu.mhz) + " of " + std::to_string(gpu.max_mhz) + " MHz"
                       : "";
  return "GPU " + std::to_string(gpu.number) + " is throttled by " + by + mhz;
}

std::string gpus_line(Gpus const& gpus) {
  std::string line(kBegin);
  for (auto const& gpu : gpus) {
    line += " " +
            (gpu ? std::to_string(gpu->number) + ":" + std::to_string(gpu->percent) + ":" + std::to_string(gpu->mhz) +
                       ":" + std::to_string(gpu->max_mhz) + ":" + std::to_string(static_cast<unsigned>(gpu->throttled))
                 : kNotKnown);
  }
  return line;
}

std::optional<Gpus> read_gpus(std::string_view line) {
  auto const words = split(line, ' ');
  if (words.front() != kBegin) {
    return std::nullopt;
  }
  Gpus gpus;
  for (std::size_t i = 1; i < words.size(); ++i) {
    gpus.push_back(read_gpu(words[i]));
  }
  return gpus;
}

}  // namespace cxxrun::launcher::live
