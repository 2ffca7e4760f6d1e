// Plugin: libcxxrun_cuda.so, opened at run time. Shell.
#pragma once

#include "cxxrun/error.hpp"
#include "src/cuda/plugin_api.h"
#include "src/gpu/choice.hpp"

namespace cxxrun::gpu {

/// Looks for device files and libcuda.so.1; a fraction of a millisecond where there is neither.
[[nodiscard]] Signs look_for_signs();

/// The plugin's table: from the file CXXRUN_CUDA_PLUGIN, else from the first there is of: the program's folder,
/// ../lib and ../lib/cxxrun beside it, where cxxrun was installed, the loader's own path. It stays loaded.
/// Errors (not_found): no such file, the loader's own words, another version of the table.
[[nodiscard]] Result<cxxrun_cuda_api const*> load_plugin();

}  // namespace cxxrun::gpu
