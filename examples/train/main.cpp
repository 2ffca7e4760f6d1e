// train: trains a small GPT on all ranks of the job. examples/train/README.md says how to start it.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "cxxrun/elastic.hpp"
#include "cxxrun/failure.hpp"
#include "train/training.hpp"

namespace {

constexpr int kPeerFailed = 75;  // sysexits.h: try again

void run(train::Options const& options) {
  // What can fail on its own comes before the ranks meet.
  train::Text const text(options.text.empty() ? std::string(train::built_in_text()) : train::Text::read(options.text),
                         train::Shape{}.context);
  train::Training training(text, options);
  cxxrun::run_elastic(training);
}

int complain(char const* what, int code) {
  std::fprintf(stderr, "train: %s\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = train::parse(std::span<char const* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (!options) {
    return complain(options.error().message().c_str(), 1);
  }
  if (options->help) {
    std::fputs(train::usage().c_str(), stdout);
    return 0;
  }
  try {
    run(*options);
    return 0;
  } catch (cxxrun::PeerFailure const& failure) {
    complain(failure.what(), kPeerFailed);
    // The launcher should hear of the cause before it hears of this consequence. It usually ends this process first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return kPeerFailed;
  } catch (std::exception const& failure) {
    return complain(failure.what(), 1);
  }
}
