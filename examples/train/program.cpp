#include "train/program.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "cxxrun/elastic.hpp"
#include "cxxrun/failure.hpp"
#include "train/model.hpp"
#include "train/training.hpp"

namespace train {
namespace {

constexpr int kPeerFailed = 75;  // sysexits.h: try again

void train(Program const& program, Options const& options) {
  // What can fail on its own comes before the ranks meet.
  Text const text(options.text.empty() ? std::string(built_in_text()) : Text::read(options.text), Shape{}.context);
  auto const trainer = program.make_trainer(text, options);
  Training training(*trainer, options);
  cxxrun::run_elastic(training, program.communicator);
}

int complain(Program const& program, char const* what, int code) {
  std::fprintf(stderr, "%s: %s\n", program.name, what);
  return code;
}

}  // namespace

int run(Program const& program, int argc, char** argv) {
  auto const options = parse(std::span<char const* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (!options) {
    return complain(program, options.error().message().c_str(), 1);
  }
  if (options->help) {
    std::fputs(usage(program.name).c_str(), stdout);
    return 0;
  }
  try {
    train(program, *options);
    return 0;
  } catch (cxxrun::PeerFailure const& failure) {
    complain(program, failure.what(), kPeerFailed);
    // The launcher should hear of the cause before it hears of this consequence. It usually ends this process first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return kPeerFailed;
  } catch (std::exception const& failure) {
    return complain(program, failure.what(), 1);
  }
}

}  // namespace train
