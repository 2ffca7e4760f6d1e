// report_bench: what the evidence and the report of a failure cost. A release build, without arguments, by hand: exit
// code 1 when a figure is over its bar. With --smoke: a small round, and no bars.
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "launcher/report/evidence.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_json.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

/// Of this process's CPU time: others may run on the machine.
double ms_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
}

/// A thousand lines as a crash with many threads leaves them.
std::string crash(int lines) {
  std::string text =
      "Traceback (most recent call last):\n  File \"/job/train.py\", line 12, in step\nValueError: no data\n";
  for (int i = 0; i < lines; ++i) {
    switch (i % 4) {
      case 0:
        text += "frame #" + std::to_string(i) + ": c10::Error::Error(c10::SourceLocation) (0x7f3a in lib.so)\n";
        break;
      case 1: text += "  File \"/usr/lib/python3.12/threading.py\", line " + std::to_string(i) + " in wait\n"; break;
      case 2: text += "block: [" + std::to_string(i) + ",0,0] is done with all of its elements\n"; break;
      default: text += "another line of output, of which there are many: " + std::string(i % 60 + 1, 'x') + "\n"; break;
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  bool const smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  int const ranks = smoke ? 8 : 512;
  int const lines = smoke ? 50 : 1000;
  std::string const text = crash(lines);
  rendezvous::Verdict verdict;
  verdict.end = rendezvous::End::worker_failed;

  auto start = std::clock();
  for (int rank = 0; rank < ranks; ++rank) {
    launcher::Evidence evidence;
    evidence.feed(text, {});
    auto const words = evidence.words();
    rendezvous::Failure failure;
    failure.host = "node" + std::to_string(rank / 8);
    failure.exit.rank = static_cast<std::uint32_t>(rank);
    failure.exit.status = ExitStatus::exited(1);
    failure.exit.stderr_tail = words.tail;
    failure.exit.told = words.told;
    failure.exit.role = words.role;
    verdict.failures.push_back(failure);
  }
  double const folding = ms_since(start);

  start = std::clock();
  auto const report = launcher::format_report(verdict, "train.py", false);
  auto const json = launcher::verdict_json(verdict);
  double const telling = ms_since(start);

  launcher::Evidence flood;
  std::string const block(64, 'x');
  std::size_t const times = smoke ? 1000 : 2'000'000;
  start = std::clock();
  for (std::size_t i = 0; i < times; i += 1000) {
    std::string chunk;
    for (int line = 0; line < 1000; ++line) {
      chunk += block.substr(1) + "\n";
    }
    flood.feed(chunk, Clock::now());
  }
  double const flooded = ms_since(start);

  std::printf("folding %d ranks x %d lines: %.1f ms (bar 1000)\n", ranks, lines, folding);
  std::printf("report and verdict.json of %d ranks: %.1f ms (bar 100), %zu + %zu bytes\n", ranks, telling,
              report.size(), json.size());
  std::printf("a flood of lines of 64 bytes: %.0f MB/s\n", static_cast<double>(times * 64) / 1e3 / flooded);
  return smoke || (folding <= 1000 && telling <= 100) ? 0 : 1;
}
