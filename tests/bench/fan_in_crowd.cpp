// A crowd of workers that start as PyTorch's do, on their own connections to a store or through agents of the model
// (fan_in_model.cpp): one process, one thread, closed loop.
//
//   fan_in_crowd PORT direct|single|batch AGENTS WORKERS IDLE_SECONDS PID VALUE_BYTES
//
//   direct   PORT is a store's; a connection for each worker
//   batch    PORT is the model's; what the workers of an agent ask in one turn goes in one frame
//   single   the same with a frame for each request: the worst that the arrival of requests can do
//   PID      of the store or model, whose processor time and memory are told
//
// Each worker greets and pings, adds one to init/, gets the value that rank 0 sets (WAIT, then GET), and passes a
// barrier of ADD, WAIT and one SET. Then each asks CHECK once a second for IDLE_SECONDS, as PyTorch's NCCL monitor
// does. Prints one JSON object.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "src/wire/store_protocol.hpp"
#include "tests/bench/fan_in.hpp"

namespace {

using namespace fan_in;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::wire;  // NOLINT(google-build-using-namespace)
using Steady = std::chrono::steady_clock;

constexpr std::size_t kCallsPerTurn = 16;
constexpr auto kPatience = std::chrono::seconds(120);

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

std::string ask(StoreRequest const& request) {
  return encode_request(request, StoreDialect::greeted);
}

/// The number behind `name` in a file of lines "name number".
double figure_of(std::string const& file, std::string const& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name)) {
      return std::strtod(line.c_str() + name.size(), nullptr);
    }
  }
  return 0;
}

double cpu_s(std::string const& pid) {
  double ns = 0;
  for (auto const& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    double own = 0;
    std::ifstream(task.path() / "schedstat") >> own;
    ns += own;
  }
  return ns / 1e9;
}

/// What a worker asks, step by step, and how long the answer is.
struct Step {
  std::string request;
  std::size_t reply = 0;
};
struct Script {
  explicit Script(std::size_t value_bytes) : value(value_bytes, 'u') {}
  std::string value;  // NCCL's unique id is 128 bytes
  Step greet{encode_greeting() + ask(PingRequest{7}), 4};
  Step init{ask(AddRequest{"init/", 1}), 8};
  Step add{ask(AddRequest{"/default_pg/0//barrier", 1}), 8};
  Step publish{ask(SetRequest{"/default_pg/0//0", value}) + add.request, 8};
  Step wait_id{ask(WaitRequest{{"/default_pg/0//0"}}), 1};
  Step get_id{ask(GetRequest{"/default_pg/0//0"}), 8 + value.size()};
  Step wait{ask(WaitRequest{{"/default_pg/0//barrier:last"}}), 1};
  Step release{ask(SetRequest{"/default_pg/0//barrier:last", "1"}) + wait.request, 1};
  Step check{ask(CheckRequest{{"/default_pg//exception_dump"}}), 1};
};

enum class Stage : std::uint8_t { calling, greeting, counting, waiting, getting, adding, barrier, started };

struct Worker {
  Stage stage = Stage::calling;
  std::size_t awaited = 0;
};

struct Arguments {
  std::uint16_t port = 0;
  std::string mode;
  std::size_t agents = 0;
  std::size_t workers = 0;
  double idle_s = 0;
  std::string pid;
  std::size_t value_bytes = 0;
};

class Crowd {
 public:
  explicit Crowd(Arguments arguments)
      : arguments_(std::move(arguments)),
        direct_(arguments_.mode == "direct"),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        script_(arguments_.value_bytes),
        workers_(arguments_.agents * arguments_.workers) {}

  void start() {
    std::size_t const calls = direct_ ? workers_.size() : arguments_.agents;
    items_.resize(direct_ ? 0 : calls);
    for (std::size_t i = 0; i < calls; ++i) {
      auto fd = call(arguments_.port, static_cast<std::uint32_t>(direct_ ? i / arguments_.workers : i));
      watch(epoll_.get(), fd.get(), i, EPOLLOUT);
      if (direct_) {
        sockets_.push_back(std::move(fd));
      } else {
        links_.push_back(std::make_unique<SealedLink>(std::move(fd), true));
      }
      if (i % kCallsPerTurn == 0) {
        turn(0);
      }
    }
    auto const deadline = Steady::now() + kPatience;
    while (started_ < workers_.size()) {
      if (Steady::now() > deadline) {
        give_up("not within two minutes: " + std::to_string(started_) + " have started");
      }
      turn(1000);
    }
  }

  /// Every worker asks once a second, and none with another. Returns the share of the answers that have come.
  double idle() {
    auto const begin = Steady::now();
    std::size_t asked = 0;
    while (seconds_since(begin) < arguments_.idle_s) {
      auto const due = static_cast<std::size_t>(seconds_since(begin) * static_cast<double>(workers_.size()));
      for (; asked < due; ++asked) {
        say(asked * 7919 % workers_.size(), script_.check);
        flush();
      }
      turn(1);
    }
    return asked == 0 ? 1 : static_cast<double>(checked_) / static_cast<double>(asked);
  }

  [[nodiscard]] std::uint64_t said() const {
    std::uint64_t sum = bytes_;
    for (auto const& link : links_) {
      sum += link->said();
    }
    return sum;
  }

 private:
  void turn(int wait_ms) {
    int const n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), wait_ms);
    for (int i = 0; i < n; ++i) {
      auto const& event = events_[static_cast<std::size_t>(i)];
      (event.events & EPOLLOUT) != 0 ? connected(event.data.u64) : receive(event.data.u64);
    }
    flush();
  }

  void connected(std::size_t i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, direct_ ? sockets_[i].get() : links_[i]->fd(), &event);
    direct_ ? advance(i) : links_[i]->begin();
  }

  void receive(std::size_t i) {
    if (direct_) {
      thread_local std::array<char, 65536> chunk;
      ssize_t const n = ::recv(sockets_[i].get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) {
        give_up("the store has closed a connection");
      }
      bytes_ += static_cast<std::uint64_t>(std::max<ssize_t>(n, 0));
      took(i, {chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
      return;
    }
    bool const there = links_[i]->receive([&](std::string_view payload) {
      if (payload.empty()) {  // sealed from now on
        for (std::size_t w = 0; w < arguments_.workers; ++w) {
          advance(i * arguments_.workers + w);
        }
      }
      each_item(payload, [&](std::uint32_t w, std::string_view bytes) { took(i * arguments_.workers + w, bytes); });
    });
    if (!there) {
      give_up("the host has closed a connection");
    }
  }

  void took(std::size_t w, std::string_view bytes) {
    Worker& worker = workers_[w];
    if (bytes.empty() || bytes.size() > worker.awaited) {
      return;
    }
    worker.awaited -= bytes.size();
    if (worker.awaited > 0 || worker.stage == Stage::started) {
      checked_ += worker.awaited == 0 ? 1 : 0;
      return;
    }
    if (worker.stage == Stage::adding) {
      std::int64_t number = 0;
      std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
      last_ = number == static_cast<std::int64_t>(workers_.size());
    }
    advance(w);
  }

  void advance(std::size_t w) {
    Worker& worker = workers_[w];
    auto const next = [&](Stage stage, Step const& step) {
      worker.stage = stage;
      say(w, step);
    };
    switch (worker.stage) {
      case Stage::calling: return next(Stage::greeting, script_.greet);
      case Stage::greeting: return next(Stage::counting, script_.init);
      case Stage::counting:
        return w == 0 ? next(Stage::adding, script_.publish) : next(Stage::waiting, script_.wait_id);
      case Stage::waiting: return next(Stage::getting, script_.get_id);
      case Stage::getting: return next(Stage::adding, script_.add);
      case Stage::adding: return next(Stage::barrier, std::exchange(last_, false) ? script_.release : script_.wait);
      case Stage::barrier:
        ++started_;
        worker.stage = Stage::started;
        return;
      case Stage::started: return;
    }
  }

  void say(std::size_t w, Step const& step) {
    workers_[w].awaited = step.reply;
    if (direct_) {
      bytes_ += step.request.size();
      send_all(sockets_[w].get(), step.request);
      return;
    }
    std::size_t const agent = w / arguments_.workers;
    if (items_[agent].empty()) {
      spoken_.push_back(agent);
    }
    put_item(items_[agent], static_cast<std::uint32_t>(w % arguments_.workers), step.request);
    if (arguments_.mode == "single") {
      flush();
    }
  }

  void flush() {
    for (std::size_t const agent : spoken_) {
      links_[agent]->say(items_[agent]);
      items_[agent].clear();
    }
    spoken_.clear();
  }

  Arguments arguments_;
  bool direct_;
  os::UniqueFd epoll_;
  Script script_;
  std::vector<Worker> workers_;
  std::vector<os::UniqueFd> sockets_;               // direct: of workers
  std::vector<std::unique_ptr<SealedLink>> links_;  // else: of agents
  std::vector<std::string> items_;                  // of agents, not sent yet
  std::vector<std::size_t> spoken_;                 // agents with such
  std::vector<epoll_event> events_{256};
  std::size_t started_ = 0;
  std::size_t checked_ = 0;
  std::uint64_t bytes_ = 0;
  bool last_ = false;
};

int measure(Arguments const& arguments) {
  std::string const rollup = "/proc/" + arguments.pid + "/smaps_rollup";
  double const rss = figure_of(rollup, "Rss:");
  double const slab = figure_of("/proc/meminfo", "Slab:");
  double const cpu = cpu_s(arguments.pid);
  Crowd crowd(arguments);
  auto const begin = Steady::now();
  crowd.start();
  double const start_s = seconds_since(begin);
  double const start_cpu = cpu_s(arguments.pid) - cpu;
  double const rss_after = figure_of(rollup, "Rss:");
  double const slab_after = figure_of("/proc/meminfo", "Slab:");
  auto const workers = static_cast<double>(arguments.agents * arguments.workers);
  double const bytes = static_cast<double>(crowd.said()) / workers;
  double const before_idle = cpu_s(arguments.pid);
  double const answered = crowd.idle();
  double const idle_cpu = arguments.idle_s > 0 ? (cpu_s(arguments.pid) - before_idle) / arguments.idle_s : 0;
  std::printf(
      "{\"start_s\": %.4f, \"cpu_s\": %.4f, \"rss_kb\": %.0f, \"slab_kb\": %.0f, \"bytes_per_worker\": %.0f, "
      "\"idle_cpu\": %.4f, \"answered\": %.4f}\n",
      start_s, start_cpu, rss_after - rss, slab_after - slab, bytes, idle_cpu, answered);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  std::string const mode = argc == 8 ? argv[2] : "";
  if (mode != "direct" && mode != "single" && mode != "batch") {
    std::fprintf(stderr, "Usage: fan_in_crowd PORT direct|single|batch AGENTS WORKERS IDLE_SECONDS PID VALUE_BYTES\n");
    return 2;
  }
  raise_descriptors();
  return measure({static_cast<std::uint16_t>(std::atoi(argv[1])), mode, std::stoul(argv[3]), std::stoul(argv[4]),
                  std::atof(argv[5]), argv[6], std::stoul(argv[7])});
}
