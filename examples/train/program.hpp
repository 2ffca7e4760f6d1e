// What the programs of the trainers have in common: command line, run_elastic, exit codes.
#pragma once

#include <functional>
#include <memory>

#include "cxxrun/communicator.hpp"
#include "train/data.hpp"
#include "train/options.hpp"
#include "train/trainer.hpp"

namespace train {

struct Program {
  char const* name = "train";
  cxxrun::Communicator::Options communicator{};
  std::function<std::unique_ptr<Trainer>(Text const& text, Options const& options)> make_trainer;
};

/// main(): returns the exit code.
[[nodiscard]] int run(Program const& program, int argc, char** argv);

}  // namespace train
