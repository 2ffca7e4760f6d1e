#include "launcher/view/page.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/live/answers.hpp"
#include "launcher/view/metrics.hpp"
#include "launcher/view/page_server.hpp"
#include "launcher/view/page_state.hpp"
#include "launcher/view/status_text.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/run_blocking.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kTokenDigits = 32;  // 128 bits
constexpr Millis kWhileViewed{1000};      // between two questions for the status
constexpr Millis kWhileAlone{5000};       // between two questions whether the job is still there
constexpr Millis kForAnswer{90'000};      // longer than `ask` takes behind another question
constexpr Millis kForSearch{180'000};     // of the job on other nodes
constexpr Millis kForFarewell{2000};      // with viewers who do not read
constexpr Millis kBetweenFarewells{20};
constexpr std::size_t kMostInquiries = 4;  // for stacks, logs and events, at once
constexpr std::uint64_t kMostLog = 16'384;

using What = live::Question::What;

void complain(std::string const& line) {
  std::fprintf(stderr, "cxxrunctl: %s\n", line.c_str());
}

/// The job again, from another agent: where its agents are now. Nothing: it is over.
std::optional<Job> find_again(Job const& lost) {
  auto const& who = lost.who;
  if (auto found = find_jobs(who.run_id).jobs; !found.empty()) {
    return std::move(found.front());
  }
  auto found = who.step.empty() ? fail(Errc::not_found, "") : find_jobs_elsewhere(who.step);
  auto const it =
      found ? std::find_if(found->begin(), found->end(), [&](Job const& job) { return job.who.run_id == who.run_id; })
            : std::vector<Job>::iterator();
  return found && it != found->end() ? std::optional(std::move(*it)) : std::nullopt;
}

class ShownPage {
 public:
  ShownPage(Job job, CtlOptions const& options)
      : job_(std::move(job)),
        options_(options),
        timer_(io_),
        signals_(io_, [this](SignalInfo const& /*signal*/) { end("this page was ended where it was started"); }) {}

  int run() {
    auto const token = random_hex(kTokenDigits);
    auto opened =
        PageServer::open(io_, static_cast<std::uint16_t>(options_.port), token,
                         [this](PageVerdict const& what, PageServer::Done done) { on_request(what, std::move(done)); });
    auto const signals = signals_.begin(os::make_sigset({SIGINT, SIGTERM}));
    if (!opened || !signals) {
      complain((opened ? signals.error() : opened.error()).message());
      return kExitSystem;
    }
    server_ = *std::move(opened);
    if (auto const& file = options_.token_file; !file.empty()) {
      auto const folder = os::Folder::above(file);
      if (!folder || !folder.replace(os::name_in(file), token + "\n", os::kForUs)) {
        complain("cannot write " + printable(file) + ": " + std::strerror(errno));
        return kExitSystem;
      }
    }
    std::fputs(page_address(job_.who.run_id, server_->port(), token, os::host_name()).c_str(), stdout);
    if (std::fflush(stdout) != 0) {
      return 0;  // main() says why
    }
    ask_now();
    io_.run();
    std::fputs((job_.who.run_id + ": " + last_words_ + "\n").c_str(), stdout);
    return 0;
  }

 private:
  // ---- requests -------------------------------------------------------------------------------------------------

  void on_request(PageVerdict const& what, PageServer::Done done) {
    switch (what.route) {
      case PageRoute::live: return is_new() ? void() : ask_now();
      case PageRoute::state:
        return with_table(std::move(done), [this](PageServer::Done const& tell) {
          tell({200, "application/json", state_json(state_)});
        });
      case PageRoute::metrics:
        return with_table(std::move(done), [this](PageServer::Done const& tell) {
          tell({200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(*table_, options_.all)});
        });
      case PageRoute::events:
        return inquire({What::events, 0, {}}, std::move(done), [](std::string const& answer) {
          auto const events = read_events(answer);
          std::string lines;
          for (auto const& event : events.items) {
            lines += event.line + "\n";
          }
          return events.errors.empty() ? PageAnswer{200, "application/x-ndjson", lines} : failed(events.errors.front());
        });
      case PageRoute::logs:
        return inquire({What::logs, kMostLog, {what.rank}}, std::move(done), [](std::string const& answer) {
          return PageAnswer{200, "application/json", tails_json(read_tails(answer))};
        });
      default:
        return inquire({What::stacks, 0, {what.rank}}, std::move(done), [](std::string const& answer) {
          return PageAnswer{200, "application/json", stacks_json(read_stacks(answer))};
        });
    }
  }

  static PageAnswer failed(std::string const& why) { return {503, "application/json", page_error_json(why)}; }

  [[nodiscard]] bool is_new() const { return table_ && trouble_.empty() && Clock::now() - told_ < kWhileViewed; }

  void with_table(PageServer::Done done, std::function<void(PageServer::Done const&)> say) {
    if (is_new()) {
      return say(done);
    }
    waiting_.push_back([this, done = std::move(done), say = std::move(say)] {
      table_&& trouble_.empty() ? say(done) : done(failed(trouble_));
    });
    ask_now();
  }

  void inquire(live::Question question, PageServer::Done done, std::function<PageAnswer(std::string const&)> read) {
    if (inquiries_ >= kMostInquiries) {
      return done(failed(live::kTooManyQuestions));
    }
    ++inquiries_;
    ask_job(std::move(question), [this, done = std::move(done), read = std::move(read)](Result<std::string> answer) {
      --inquiries_;
      done(answer ? read(*answer) : failed(answer.error().context));
    });
  }

  // ---- the job --------------------------------------------------------------------------------------------------

  void ask_job(live::Question question, std::function<void(Result<std::string>)> done) {
    os::run_blocking<Result<std::string>>(
        io_, "ask", kForAnswer,
        [job = job_, turn = turn_, question = std::move(question)]() -> Result<std::string> {
          std::unique_lock lock(*turn, std::defer_lock);
          if (job.relay) {
            lock.lock();  // it takes one question at a time
          }
          return view::ask(job, question);
        },
        fail(Errc::timeout, "no answer in time"), std::move(done));
  }

  /// For the status if somebody looks or waits for it. Else only whether the job is still there: its nodes tell more
  /// often while they are asked for the status.
  void ask_now() {
    if (asks_ || over_) {
      return;
    }
    asks_ = true;
    bool const viewed = server_->viewers() > 0 || !waiting_.empty();
    auto const next = Clock::now() + (viewed ? kWhileViewed : kWhileAlone);
    ask_job({viewed ? What::status : What::who, 0, {}}, [this, viewed, next](Result<std::string> answer) {
      if (!answer && answer.error().code == Errc::closed) {
        return look_again();
      }
      asks_ = false;
      if (viewed) {
        on_status(answer);
      }
      timer_.at(next, [this] { ask_now(); });
      if (!viewed && (server_->viewers() > 0 || !waiting_.empty())) {
        ask_now();  // they came meanwhile
      }
    });
  }

  void on_status(Result<std::string> const& answer) {
    auto table = read_table(answer);
    auto const before = state_;
    if (table) {
      table_ = *std::move(table);
      told_ = Clock::now();
    }
    trouble_ = table ? "" : table.error().context;
    state_ = table ? page_state(*table_) : with_trouble(state_, trouble_);
    publish(before);
    for (auto const& waiting : std::exchange(waiting_, {})) {
      waiting();
    }
  }

  void publish(PageState const& before) { server_->publish(all_event(state_), tick_event(before, state_)); }

  void look_again() {
    auto const before = state_;
    trouble_ = "the agent there has ended; looking for another of the job";
    state_ = with_trouble(state_, trouble_);
    publish(before);
    os::run_blocking<std::optional<Job>>(
        io_, "find", kForSearch, [lost = job_] { return find_again(lost); }, std::nullopt,
        [this](std::optional<Job> found) {
          asks_ = false;
          if (!found) {
            return end(table_ && table_->phase == "over" ? judge(*table_).sentence : "is over; cxxrun has ended there");
          }
          job_ = *std::move(found);
          ask_now();
        });
  }

  void end(std::string const& why) {
    if (over_) {
      return io_.stop();  // Ctrl-C again
    }
    over_ = true;
    last_words_ = why;
    timer_.cancel();
    server_->end(over_event(why));
    leave(Clock::now() + kForFarewell);
  }
  void leave(TimePoint until) {
    if (server_->viewers() == 0 || Clock::now() > until) {
      return io_.stop();
    }
    timer_.after(kBetweenFarewells, [this, until] { leave(until); });
  }

  boost::asio::io_context io_{1};
  Job job_;
  CtlOptions const& options_;
  os::Timer timer_;
  os::SignalWatch signals_;
  std::unique_ptr<PageServer> server_;
  std::shared_ptr<std::mutex> turn_ = std::make_shared<std::mutex>();
  std::optional<Table> table_;
  TimePoint told_;  ///< when
  std::string trouble_;
  PageState state_;
  std::vector<std::function<void()>> waiting_;  ///< for the table
  std::size_t inquiries_ = 0;
  bool asks_ = false;
  bool over_ = false;
  std::string last_words_;
};

}  // namespace

int show_page(Job const& job, CtlOptions const& options) {
  return ShownPage(job, options).run();
}

}  // namespace cxxrun::launcher::view
