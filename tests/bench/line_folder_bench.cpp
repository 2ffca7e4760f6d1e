// line_folder_bench: how long folding takes when 512 ranks write 1,000 lines each. Not a test; run it in a release
// build.
//
// In step: every rank writes line i before any writes line i + 1. One after the other: a rank writes all of its lines,
// then the next does. Nothing alike: no two lines are equal.
#include <cstdio>
#include <ctime>
#include <string>

#include "launcher/logs/line_folder.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace): a program, not a header
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kRanks = 512;
constexpr std::uint32_t kLines = 1000;

template <class Feed>
void measure(char const* name, Feed const& feed_all) {
  LineFolder folder;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    folder.open(rank, rank, "[node1:" + std::to_string(rank) + "] ");
  }
  std::string out;
  auto const begun = std::clock();
  feed_all([&](std::uint32_t rank, std::string const& line) { folder.feed(rank, line, TimePoint{}, out); });
  folder.flush(out);
  auto const took = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  std::printf("%-20s %6.3f s of CPU %9zu bytes shown\n", name, took, out.size());
}

std::string text(std::uint32_t line) {
  return "step " + std::to_string(line) + ": loss 0.25, 1234 samples per second, and so on\n";
}

}  // namespace

int main() {
  measure("in step", [](auto const& feed) {
    for (std::uint32_t line = 0; line < kLines; ++line) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        feed(rank, text(line));
      }
    }
  });
  measure("one after the other", [](auto const& feed) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::uint32_t line = 0; line < kLines; ++line) {
        feed(rank, text(line));
      }
    }
  });
  measure("nothing alike", [](auto const& feed) {
    for (std::uint32_t line = 0; line < kLines; ++line) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        feed(rank, std::to_string(rank) + " " + text(line));
      }
    }
  });
  return 0;
}
