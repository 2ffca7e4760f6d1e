#include "launcher/view/following.hpp"

#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "launcher/live/answers.hpp"
#include "launcher/logs/log_tail.hpp"
#include "launcher/view/status_text.hpp"
#include "launcher/view/table.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr Millis kBetween{1000};                            // questions for what a worker has written
constexpr std::uint64_t kMostOfFile = live::kMostTail / 2;  // of each of its two files, for each question

/// What is said again and again is said once.
class Complaints {
 public:
  explicit Complaints(std::string run_id) : run_id_(std::move(run_id)) {}
  void say(std::vector<std::string> const& errors) {
    auto const all = join(errors, "\n");
    for (std::size_t i = 0; all != said_ && i < errors.size(); ++i) {
      std::fprintf(stderr, "cxxrunctl: %s: %s\n", run_id_.c_str(), errors[i].c_str());
    }
    said_ = all;
  }

 private:
  std::string run_id_;
  std::string said_;
};

/// What its worker has written, up to now.
struct Followed {
  std::vector<Tail> files;  ///< as they were told last, without text
  live::LogPlace place;
  std::string shown;  ///< the file whose lines were shown last
};

/// False: nobody reads the output.
bool show_tails(Followed& followed, std::vector<Tail> tails, CtlOptions const& options) {
  std::string text = options.json ? "" : followed_text(tails, followed.shown, isatty(STDOUT_FILENO) == 1);
  for (auto& tail : tails) {
    text +=
        options.json && !tail.text.empty() ? live::tail_json(tail.rank, tail.host, {tail.file, tail.text, 0, ""}) : "";
    followed.place = tail.place.value_or(followed.place);
    tail.text.clear();
  }
  if (!tails.empty()) {
    followed.files = std::move(tails);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0;
}

/// The agent has ended. What the worker wrote after the last question is in its files, where this node has them.
void show_rest(Followed& followed, CtlOptions const& options, Complaints& complaints) {
  std::map<std::string, LogTails::Stream> read;
  auto const dir = followed.files.empty() ? "" : os::parent_of(followed.files.front().file);
  for (auto& stream : read_log_since(dir, "", followed.place, kMostOfFile, true).streams) {
    if (stream.goes_on) {
      read.emplace(stream.file, std::move(stream));
    }
  }
  bool missed = false;
  auto tails = followed.files;
  for (auto& tail : tails) {
    missed = missed || read.count(tail.file) == 0;
    tail.text = read[tail.file].text;
  }
  (void)show_tails(followed, std::move(tails), options);
  complaints.say({std::string("the agent that was asked has ended") +
                  (missed ? "; what was written last is in the files alone, which are not on this node" : "")});
}

}  // namespace

int show_events(Job const& job, CtlOptions const& options) {
  using What = live::Question::What;
  Complaints complaints(job.who.run_id);
  Bookmark mark;
  EventStream stream;
  for (;;) {
    auto const answer = options.follow
                            ? stream.next(job, {What::follow, mark.after(), {}, std::nullopt, "", mark.nonce})
                            : ask(job, {What::events, 0, {}});
    bool const ended = !answer && answer.error().code == Errc::closed && !mark.nonce.empty();
    if (!answer && (!options.follow || mark.nonce.empty() || ended)) {
      complaints.say({ended ? "the agent on this node has ended, and has told of no verdict; others may go on"
                            : answer.error().context});
      return kExitSystem;
    }
    auto events = answer ? read_events(*answer) : Events{{{}, {answer.error().context}}, "", 0};
    advance(mark, events);
    if (options.follow && events.missed > 0) {
      events.errors.push_back(counted(events.missed, "event") + " left out: so many at once are not kept");
    }
    complaints.say(events.errors);
    for (auto const& event : events.items) {
      std::fputs((event.line + "\n").c_str(), stdout);
    }
    if (!options.follow) {
      return events.errors.empty() ? 0 : kExitSystem;
    }
    bool const over = !events.items.empty() && events.items.back().last;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || over) {
      return 0;  // main() looks at the output
    }
    if (!events.errors.empty()) {
      std::this_thread::sleep_for(kBetween);  // there is no coordinator
    }
  }
}

int follow_logs(Job const& job, CtlOptions const& options) {
  Complaints complaints(job.who.run_id);
  Followed followed;
  for (bool first = true;; first = false) {
    auto const asked = Clock::now();
    auto const answer =
        ask(job, {live::Question::What::logs, first ? live::kMostTail : kMostOfFile, options.ranks, followed.place});
    if (!answer && answer.error().code == Errc::closed && !first) {
      show_rest(followed, options, complaints);
      return 0;
    }
    auto tails = answer ? read_tails(*answer) : Items<Tail>{{}, {answer.error().context}};
    for (auto& tail : tails.items) {
      if (first) {
        tail.text = last_lines(tail.text, static_cast<std::size_t>(options.lines));
      } else if (tail.left_out > 0) {
        tails.errors.push_back(counted(tail.left_out, "byte") + " of " + tail.file + " left out");
      }
    }
    complaints.say(tails.errors);
    if (first && !tails.errors.empty()) {
      return kExitSystem;
    }
    if (!show_tails(followed, std::move(tails.items), options)) {
      return 0;  // main() says why
    }
    std::this_thread::sleep_until(asked + kBetween);
  }
}

}  // namespace cxxrun::launcher::view
