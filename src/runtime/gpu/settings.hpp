// NcclSettings as they are checked, compared between ranks and handed to the plugin. Pure.
#pragma once

#include <optional>
#include <string>

#include "cxxrun/communicator.hpp"
#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::gpu {

/// Why no NCCL takes them, or with `nccl` this one (22809): the sentence, or nothing.
[[nodiscard]] std::optional<std::string> refusal(NcclSettings const& settings);
[[nodiscard]] std::optional<std::string> refusal(NcclSettings const& settings, int nccl);

/// "max_ctas 8, name \"trainer\"", "nothing": the same text for the same settings.
[[nodiscard]] std::string describe(NcclSettings const& settings);

/// The name stays `settings`'.
[[nodiscard]] cxxrun_cuda_settings for_plugin(NcclSettings const& settings);

}  // namespace cxxrun::gpu
