// Closed-loop load for a c10d store: every connection has one operation in flight, one thread, epoll, greeted dialect.
//
//   store_load PORT OPERATION CONNECTIONS SECONDS     one of those in steps_of()
//   store_load PORT barrier CONNECTIONS ROUNDS        everybody adds one, the last one writes, all wait
//   store_load PORT storm CONNECTIONS ROUNDS PID      everybody connects and is answered once: the greeting and a PING
//
// Prints one line of JSON. Connects to 127.0.0.1.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "src/base/wire/store_protocol.hpp"

namespace {

using namespace cxxrun::wire;
using BenchClock = std::chrono::steady_clock;

constexpr std::size_t kValueBytes = 64;
constexpr int kPatienceMs = 60000;

[[noreturn]] void give_up(char const* what) {
  std::fprintf(stderr, "store_load: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::string bytes_of(StoreRequest const& request) {
  return encode_request(request, StoreDialect::greeted);
}

// What is sent, and how long its answer is. Answers have a known length because the values do.
struct Step {
  std::string request;
  std::size_t reply_bytes = 0;
};

class Link {
 public:
  explicit Link(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int const on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) {
      give_up("cannot connect");
    }
  }
  ~Link() { ::close(fd_); }
  Link(Link const&) = delete;
  Link& operator=(Link const&) = delete;
  Link(Link&&) = delete;
  Link& operator=(Link&&) = delete;

  void watch(int epoll, std::size_t index) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = index;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &event) != 0) {
      give_up("epoll_ctl");
    }
  }

  void send(Step const& step) {
    awaited_ = step.reply_bytes;
    ssize_t const n = ::send(fd_, step.request.data(), step.request.size(), MSG_NOSIGNAL);
    if (n != static_cast<ssize_t>(step.request.size())) {
      give_up("send");
    }
  }

  // Reads what has come; true when the answer is complete.
  bool receive() {
    ssize_t const n = ::recv(fd_, last_.data(), last_.size(), 0);
    if (n <= 0 || static_cast<std::size_t>(n) > awaited_) {
      give_up(n <= 0 ? "the server closed" : "more came than was asked for");
    }
    awaited_ -= static_cast<std::size_t>(n);
    return awaited_ == 0;
  }

  void call(Step const& step) {
    send(step);
    while (!receive()) {
    }
  }

  // The answer as a number; it came in one piece.
  [[nodiscard]] std::int64_t number() const {
    std::int64_t n = 0;
    std::memcpy(&n, last_.data(), sizeof n);
    return n;
  }

 private:
  int fd_;
  std::size_t awaited_ = 0;
  std::array<char, 4096> last_{};
};

using Links = std::vector<std::unique_ptr<Link>>;

Links connect_all(std::uint16_t port, int connections) {
  Links links;
  for (int i = 0; i < connections; ++i) {
    links.push_back(std::make_unique<Link>(port));
  }
  return links;
}

// What a client sends first.
Step hello() {
  return {encode_greeting() + bytes_of(PingRequest{4711}), 4};
}

Links greet_all(std::uint16_t port, int connections) {
  Links links = connect_all(port, connections);
  for (auto const& link : links) {
    link->call(hello());
  }
  return links;
}

int watch_all(Links const& links) {
  int const epoll = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i]->watch(epoll, i);
  }
  return epoll;
}

// Calls `done` with the index of each link whose answer is complete, until it has returned false `count` times.
void pump(int epoll, Links const& links, std::size_t count, std::function<bool(std::size_t)> const& done) {
  std::vector<epoll_event> events(256);
  while (count > 0) {
    int const n = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), kPatienceMs);
    if (n <= 0) {
      give_up("no answer for a minute");
    }
    for (int i = 0; i < n; ++i) {
      std::size_t const index = events[static_cast<std::size_t>(i)].data.u64;
      if (links[index]->receive() && !done(index)) {
        --count;
      }
    }
  }
}

// The steps of one operation of connection `id`; none for an unknown name. What has no answer has an ADD behind it.
std::vector<Step> steps_of(std::string const& operation, int id) {
  std::string const key = "/bench/" + std::to_string(id);
  std::string const value(kValueBytes, 'v');
  Step const wait{bytes_of(WaitRequest{{key}}), 1};
  Step const get{bytes_of(GetRequest{key}), 8 + kValueBytes};
  Step const add{bytes_of(AddRequest{key + "/n", 1}), 8};
  std::string const set = bytes_of(SetRequest{key, value});
  auto const fenced = [&add](std::string const& silent) { return Step{silent + add.request, add.reply_bytes}; };
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) {
    names.push_back(key + "/" + std::to_string(i));
  }
  std::vector<Text> const sixteen(names.begin(), names.end());
  std::vector<std::pair<Text, Text>> sixteen_values;
  for (Text const& name : sixteen) {
    sixteen_values.emplace_back(name, "v");
  }
  auto const many = [&](int times) {
    std::string all;
    for (int i = 0; i < times; ++i) {
      all += set;
    }
    return fenced(all);
  };
  std::map<std::string, std::vector<Step>> const all{
      {"get", {get}},
      {"waitget", {wait, get}},  // what torch's get() does
      {"set", {fenced(set)}},
      {"set64", {many(64)}},
      {"set1024", {many(1024)}},
      {"append", {fenced(bytes_of(AppendRequest{key + "/a", value}))}},
      {"add", {add}},
      {"compare_set", {{bytes_of(CompareSetRequest{key, value, value}), 8 + kValueBytes}}},
      {"check", {{bytes_of(CheckRequest{{key}}), 1}}},
      {"wait", {wait}},
      {"wait16", {{bytes_of(WaitRequest{sixteen}), 1}}},
      {"num_keys", {{bytes_of(NumKeysRequest{}), 8}}},
      {"set_delete", {{bytes_of(SetRequest{key + "/d", value}) + bytes_of(DeleteRequest{key + "/d"}), 8}}},
      {"multi_get", {{bytes_of(MultiGetRequest{sixteen}), sixteen.size() * 9}}},
      {"multi_set", {fenced(bytes_of(MultiSetRequest{sixteen_values}))}},
      {"set8m", {fenced(bytes_of(SetRequest{key + "/big", std::string(8UL << 20U, 'v')}))}},
  };
  auto const found = all.find(operation);
  return found == all.end() ? std::vector<Step>{} : found->second;
}

// Writes every key that the operations read.
void prepare(Link& link, int id) {
  std::string const key = "/bench/" + std::to_string(id);
  std::string all = bytes_of(SetRequest{key, std::string(kValueBytes, 'v')});
  for (int i = 0; i < 16; ++i) {
    all += bytes_of(SetRequest{key + "/" + std::to_string(i), "v"});
  }
  link.call({all + bytes_of(AddRequest{key + "/n", 0}), 8});
}

// Sorts.
double percentile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  auto const index = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  return values.empty() ? 0 : values[std::min(values.size() - 1, index)];
}

double micros(BenchClock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

int run_load(std::uint16_t port, std::string const& operation, int connections, double seconds) {
  if (steps_of(operation, 0).empty()) {
    std::fprintf(stderr, "store_load: unknown operation %s\n", operation.c_str());
    return 2;
  }
  Links links = greet_all(port, connections);
  std::vector<std::vector<Step>> steps;
  for (int i = 0; i < connections; ++i) {
    prepare(*links[static_cast<std::size_t>(i)], i);
    steps.push_back(steps_of(operation, i));
  }
  int const epoll = watch_all(links);
  std::vector<std::size_t> at(links.size(), 0);
  std::vector<BenchClock::time_point> since(links.size(), BenchClock::now());
  std::vector<double> latencies;
  auto const begin = BenchClock::now() + std::chrono::milliseconds(100);  // not counted: warming up
  auto const end = begin + std::chrono::duration_cast<BenchClock::duration>(std::chrono::duration<double>(seconds));
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i]->send(steps[i][0]);
  }
  pump(epoll, links, links.size(), [&](std::size_t i) {
    if (++at[i] < steps[i].size()) {
      links[i]->send(steps[i][at[i]]);
      return true;
    }
    auto const now = BenchClock::now();
    if (now >= end) {
      return false;
    }
    if (now >= begin) {
      latencies.push_back(micros(now - since[i]));
    }
    at[i] = 0;
    since[i] = now;
    links[i]->send(steps[i][0]);
    return true;
  });
  ::close(epoll);
  double const p50 = percentile(latencies, 0.5);
  std::printf("{\"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
              static_cast<double>(latencies.size()) / seconds, p50, percentile(latencies, 0.99));
  return 0;
}

// One barrier: from the first ADD to the last release, in microseconds.
double barrier(Links const& links, int epoll, std::string const& name) {
  Step const add{bytes_of(AddRequest{name + "/n", 1}), 8};
  Step const wait{bytes_of(WaitRequest{{name + "/go"}}), 1};
  Step const release{bytes_of(SetRequest{name + "/go", "1"}) + wait.request, 1};
  std::vector<bool> added(links.size(), false);
  auto const begin = BenchClock::now();
  for (auto const& link : links) {
    link->send(add);
  }
  pump(epoll, links, links.size(), [&](std::size_t i) {
    if (added[i]) {
      return false;
    }
    added[i] = true;
    bool const last = links[i]->number() == static_cast<std::int64_t>(links.size());
    links[i]->send(last ? release : wait);
    return true;
  });
  return micros(BenchClock::now() - begin);
}

int run_barrier(std::uint16_t port, int connections, int rounds) {
  Links const links = greet_all(port, connections);
  int const epoll = watch_all(links);
  std::string const run = "/barrier/" + std::to_string(::getpid()) + "/";
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(rounds));
  for (int i = 0; i < rounds; ++i) {
    times.push_back(barrier(links, epoll, run + std::to_string(i)));
  }
  ::close(epoll);
  std::printf("{\"median_ms\": %.3f}\n", percentile(times, 0.5) / 1000);
  return 0;
}

// On a cluster the clients' part of a connection costs their machines. Here it is done while the server stands still:
// all are in its queue when it goes on. Connections stay until the end, so that no round meets the farewells of
// another.
int run_storm(std::uint16_t port, int connections, int rounds, pid_t server) {
  Step const first = hello();
  std::vector<double> times;
  std::vector<Links> all;
  for (int i = 0; i < rounds; ++i) {
    ::kill(server, SIGSTOP);
    Links const& links = all.emplace_back(connect_all(port, connections));
    int const epoll = watch_all(links);
    for (auto const& link : links) {
      link->send(first);
    }
    auto const begin = BenchClock::now();
    ::kill(server, SIGCONT);
    pump(epoll, links, links.size(), [](std::size_t) { return false; });
    times.push_back(micros(BenchClock::now() - begin));
    ::close(epoll);
  }
  all.clear();
  Links const last = greet_all(port, 1);
  for (int i = 0; i < 100; ++i) {
    last.front()->call({bytes_of(PingRequest{4711}), 4});
  }
  std::printf("{\"median_ms\": %.3f}\n", percentile(times, 0.5) / 1000);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  if (argc < 5) {
    std::fprintf(stderr, "Usage: store_load PORT OPERATION CONNECTIONS SECONDS|ROUNDS [PID]\n");
    return 2;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  auto const port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  std::string const operation = argv[2];
  int const connections = std::atoi(argv[3]);
  if (operation == "barrier") {
    return run_barrier(port, connections, std::atoi(argv[4]));
  }
  if (operation == "storm" && argc == 6) {
    return run_storm(port, connections, std::atoi(argv[4]), std::atoi(argv[5]));
  }
  return run_load(port, operation, connections, std::atof(argv[4]));
}
