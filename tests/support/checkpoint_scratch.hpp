// Checkpoints in a directory that goes with the test, whose contents follow from their step.
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "cxxrun/checkpoint.hpp"
#include "src/runtime/checkpoint/files.hpp"
#include "tests/support/text.hpp"

namespace cxxrun::test {

struct Scratch {
  std::string path = "/tmp/cxxrun_checkpoint_XXXXXX";
  Scratch() {
    if (mkdtemp(path.data()) == nullptr) {
      throw std::runtime_error("mkdtemp failed");
    }
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string at(std::string const& name) const { return path + "/" + name; }
};

/// What a step's blobs hold follows from the step: data of another step, or mixed data, shows.
inline std::vector<std::uint64_t> weights_of(std::uint64_t step, std::size_t size = 6) {
  std::vector<std::uint64_t> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = step * 1'000'003 + i;
  }
  return values;
}

inline void save(Checkpoint& checkpoint, std::uint64_t step, std::size_t size = 6) {
  auto const weights = weights_of(step, size);
  std::array<std::uint64_t, 1> const state{step};
  checkpoint.save(step, {{"weights", bytes_of(weights)}, {"state", bytes_of(state)}});
}

inline bool right(Checkpoint::Loaded const& loaded) {
  auto const bytes = loaded.blob("weights");
  auto const weights = weights_of(loaded.step, bytes.size() / 8);
  auto const state = loaded.blob("state");
  return state.size() == 8 && std::memcmp(state.data(), &loaded.step, 8) == 0 &&
         std::memcmp(bytes.data(), weights.data(), bytes.size()) == 0;
}

inline std::string step_file(std::uint64_t step) {
  return checkpoint::file_name(step);
}

inline std::set<std::string> files_in(std::string const& path) {
  std::set<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator(path)) {
    names.insert(entry.path().filename());
  }
  return names;
}

/// Of a file or a link, 0 of what is not there.
inline mode_t mode_of(std::string const& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777U : 0;
}

inline void write_file(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The Failure of `act`, or an empty one.
template <class Act>
Error error_of(Act const& act) {
  try {
    act();
  } catch (Failure const& failure) {
    return failure.error();
  }
  return {};
}

}  // namespace cxxrun::test
