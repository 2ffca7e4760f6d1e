// A crowd of agents as far as the coordinator can tell: one process, one thread, real sockets and the real messages,
// no workers. tests/bench/crowd_bench.py starts the coordinator and makes the table.
//
// Usage: crowd_bench PORT AGENTS TERMS_NODES RUN_ID HEARTBEAT_MS IDLE_SECONDS PID [lose]
//   TERMS_NODES  --nnodes of the run; more than AGENTS when others take part as well
//   PID          of the coordinator, whose processor time and memory are told
//   lose         afterwards one of the crowd ends, and the others wait for their next generation
// With CXXRUN_SECRET in its environment the crowd proves itself and seals what it says, as agents do.
// Prints one JSON object. Exit code 1 and a line on stderr when the job does not form.
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/trust/secret.hpp"
#include "rendezvous/trust/secure_channel.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"
#include "src/base/wire/frame.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using Steady = std::chrono::steady_clock;

constexpr std::size_t kPerAddress = 20'000;  // local ports of one address are fewer than a crowd's connections
constexpr std::size_t kCallsPerTurn = 16;
constexpr auto kPatience = std::chrono::seconds(60);

struct Arguments {
  std::uint16_t port = 0;
  std::size_t agents = 0;
  std::uint32_t nodes = 0;
  std::string run_id;
  Millis heartbeat{0};
  double idle_s = 0;
  std::string pid;
  bool lose = false;
};

[[noreturn]] void give_up(std::string const& why) {
  std::fprintf(stderr, "crowd_bench: %s\n", why.c_str());
  std::exit(1);
}

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

struct Connection {
  os::UniqueFd fd;
  wire::FrameReader reader;
  std::optional<SecureChannel> guard;  // with CXXRUN_SECRET
  bool connected = false;
  bool greeted = false;
};

struct Agent {
  Connection main;
  Connection beats;
  std::uint64_t ready = 0;    // generation that it has acknowledged
  std::uint32_t rank = 0;     // in that generation
  std::uint64_t running = 0;  // generation that it was told to start
  OwnTime echo = 0;           // of the coordinator's last answer to a beat
};

/// What the kernel says of the coordinator.
struct Usage {
  double cpu_s = 0;
  double rss_mb = 0;
  double peak_mb = 0;
};

Usage usage_of(std::string const& pid) {
  Usage usage;
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  if (auto const name = text.rfind(')'); name != std::string::npos) {
    unsigned long user = 0;
    unsigned long system = 0;
    std::sscanf(text.c_str() + name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    usage.cpu_s = static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      usage.rss_mb = std::strtod(line.c_str() + 6, nullptr) / 1024;
    } else if (line.starts_with("VmHWM:")) {
      usage.peak_mb = std::strtod(line.c_str() + 6, nullptr) / 1024;
    }
  }
  return usage;
}

class Crowd {
 public:
  explicit Crowd(Arguments arguments)
      : arguments_(std::move(arguments)), epoll_(::epoll_create1(EPOLL_CLOEXEC)), agents_(arguments_.agents) {}

  /// All call at once; returns when the last one has been told to start generation `number`.
  void form() {
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      call(i, false);
      if (i % kCallsPerTurn == 0) {  // real agents are processes of their own: nobody's hello waits for another's call
        turn(0);
      }
    }
    run_until([this] { return started_ == agents_.size(); }, "the job has formed");
  }

  /// Until every agent beats: before, its connection for that is a stranger's, of whom only so many are let in at once.
  void settle() {
    if (arguments_.heartbeat.count() > 0) {
      run_until([this] { return beating_ == agents_.size(); }, "every agent beats");
    }
  }

  /// One agent ends with everything that it has, its parent says so; the others get a generation without it.
  void lose_one() {
    agents_.back().main.fd.reset();
    agents_.back().beats.fd.reset();
    send_death_notice();
    std::uint64_t const before = agents_.front().running;
    started_ = 0;
    run_until([&] { return started_ == agents_.size() - 1 && agents_.front().running > before; }, "the others go on");
  }

  void idle() {
    auto const end =
        Steady::now() + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(arguments_.idle_s));
    run_until([end] { return Steady::now() >= end; }, "nothing", true);
  }

  [[nodiscard]] std::uint64_t bytes() const { return sent_ + received_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t beats() const { return beats_sent_; }

 private:
  template <class Until>
  void run_until(Until until, char const* what, bool quiet = false) {
    auto const deadline = Steady::now() + kPatience;
    while (!until()) {
      if (!quiet && Steady::now() > deadline) {
        give_up(std::string("not within a minute: ") + what + "; " + std::to_string(started_) + " of " +
                std::to_string(agents_.size()) + " started");
      }
      turn(1);
    }
  }

  void turn(int wait_ms) {
    int const n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), wait_ms);
    for (int k = 0; k < n; ++k) {
      auto const& event = events_[static_cast<std::size_t>(k)];
      serve(event.data.u64 / 2, event.data.u64 % 2 == 1, event.events);
    }
    send_due_beats();
  }

  void call(std::size_t i, bool for_beats) {
    Connection& connection = for_beats ? agents_[i].beats : agents_[i].main;
    connection.fd = os::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!connection.fd) {
      give_up("no descriptor is left: " + std::string(std::strerror(errno)));
    }
    int const yes = 1;
    (void)::setsockopt(connection.fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)::setsockopt(connection.fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + static_cast<std::uint32_t>(2 * i / kPerAddress));
    if (::bind(connection.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      give_up("cannot bind: " + std::string(std::strerror(errno)));
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(arguments_.port);
    if (::connect(connection.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
        errno != EINPROGRESS) {
      give_up("cannot connect: " + std::string(std::strerror(errno)));
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT;
    event.data.u64 = 2 * i + (for_beats ? 1 : 0);
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.fd.get(), &event);
  }

  /// What the parent of the last agent does, all at once: the coordinator reads it after the greeting.
  void send_death_notice() {
    Connection death_notice;
    death_notice.fd = os::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(arguments_.port);
    if (::connect(death_notice.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      give_up("cannot connect: " + std::string(std::strerror(errno)));
    }
    Hello hello;
    hello.run_id = arguments_.run_id;
    hello.nonce = incarnation(agents_.size() - 1);
    hello.purpose = Hello::Purpose::death_notice;
    std::vector<std::string> const words = {encode(hello),
                                            encode(ToCoordinator(Gone{agents_.back().running, agents_.back().rank}))};
    if (key_) {
      send(death_notice, sign_death_notice(*key_, words));
    } else {
      send(death_notice, words[0]);
      send(death_notice, words[1]);
    }
    char reply[512];
    (void)!::recv(death_notice.fd.get(), reply, sizeof reply, 0);
  }

  void say(Connection& connection, std::string const& payload) {
    send(connection, connection.guard ? connection.guard->seal(payload) : payload);
  }

  void send(Connection const& connection, std::string const& frame) {
    std::string const bytes = wire::frame(frame);
    if (::send(connection.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      give_up("a frame did not go out at once: " + std::string(std::strerror(errno)));
    }
    sent_ += bytes.size();
  }

  [[nodiscard]] std::string incarnation(std::size_t i) const { return arguments_.run_id + "-" + std::to_string(i); }

  void serve(std::size_t i, bool for_beats, std::uint32_t what) {
    Connection& connection = for_beats ? agents_[i].beats : agents_[i].main;
    if (!connection.fd) {
      return;
    }
    if (!connection.connected && (what & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
      connected(i, for_beats, connection);
    }
    if ((what & EPOLLIN) == 0) {
      return;
    }
    char chunk[16384];
    ssize_t const n = ::recv(connection.fd.get(), chunk, sizeof chunk, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      give_up("the coordinator ended the connection of agent " + std::to_string(i));
    }
    if (n > 0) {
      received_ += static_cast<std::uint64_t>(n);
      connection.reader.feed({chunk, static_cast<std::size_t>(n)});
    }
    for (auto next = connection.reader.next(); next && next->has_value(); next = connection.reader.next()) {
      if (connection.guard) {
        unseal(i, for_beats, connection, **next);
      } else {
        for_beats ? beat_answered(i, **next) : heard(i, **next);
      }
    }
  }

  void unseal(std::size_t i, bool for_beats, Connection& connection, std::string const& frame) {
    auto const led_to = connection.guard->on_frame(frame);
    if (auto const* const unsealed = std::get_if<Unsealed>(&led_to)) {
      for_beats ? beat_answered(i, unsealed->payload) : heard(i, unsealed->payload);
    } else if (auto const* const wants = std::get_if<WantsKey>(&led_to)) {
      if (!key_) {
        key_ = read_grant(unwrap(*secret_, wants->offer.wraps.at(0).bytes).value()).value().key;
      }
      connection.guard->use_key(key_.value());
      greet(i, for_beats, connection);
    } else {
      give_up("the coordinator does not prove itself");
    }
  }

  void connected(std::size_t i, bool for_beats, Connection& connection) {
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(connection.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      give_up("cannot connect: " + std::string(std::strerror(error)));
    }
    connection.connected = true;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = 2 * i + (for_beats ? 1 : 0);
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
    if (secret_) {
      connection.guard =
          SecureChannel::of_caller(random_bytes<Nonce{}.size()>(), for_beats ? id_of(key_.value()) : KeyId{});
      send(connection, connection.guard->call());
    } else {
      greet(i, for_beats, connection);
    }
  }

  void greet(std::size_t i, bool for_beats, Connection& connection) {
    Hello hello;
    hello.run_id = arguments_.run_id;
    hello.nonce = incarnation(i);
    hello.ends = {end_text(os::own_end(connection.fd.get())), end_text(os::other_end(connection.fd.get()))};
    hello.purpose = for_beats ? Hello::Purpose::beat : Hello::Purpose::agent;
    hello.asks = Hello::Asks::open;
    say(connection, encode(hello));
  }

  void heard(std::size_t i, std::string const& payload) {
    Agent& agent = agents_[i];
    if (!agent.main.greeted) {
      auto const reply = decode<HelloReply>(payload);
      if (!reply || reply->why != HelloReply::Why::accepted) {
        give_up("refused: " + payload);
      }
      agent.main.greeted = true;
      join(i);
      return;
    }
    auto const message = decode<ToAgent>(payload);
    if (!message) {
      give_up("not understood: " + payload);
    }
    if (auto const* prepare = std::get_if<Prepare>(&*message)) {
      agent.ready = prepare->generation.number;
      agent.rank = prepare->generation.group_rank;
      say(agent.main, encode(ToCoordinator(Ack{agent.ready, prepare->sent, own_time(Clock::now())})));
    } else if (auto const* start = std::get_if<Start>(&*message)) {
      agent.running = start->number;
      ++started_;
    } else if (auto const* stop = std::get_if<Stop>(&*message)) {
      say(agent.main, encode(ToCoordinator(Stopped{stop->number, {}, {}})));
    } else if (auto const* propose = std::get_if<Propose>(&*message)) {
      say(agent.main, encode(ToCoordinator(Accepted{propose->decree.after, propose->ballot, propose->ballot})));
    } else if (std::holds_alternative<Finished>(*message) || std::holds_alternative<Refused>(*message)) {
      give_up("the coordinator says: " + payload);
    }
  }

  void join(std::size_t i) {
    Join join;
    join.node.node_index = static_cast<std::uint32_t>(i + (arguments_.nodes - arguments_.agents));
    join.node.incarnation = incarnation(i);
    join.node.host = "node" + std::to_string(100'000 + i);
    Terms terms;
    terms.min_nodes = arguments_.lose ? 1 : arguments_.nodes;
    terms.max_nodes = arguments_.nodes;
    terms.expected_nodes = arguments_.nodes;
    terms.heartbeat_timeout = arguments_.heartbeat;
    join.terms = terms;
    say(agents_[i].main, encode(ToCoordinator(join)));
    if (arguments_.heartbeat.count() > 0) {
      call(i, true);
    }
  }

  // ---- beats: one agent after another, so that they spread over the period --------------------------------------

  struct Due {
    std::size_t agent;
    Steady::time_point at;
  };

  void beat_answered(std::size_t i, std::string const& payload) {
    Agent& agent = agents_[i];
    if (!agent.beats.greeted) {
      agent.beats.greeted = true;
      ++beating_;
      beat(i);
      return;
    }
    if (auto const ack = decode<BeatAck>(payload)) {
      agent.echo = ack->sent;
    }
  }

  void beat(std::size_t i) {
    say(agents_[i].beats, encode(Beat{own_time(Clock::now()), agents_[i].echo, agents_[i].running}));
    ++beats_sent_;
    due_.push_back({i, Steady::now() + arguments_.heartbeat / 10});
  }

  void send_due_beats() {
    auto const now = Steady::now();
    while (!due_.empty() && due_.front().at <= now) {
      std::size_t const i = due_.front().agent;
      due_.pop_front();
      if (agents_[i].beats.fd) {
        beat(i);
      }
    }
  }

  static std::optional<Key> secret() {
    char const* const text = std::getenv("CXXRUN_SECRET");
    return text == nullptr ? std::nullopt : std::optional(*read_secret(text));
  }

  Arguments arguments_;
  std::optional<Key> const secret_ = secret();
  std::optional<Key> key_;  // of the coordinator's runs, once it was taken out of its wrap
  os::UniqueFd epoll_;
  std::vector<Agent> agents_;
  std::vector<epoll_event> events_{1024};
  std::deque<Due> due_;
  std::size_t started_ = 0;
  std::size_t beating_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t beats_sent_ = 0;
};

void raise_descriptors(std::size_t wanted) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    give_up("this needs " + std::to_string(wanted) + " descriptors (ulimit -n), and " + std::to_string(limit.rlim_cur) +
            " are allowed");
  }
}

int measure(Arguments const& arguments) {
  raise_descriptors((arguments.heartbeat.count() > 0 ? 2 : 1) * arguments.agents + 50);
  Crowd crowd(arguments);
  Usage const before = usage_of(arguments.pid);
  auto begin = Steady::now();
  crowd.form();
  double const formed_s = seconds_since(begin);
  Usage const after = usage_of(arguments.pid);
  auto const forming_bytes = static_cast<double>(crowd.bytes());

  crowd.settle();
  auto const settled_bytes = static_cast<double>(crowd.bytes());
  double lost_s = 0;
  double lost_bytes = 0;
  if (arguments.lose) {
    begin = Steady::now();
    crowd.lose_one();
    lost_s = seconds_since(begin);
    lost_bytes = static_cast<double>(crowd.bytes()) - settled_bytes;
  }

  auto const idle_from = crowd.bytes();
  auto const beats_from = crowd.beats();
  Usage const idle_before = usage_of(arguments.pid);
  begin = Steady::now();
  crowd.idle();
  double const idle_s = seconds_since(begin);
  Usage const idle_after = usage_of(arguments.pid);
  auto const per_agent = static_cast<double>(arguments.agents);
  std::printf(
      "{\"formed_s\": %.4f, \"bytes_per_agent\": %.0f, \"cpu_s\": %.3f, \"rss_mb\": %.1f, \"peak_mb\": %.1f, "
      "\"lost_s\": %.4f, \"lost_bytes_per_agent\": %.0f, \"idle_kb_s\": %.1f, \"idle_beats_s\": %.0f, "
      "\"idle_cpu\": %.4f}\n",
      formed_s, forming_bytes / per_agent, after.cpu_s - before.cpu_s, idle_after.rss_mb, idle_after.peak_mb, lost_s,
      lost_bytes / per_agent, idle_s > 0 ? static_cast<double>(crowd.bytes() - idle_from) / idle_s / 1e3 : 0,
      idle_s > 0 ? static_cast<double>(crowd.beats() - beats_from) / idle_s : 0,
      idle_s > 0 ? (idle_after.cpu_s - idle_before.cpu_s) / idle_s : 0);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  std::vector<std::string> const words(argv + 1, argv + argc);
  if (words.size() < 7 || words.size() > 8 || (words.size() == 8 && words[7] != "lose")) {
    std::fprintf(stderr, "Usage: crowd_bench PORT AGENTS TERMS_NODES RUN_ID HEARTBEAT_MS IDLE_SECONDS PID [lose]\n");
    return 2;
  }
  Arguments arguments;
  arguments.port = static_cast<std::uint16_t>(std::stoul(words[0]));
  arguments.agents = std::stoul(words[1]);
  arguments.nodes = static_cast<std::uint32_t>(std::stoul(words[2]));
  arguments.run_id = words[3];
  arguments.heartbeat = Millis(std::stol(words[4]));
  arguments.idle_s = std::stod(words[5]);
  arguments.pid = words[6];
  arguments.lose = words.size() == 8;
  return measure(arguments);
}
