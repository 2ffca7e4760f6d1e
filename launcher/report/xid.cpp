#include "launcher/report/xid.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

struct Known {
  std::uint32_t number;
  bool by_program;
  char const* meaning;
};
// NVIDIA's list of Xid errors.
constexpr std::array kKnown{
    Known{13, true, "illegal instruction or address on the GPU"},
    Known{31, true, "illegal address on the GPU"},
    Known{43, true, "a program's channel was reset"},
    Known{45, true, "a program was ended on the GPU"},
    Known{48, false, "memory error that cannot be corrected"},
    Known{63, false, "a row of its memory is to be replaced"},
    Known{64, false, "a row of its memory cannot be replaced"},
    Known{68, true, "a video program failed"},
    Known{74, false, "NVLink error"},
    Known{79, false, "it has fallen off the bus"},
    Known{92, false, "many memory errors that were corrected"},
    Known{94, false, "memory error, contained"},
    Known{95, false, "memory error, not contained"},
    Known{109, true, "a context switch timed out"},
    Known{119, false, "its firmware does not answer"},
    Known{120, false, "its firmware failed"},
};

Explanation told(std::string const& gpu, std::uint32_t number, std::string const& meaning, bool by_program) {
  std::string const xid = "Xid " + std::to_string(number) + (meaning.empty() ? "" : " (" + meaning + ")");
  return by_program ? Explanation{"GPU " + gpu + ": " + xid + ", which a program causes, not the GPU",
                                  "CUDA_LAUNCH_BLOCKING=1 shows the call", true}
                    : Explanation{"GPU " + gpu + " failed: " + xid,
                                  "leave the node out (--exclude) until somebody has looked at its GPU"};
}

}  // namespace

Explanation explain_xids(std::string_view kernel_log) {
  constexpr std::string_view kSign = "NVRM: Xid (PCI:";
  Explanation of_program;
  for (auto const& line : split(kernel_log, '\n')) {
    auto const at = line.find(kSign);
    auto const close = at == std::string::npos ? at : line.find("): ", at);
    if (close == std::string::npos) {
      continue;
    }
    auto const gpu = printable(line.substr(at + kSign.size(), close - at - kSign.size()), 40);
    auto const rest = std::string_view(line).substr(close + 3);
    auto const number = number_in<std::uint32_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (!number) {
      continue;
    }
    auto const known =
        std::find_if(kKnown.begin(), kKnown.end(), [&](auto const& each) { return each.number == *number; });
    bool const by_program = known != kKnown.end() && known->by_program;
    auto found = told(gpu, *number, known == kKnown.end() ? "" : known->meaning, by_program);
    if (!by_program) {
      return found;
    }
    of_program = of_program.cause.empty() ? std::move(found) : of_program;
  }
  return of_program;
}

}  // namespace cxxrun::launcher
