#include "cxxrun/error.hpp"

#include <cstring>

namespace cxxrun {

std::string Error::message() const {
  if (os_errno == 0) {
    return context;
  }
  return context + ": " + std::strerror(os_errno);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace cxxrun
