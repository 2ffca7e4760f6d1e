// A model of worker fan-in, to find out what it would cost (docs/design/fan_in.md); tests/bench/fan_in_bench.py starts
// it. Nothing of it is in the product: it trusts whoever knows its fixed key, and bounds nothing.
//
//   fan_in_model host            a store that speaks to agents; prints its port
//   fan_in_model agent PORT      an agent: takes workers on a port that it prints, passes their bytes to that host
//   fan_in_model seal            what sealing and opening a frame costs, as JSON
#include <chrono>
#include <map>
#include <memory>
#include <sodium.h>
#include <unordered_map>
#include <vector>

#include "src/store/kv_store.hpp"
#include "src/wire/store_protocol.hpp"
#include "tests/bench/fan_in.hpp"

namespace {

using namespace fan_in;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kEventsPerTurn = 128;
constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kLongestItem = 65536;
constexpr std::size_t kLongestFrame = 1000UL * 1024;  // an item more still fits a frame

os::UniqueFd accept_one(int listener) {
  return os::UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/// The keys, and a decoder for each worker behind each agent's connection.
class Host {
 public:
  Host() : listener_(listen_and_tell()), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    watch(epoll_.get(), listener_.get(), 0);
  }

  void run() {
    std::vector<epoll_event> events(kEventsPerTurn);
    for (;;) {
      int const n = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, -1);
      for (int i = 0; i < n; ++i) {
        std::uint64_t const name = events[static_cast<std::size_t>(i)].data.u64;
        name == 0 ? accept_some() : hear(name);
      }
      for (std::uint64_t const name : spoken_to_) {
        if (auto const agent = agents_.find(name); agent != agents_.end()) {
          agent->second.link.say(agent->second.replies);
          agent->second.replies.clear();
        }
      }
      spoken_to_.clear();
    }
  }

 private:
  struct Agent {
    SealedLink link;
    std::map<std::uint32_t, wire::StoreDecoder> workers;
    std::string replies;
  };

  static store::ConnectionId id_of(std::uint64_t agent, std::uint32_t worker) { return agent << 20U | worker; }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      auto fd = accept_one(listener_.get());
      if (!fd) {
        return;
      }
      watch(epoll_.get(), fd.get(), ++last_);
      agents_.emplace(last_, Agent{SealedLink(std::move(fd), false), {}, {}});
    }
  }

  void hear(std::uint64_t name) {
    Agent& agent = agents_.at(name);
    bool const there = agent.link.receive([&](std::string_view payload) {
      each_item(payload, [&](std::uint32_t worker, std::string_view bytes) { serve(name, agent, worker, bytes); });
    });
    if (!there) {
      for (auto const& [worker, decoder] : agent.workers) {
        kv_.forget(id_of(name, worker));
      }
      agents_.erase(name);
    }
  }

  void serve(std::uint64_t name, Agent& agent, std::uint32_t worker, std::string_view bytes) {
    if (bytes.empty()) {
      kv_.forget(id_of(name, worker));
      agent.workers.erase(worker);
      return;
    }
    auto& decoder = agent.workers[worker];
    wire::StoreRequest request;
    while (decoder.next(bytes, request) == wire::StoreDecoder::Status::request) {
      auto const outcome = kv_.apply(id_of(name, worker), decoder.dialect(), request);
      reply(name, agent, worker, outcome.reply);
      for (store::ConnectionId const woken : outcome.woken) {
        reply(woken >> 20U, agents_.at(woken >> 20U), woken & 0xFFFFFU, {&wire::kStoreStopWaiting, 1});
      }
      if (!outcome.close_reason.empty() || !decoder.error().empty()) {
        give_up("a worker's request is refused: " + outcome.close_reason + decoder.error());
      }
    }
  }

  void reply(std::uint64_t name, Agent& agent, std::uint32_t worker, std::string_view bytes) {
    if (bytes.empty()) {
      return;
    }
    if (agent.replies.empty()) {
      spoken_to_.push_back(name);
    }
    while (!bytes.empty()) {
      auto const part = bytes.substr(0, kLongestItem);
      if (agent.replies.size() + part.size() > kLongestFrame) {
        agent.link.say(agent.replies);
        agent.replies.clear();
      }
      put_item(agent.replies, worker, part);
      bytes.remove_prefix(part.size());
    }
  }

  os::UniqueFd listener_;
  os::UniqueFd epoll_;
  store::KvStore kv_;
  std::unordered_map<std::uint64_t, Agent> agents_;
  std::vector<std::uint64_t> spoken_to_;
  std::uint64_t last_ = 0;
};

/// Passes bytes on, and understands none of them.
class Relay {
 public:
  explicit Relay(std::uint16_t host)
      : listener_(listen_and_tell()), epoll_(::epoll_create1(EPOLL_CLOEXEC)), host_(call(host, 0), true) {
    watch(epoll_.get(), host_.fd(), kHost);
    host_.begin();
    while (!host_.sealed()) {
      if (!host_.receive([](std::string_view) {})) {
        give_up("the host is gone");
      }
    }
    watch(epoll_.get(), listener_.get(), kListener);
  }

  void run() {
    std::vector<epoll_event> events(kEventsPerTurn);
    for (;;) {
      int const n = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, -1);
      for (int i = 0; i < n; ++i) {
        take(events[static_cast<std::size_t>(i)].data.u64);
      }
      if (!items_.empty()) {
        host_.say(items_);
        items_.clear();
      }
    }
  }

 private:
  static constexpr std::uint64_t kHost = 0;
  static constexpr std::uint64_t kListener = 1;
  static constexpr std::uint64_t kFirstWorker = 2;

  void take(std::uint64_t name) {
    if (name == kListener) {
      if (auto fd = accept_one(listener_.get())) {
        watch(epoll_.get(), fd.get(), kFirstWorker + last_);
        workers_.emplace(last_++, std::move(fd));
      }
    } else if (name == kHost) {
      bool const there = host_.receive([this](std::string_view payload) {
        each_item(payload, [this](std::uint32_t worker, std::string_view bytes) {
          if (auto const found = workers_.find(worker); found != workers_.end()) {
            send_all(found->second.get(), bytes);
          }
        });
      });
      if (!there) {
        std::exit(0);
      }
    } else {
      from_worker(static_cast<std::uint32_t>(name - kFirstWorker));
    }
  }

  void from_worker(std::uint32_t worker) {
    thread_local std::array<char, 65536> chunk;
    ssize_t const n = ::recv(workers_.at(worker).get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n > 0) {
      put_item(items_, worker, {chunk.data(), static_cast<std::size_t>(n)});
    } else if (n == 0 || errno != EAGAIN) {
      put_item(items_, worker, {});
      workers_.erase(worker);
    }
  }

  os::UniqueFd listener_;
  os::UniqueFd epoll_;
  SealedLink host_;
  std::unordered_map<std::uint32_t, os::UniqueFd> workers_;
  std::uint32_t last_ = 0;
  std::string items_;
};

/// Microseconds to seal a frame of `size` bytes and to open it again: the best of many rounds.
double seal_us(std::size_t size) {
  using Clock = std::chrono::steady_clock;
  rendezvous::Key const key = rendezvous::derive({}, "fan_in_bench");
  rendezvous::Sealer sealer(key);
  rendezvous::Opener opener(key);
  std::string const plain(size, 'x');
  std::size_t const rounds = std::max<std::size_t>(4, (1U << 20U) / (size + 64));
  double best = 1e9;
  for (int repeat = 0; repeat < 30; ++repeat) {
    auto const begin = Clock::now();
    for (std::size_t i = 0; i < rounds; ++i) {
      if (!opener.open(sealer.seal(plain))) {
        give_up("it does not open");
      }
    }
    best = std::min(
        best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(rounds));
  }
  return best;
}

std::string seals() {
  std::string out;
  for (std::size_t const size : {40UL, 200UL, 4096UL, 65536UL, wire::kMaxFrame - rendezvous::kSealBytes}) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), R"(%s"%zu": %.2f)", out.empty() ? "{" : ", ", size, seal_us(size));
    out += text.data();
  }
  return out + "}";
}

}  // namespace

int main(int argc, char* argv[]) {
  std::string const mode = argc > 1 ? argv[1] : "";
  raise_descriptors();
  if (mode == "host" && argc == 2) {
    Host().run();
  } else if (mode == "agent" && argc == 3) {
    Relay(static_cast<std::uint16_t>(std::atoi(argv[2]))).run();
  } else if (mode == "seal" && argc == 2) {
    std::string const before = seals();  // as it is in the programs, which do not ask for more
    if (::sodium_init() < 0) {
      give_up("libsodium");
    }
    std::printf("{\"as it is\": %s, \"after sodium_init()\": %s}\n", before.c_str(), seals().c_str());
  } else {
    std::fprintf(stderr, "Usage: fan_in_model host | agent PORT | seal\n");
    return 2;
  }
  return 0;
}
