// The trainer's command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cxxrun/error.hpp"

namespace train {

struct Options {
  std::uint64_t steps = 400;
  std::size_t batch = 8;  ///< samples per rank and step
  float rate = 6e-3F;
  std::uint64_t seed = 1;
  std::uint64_t save_every = 20;
  std::string checkpoint_directory;  ///< empty: nothing is saved
  std::string curve;
  std::string text;  ///< empty: the one that is built in
  bool refuse_damaged = false;
  bool quiet = false;
  bool help = false;
};

/// The arguments behind the program's name. Errors: usage, naming the option and what would be right.
[[nodiscard]] cxxrun::Result<Options> parse(std::span<char const* const> arguments);
/// `program` is its name.
[[nodiscard]] std::string usage(std::string const& program = "train");

}  // namespace train
