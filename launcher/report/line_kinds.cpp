#include "launcher/report/line_kinds.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Role;

/// Words in a line, and what the line means then.
struct Sign {
  std::string_view words;
  Strength strength;
  Role role = Role::culprit;
};

constexpr std::array kSigns{
    Sign{"Watchdog caught collective operation timeout", Strength::decides, Role::waited},
    Sign{"NCCL communicator was aborted", Strength::tells, Role::waited},
    Sign{"Timed out waiting ", Strength::tells, Role::waited},           // gloo
    Sign{"seconds waiting for clients", Strength::tells, Role::waited},  // the store
    Sign{"Socket Timeout", Strength::tells, Role::waited},               // the store
    Sign{"wait timeout after ", Strength::tells, Role::waited},          // the store, since 2.5
    Sign{"timeout caused pair closure", Strength::tells, Role::waited},  // gloo: another call timed out on this pair
    Sign{"failed to pass monitoredBarrier", Strength::tells, Role::waited},    // names the other ranks
    Sign{"due to a collective timeout from ", Strength::tells, Role::waited},  // names the other rank
    Sign{" did not arrive in time (call began ", Strength::tells, Role::waited},
    Sign{"Connection closed by peer", Strength::tells, Role::lost_peer},  // gloo: with the peer's address
    Sign{"Connection closed by remote peer", Strength::tells, Role::lost_peer},
    Sign{"reset by peer", Strength::tells, Role::lost_peer},
    Sign{"ncclRemoteError", Strength::tells, Role::lost_peer},
    Sign{"remote process exited", Strength::tells, Role::lost_peer},
    Sign{"Connection was likely closed", Strength::tells, Role::lost_peer},  // to the store: its rank has left
    Sign{"Broken pipe", Strength::tells, Role::lost_peer},
    Sign{" died (call began ", Strength::tells, Role::lost_peer},
    Sign{" left while others still called (call began ", Strength::tells, Role::lost_peer},
    Sign{" is lost (call began ", Strength::tells, Role::lost_peer},
    Sign{"launcher ended the generation (call began ", Strength::tells, Role::told_to_end},
    Sign{"SignalException: Process ", Strength::tells, Role::told_to_end},
    Sign{"killed by signal: Terminated", Strength::tells, Role::told_to_end},
    Sign{"killed by signal: ", Strength::decides},  // a DataLoader worker
    Sign{"Elastic: a helper that multiprocessing has started ", Strength::decides},
    Sign{" Assertion `", Strength::decides},  // of C, and of CUDA, where hundreds follow
    Sign{"ERROR: AddressSanitizer", Strength::decides},
    Sign{"ERROR: LeakSanitizer", Strength::decides},
    Sign{"ERROR: UndefinedBehaviorSanitizer", Strength::decides},
    Sign{"WARNING: MemorySanitizer", Strength::decides},
    Sign{"WARNING: ThreadSanitizer", Strength::tells},
    Sign{"runtime error: ", Strength::tells},
    Sign{"CUDA error", Strength::tells},
    Sign{"Error:", Strength::tells},
    Sign{"Exception:", Strength::tells},
    Sign{"panicked at ", Strength::explains},
    Sign{"Segmentation fault", Strength::tells},
    Sign{"terminate called ", Strength::tells},
    Sign{"libc++abi: ", Strength::tells},
    Sign{"error while loading shared libraries: ", Strength::tells},
    Sign{"symbol lookup error: ", Strength::tells},
    Sign{"' not found (required by ", Strength::tells},  // "version `GLIBC_2.38'"
    Sign{": No module named ", Strength::tells},
    Sign{": can't open file '", Strength::tells},
    Sign{"NCCL WARN", Strength::hints},
};

constexpr std::string_view kFatal = "Fatal Python error: ";
constexpr std::array<std::string_view, 5> kAborts{"free(): ", "malloc(): ", "double free or corruption", "corrupted ",
                                                  "*** stack smashing detected"};

/// Words that mean something only at the start or end of a line, or that give a meaning to the lines that follow.
constexpr std::array<std::string_view, 11> kOthers{"Error",
                                                   "Exception",
                                                   "KeyboardInterrupt",
                                                   "what():",
                                                   "Traceback (most recent call last)",
                                                   "During handling of the above exception",
                                                   "The above exception was the",
                                                   "Last error:",
                                                   "Current thread 0x",
                                                   "--- Logging error ---",
                                                   kFatal};

using Words = std::array<std::string_view, kSigns.size() + kOthers.size() + kAborts.size()>;

/// All words: first those of the signs, in the same order, so that the number of a word is that of its sign.
constexpr Words kWords = [] {
  Words list;
  auto end = std::transform(kSigns.begin(), kSigns.end(), list.begin(), [](Sign const& sign) { return sign.words; });
  end = std::copy(kOthers.begin(), kOthers.end(), end);
  std::copy(kAborts.begin(), kAborts.end(), end);
  return list;
}();

std::size_t pair_at(std::string_view text, std::size_t at) {
  return static_cast<std::size_t>(static_cast<unsigned char>(text[at])) << 8U |
         static_cast<unsigned char>(text[at + 1]);
}

/// Finds words by their first two bytes: `first` has the first word, `next` the following word with the same two bytes.
/// Both hold the number + 1; 0 = none.
struct Index {
  std::array<std::uint8_t, 65536> first{};
  std::array<std::uint8_t, kWords.size()> next{};
};

/// Calls `found` with the number of each word in the line (one word per position), until it returns true.
template <class Found>
bool find_words(std::string_view line, Found found) {
  static auto const index = [] {
    Index by_pair;
    for (auto word = kWords.size(); word > 0; --word) {
      by_pair.next.at(word - 1) =
          std::exchange(by_pair.first.at(pair_at(kWords.at(word - 1), 0)), static_cast<std::uint8_t>(word));
    }
    return by_pair;
  }();
  for (std::size_t at = 0; at + 1 < line.size(); ++at) {
    auto word = index.first[pair_at(line, at)];
    while (word != 0 && !line.substr(at).starts_with(kWords[word - 1U])) {
      word = index.next[word - 1U];
    }
    if (word != 0 && found(word - 1U)) {
      return true;
    }
  }
  return false;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// "ValueError: …", "torch.OutOfMemoryError: …", "AssertionError": the last line of a traceback.
bool names_exception(std::string_view line) {
  auto const end = static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_name) - line.begin());
  auto const name = line.substr(0, end);
  return (end == line.size() || line[end] == ':') &&
         (name.ends_with("Error") || name.ends_with("Exception") || name == "KeyboardInterrupt");
}

/// What the start of the line means.
LineMeaning meaning_of_start(std::string_view line) {
  if (line.starts_with(kFatal)) {  // an abort is the consequence of something else
    return {line.substr(kFatal.size()).starts_with("Aborted") ? Strength::hints : Strength::explains, Role::culprit};
  }
  if (line == "KeyboardInterrupt") {
    return {Strength::explains, Role::told_to_end};
  }
  if (line == "EOFError") {  // from a pipe between processes; from a file it has a message
    return {Strength::explains, Role::lost_peer};
  }
  bool const aborts = std::ranges::any_of(kAborts, [&](auto start) { return line.starts_with(start); });
  bool const what = line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("what():");
  return {aborts || what || names_exception(line) ? Strength::explains : Strength::nothing, Role::culprit};
}

/// "[W1123 22:41:10.480 TCPStore.cpp:125] …", a warning of PyTorch, which continues after it.
bool is_mere_warning(std::string_view line) {
  return line.size() > 2 && line[0] == '[' && (line[1] == 'W' || line[1] == 'I') && is_digit(line[2]);
}

std::size_t after_digits(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of("0123456789", at), text.size());
}

/// "    #12 0x55d0 in main", as sanitizers and gdb write it. Frames 0 to 3 tell where it happened and are not far.
bool is_far_frame(std::string_view line) {
  auto const at = line.find_first_not_of(' ');
  if (at == std::string_view::npos || line[at] != '#') {
    return false;
  }
  auto const end = after_digits(line, at + 1);
  bool const near = end == at + 2 && line[at + 1] < '4';
  return end > at + 1 && !near && line.substr(end).find_first_not_of(' ') != std::string_view::npos;
}

}  // namespace

void OpenLine::extend(std::string_view piece) {
  if (piece.empty()) {
    return;
  }
  if (!line_.empty() && line_.back() == '\r') {
    line_.clear();
    cut_ = false;
  }
  if (void const* const back = memrchr(piece.data(), '\r', piece.size() - 1)) {
    line_.clear();
    cut_ = false;
    piece.remove_prefix(static_cast<std::size_t>(static_cast<char const*>(back) - piece.data()) + 1);
  }
  constexpr std::size_t kHalf = kLineBytes / 2;
  auto const head = std::min(piece.size(), line_.size() < kLineBytes ? kLineBytes - line_.size() : 0);
  line_.append(piece.substr(0, head));
  piece.remove_prefix(head);
  if (!piece.empty()) {
    cut_ = true;
    auto const last = piece.substr(piece.size() - std::min(piece.size(), kHalf));
    line_.erase(kHalf, last.size());
    line_.append(last);
  }
}

std::string OpenLine::end() {
  std::string line = std::exchange(line_, {});
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  if (std::exchange(cut_, false)) {
    line.insert(kLineBytes / 2, "…");
  }
  return line;
}

std::string_view plain_line(std::string_view whole, std::string& room) {
  auto text = whole;
  if (whole.size() > kLineBytes || whole.find('\r') != std::string_view::npos) {
    OpenLine line;
    line.extend(whole);
    room = line.end();
    text = room;
  }
  if (text.find("\033[") != std::string_view::npos) {
    room = printable_lines(text);
    text = room;
  }
  return without_rank(text);
}

std::string_view without_rank(std::string_view line) {
  constexpr std::string_view kStart = "[rank";
  if (line.starts_with(kStart)) {
    auto const end = after_digits(line, kStart.size());
    if (end > kStart.size() && line.substr(end).starts_with("]:")) {
      line.remove_prefix(end + 2);
      line.remove_prefix(line.starts_with(' ') ? 1 : 0);
    }
  }
  return line;
}

bool notable(std::string_view line) {
  return find_words(line, [](std::size_t /*word*/) { return true; });
}

LineMeaning meaning_of(std::string_view line) {
  LineMeaning found = meaning_of_start(line);
  find_words(line, [&found](std::size_t word) {
    if (word < kSigns.size()) {
      auto const& sign = kSigns.at(word);
      found.role = found.role == Role::culprit ? sign.role : found.role;
      found.strength = std::max(found.strength, sign.strength);
    }
    return false;
  });
  if (is_mere_warning(line)) {
    found.strength = std::min(found.strength, Strength::hints);
  }
  return found;
}

Shape shape_of(std::string_view line) {
  if (line.starts_with("frame #") || is_far_frame(line) || line == "  <no Python frame>" ||
      line.starts_with("  Binary file \"") ||  // Python 3.14 and later
      (line.ends_with(']') && line.find("[0x") != std::string_view::npos && line.find('(') != std::string_view::npos)) {
    return Shape::native_frame;
  }
  if (line.starts_with("  File \"")) {
    auto const in = line.rfind(" in ");
    bool const traceback = in == std::string_view::npos || line[in - 1] == ',';
    return traceback ? Shape::python_frame : Shape::native_frame;
  }
  if (line.starts_with("Thread 0x") && line.find("(most recent call first)") != std::string_view::npos) {
    return Shape::thread;
  }
  return line.starts_with("Extension modules: ") ? Shape::modules : Shape::line;
}

}  // namespace cxxrun::launcher
