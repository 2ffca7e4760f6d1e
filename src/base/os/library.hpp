// Functions of a library that is opened at run time. Shell.
#pragma once

#include <dlfcn.h>

namespace cxxrun::os {

/// Whether `library` has it.
template <class Function>
[[nodiscard]] bool find_function(void* library, char const* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT: how dlsym gives functions
  return function != nullptr;
}

}  // namespace cxxrun::os
