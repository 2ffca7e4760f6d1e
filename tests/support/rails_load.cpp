// rails_load: a rail of one rank per network namespace, for tests/bench/rails_bench.py and the namespace test.
//
//   rails_load NET=ADDRESS… [--bytes N] [--reps R] [--wire same|bf16|f16] [--raw] [--op-timeout MS] [--silence MS]
//
// NET is a file such as /proc/PID/ns/net. Repeats all-reduces of N bytes of f32 and prints a JSON line per rank and
// what happened. --raw: two ranks, one plain TCP stream of N bytes instead. --reps 0: until something fails; "ready"
// is printed after the first all-reduce of rank 0.
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <sched.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/core/time.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"
#include "tests/support/rail.hpp"

using namespace cxxrun;

namespace {

using Seconds = std::chrono::duration<double>;

struct Options {
  std::vector<std::string> nets;
  std::vector<std::string> hosts;
  std::size_t bytes = std::size_t{25} << 20U;
  int reps = 5;
  Wire wire = Wire::same;
  bool raw = false;
  std::chrono::milliseconds op_timeout{60000};
  std::chrono::milliseconds silence{15000};
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    if (word == "--raw") {
      options.raw = true;
    } else if (word.starts_with("--")) {
      std::string const value = ++i < argc ? argv[i] : "";
      if (word == "--wire") {
        options.wire = value == "bf16" ? Wire::bf16 : (value == "f16" ? Wire::f16 : Wire::same);
      } else if (word == "--bytes") {
        options.bytes = std::stoull(value);
      } else if (word == "--reps") {
        options.reps = std::stoi(value);
      } else if (word == "--op-timeout") {
        options.op_timeout = std::chrono::milliseconds(std::stoi(value));
      } else if (word == "--silence") {
        options.silence = std::chrono::milliseconds(std::stoi(value));
      } else {
        throw std::invalid_argument(word);
      }
    } else {
      auto const equals = word.find('=');
      options.nets.push_back(word.substr(0, equals));
      options.hosts.push_back(word.substr(equals + 1));
    }
  }
  return options;
}

void enter(std::string const& net) {
  os::UniqueFd const fd(::open(net.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::setns(fd.get(), CLONE_NEWNET) != 0) {
    throw std::runtime_error("cannot enter " + net + ": " + std::strerror(errno));
  }
}

void say(std::string const& line) {
  std::string const text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) {
    _exit(1);
  }
}

std::string list(std::vector<double> const& times) {
  std::string text = "[";
  for (double const time : times) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(time);
  }
  return text + "]";
}

void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  ::poll(&entry, 1, -1);
}

/// Moves `size` bytes in one direction; true at the end of the stream.
bool move_all(int fd, std::byte* data, std::size_t size, bool out) {
  for (std::size_t at = 0; at < size;) {
    ssize_t const n = out ? ::send(fd, data + at, size - at, MSG_NOSIGNAL) : ::recv(fd, data + at, size - at, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      return true;
    }
    if (n < 0) {
      wait_for(fd, out ? POLLOUT : POLLIN);
    }
    at += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return false;
}

/// Node 0 sends, node 1 answers with one byte when it has everything.
void stream(Options const& options, int node, std::vector<host::RailListener>& listeners) {
  os::UniqueFd fd;
  if (node == 0) {
    fd = or_throw(host::begin_connect(listeners[1].address));
    wait_for(fd.get(), POLLOUT);
  } else {
    wait_for(listeners[1].fd.get(), POLLIN);
    fd.reset(::accept4(listeners[1].fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
  }
  host::prepare_data(fd.get());
  std::vector<std::byte> data(options.bytes, std::byte{1});
  std::vector<double> times;
  for (int rep = 0; rep <= options.reps; ++rep) {
    auto const began = Clock::now();
    std::byte answer{};
    if (move_all(fd.get(), data.data(), data.size(), node == 0) || move_all(fd.get(), &answer, 1, node != 0)) {
      throw std::runtime_error("the stream broke");
    }
    times.push_back(Seconds(Clock::now() - began).count());
  }
  times.erase(times.begin());  // warms up
  if (node == 0) {
    say("{\"rank\": 0, \"seconds\": " + list(times) + "}");
  }
}

void reduce(Options const& options, int node, std::vector<host::RailListener>& listeners) {
  auto config = test::rail_config(node, listeners);
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    config.peers[i].rank = static_cast<int>(i);
  }
  config.silence = options.silence;
  auto mine = std::move(listeners[static_cast<std::size_t>(node)]);
  listeners.clear();
  test::NoMates mates;
  host::Rails rails(config, std::move(mine), mates, test::patience(options.op_timeout));
  std::vector<float> data(options.bytes / sizeof(float), 1.0F);
  comm::Call call;
  call.kind = comm::Kind::all_reduce;
  call.type = DType::f32;
  call.count = data.size();
  call.wire = options.wire;
  call.scale = 0.5F;
  std::vector<double> times;
  try {
    for (int rep = 0; options.reps == 0 || rep <= options.reps; ++rep) {
      auto const patience = test::patience(options.op_timeout);
      rails.all_reduce(call, reinterpret_cast<std::byte*>(data.data()), data.size(), patience);
      if (options.reps > 0) {
        times.push_back(Seconds(Clock::now() - patience.began).count());
      } else if (rep == 0 && node == 0) {
        say("ready");
      }
    }
    times.erase(times.begin());
    say("{\"rank\": " + std::to_string(node) + ", \"seconds\": " + list(times) + "}");
  } catch (PeerFailure const& error) {
    rails.fail(std::current_exception());
    say("{\"rank\": " + std::to_string(node) + ", \"why\": " + std::to_string(static_cast<int>(error.why())) +
        ", \"names\": " + std::to_string(error.rank()) +
        ", \"after\": " + std::to_string(Seconds(error.after()).count()) + "}");
  }
}

int run(Options const& options) {
  std::vector<host::RailListener> listeners;
  os::UniqueFd const home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  for (std::size_t i = 0; i < options.nets.size(); ++i) {
    enter(options.nets[i]);  // a socket stays in the namespace that it was made in
    listeners.push_back(host::listen_for_rails(options.hosts[i]));
  }
  for (std::size_t i = 0; i < options.nets.size(); ++i) {
    if (::fork() == 0) {
      try {
        int const node = static_cast<int>(i);
        enter(options.nets[i]);
        options.raw ? stream(options, node, listeners) : reduce(options, node, listeners);
        _exit(0);
      } catch (std::exception const& error) {
        std::cerr << "rank " << i << ": " << error.what() << std::endl;
        _exit(1);
      }
    }
  }
  int bad = 0;
  for (int status = 0; ::wait(&status) > 0;) {
    bad += status != 0 ? 1 : 0;
  }
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (std::exception const& error) {
    std::cerr << "rails_load: " << error.what() << std::endl;
    return 2;
  }
}
