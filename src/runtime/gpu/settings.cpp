#include "src/runtime/gpu/settings.hpp"

#include <algorithm>
#include <array>

#include <climits>

#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::gpu {
namespace {

constexpr int kMostCtas = 64;  // NCCL's kernels have so many blocks at most; it takes more for that
constexpr int kLargestCluster = 8;
constexpr int kLargestClass = 255;
constexpr std::size_t kLongestName = 64;
constexpr int kFirstWithClass = 22602;

struct Number {
  char const* name;
  std::optional<int> value;
  int least;
  int most;
};

std::array<Number, 4> numbers_of(NcclSettings const& settings) {
  return {Number{"min_ctas", settings.min_ctas, 1, kMostCtas}, Number{"max_ctas", settings.max_ctas, 1, kMostCtas},
          Number{"cga_cluster_size", settings.cga_cluster_size, 0, kLargestCluster},
          Number{"traffic_class", settings.traffic_class, 0, kLargestClass}};
}

}  // namespace

std::optional<std::string> refusal(NcclSettings const& settings) {
  for (auto const& [name, value, least, most] : numbers_of(settings)) {
    if (value && (*value < least || *value > most)) {
      return std::string("Options::nccl.") + name + " is " + std::to_string(*value) + "; give a number from " +
             std::to_string(least) + " to " + std::to_string(most);
    }
  }
  if (settings.min_ctas && settings.max_ctas && *settings.min_ctas > *settings.max_ctas) {
    return "Options::nccl.min_ctas is " + std::to_string(*settings.min_ctas) + " and max_ctas " +
           std::to_string(*settings.max_ctas) + "; give a least that is not more than the most";
  }
  bool const plain =
      std::all_of(settings.name.begin(), settings.name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain || settings.name.size() > kLongestName) {
    return "Options::nccl.name is not a name of at most " + std::to_string(kLongestName) +
           " printable ASCII characters without spaces";
  }
  return std::nullopt;
}

std::optional<std::string> refusal(NcclSettings const& settings, int nccl) {
  if (settings.traffic_class && nccl < kFirstWithClass) {
    return "Options::nccl.traffic_class is set, and NCCL " + comm::nccl_version(nccl) +
           " knows none; it takes 2.26.2 or newer, or NCCL_IB_TC and NCCL_IB_SL in its place";
  }
  return std::nullopt;
}

std::string describe(NcclSettings const& settings) {
  std::string text;
  for (auto const& [name, value, least, most] : numbers_of(settings)) {
    text += value ? (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(*value) : "";
  }
  if (!settings.name.empty()) {
    text += (text.empty() ? "name \"" : ", name \"") + settings.name + "\"";
  }
  return text.empty() ? "nothing" : text;
}

cxxrun_cuda_settings for_plugin(NcclSettings const& settings) {
  auto most = settings.max_ctas;
  if (settings.min_ctas && !most) {
    most = kMostCtas;  // NCCL takes a least that is given alone for more than the most
  }
  return {.min_ctas = settings.min_ctas.value_or(INT_MIN),
          .max_ctas = most.value_or(INT_MIN),
          .cga_cluster_size = settings.cga_cluster_size.value_or(INT_MIN),
          .traffic_class = settings.traffic_class.value_or(INT_MIN),
          .name = settings.name.empty() ? nullptr : settings.name.c_str()};
}

}  // namespace cxxrun::gpu
