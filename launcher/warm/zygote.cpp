#include "launcher/warm/zygote.hpp"

#include <cassert>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <zygote_text.hpp>

#include "src/base/core/text.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

using boost::system::error_code;

constexpr std::size_t kMostReport = 4096;

struct Pair {
  os::UniqueFd ours;
  os::UniqueFd theirs;
};

Result<Pair> make_pair() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Errc::io, "cannot make a socket for a warm worker", errno);
  }
  return Pair{os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

os::UniqueFd memory_with(std::string_view bytes) {
  os::UniqueFd memory(memfd_create("cxxrun-warm", MFD_CLOEXEC));
  if (!memory || !os::write_all(memory.get(), bytes) || lseek(memory.get(), 0, SEEK_SET) != 0) {
    memory.reset();
  }
  return memory;
}

bool send(int connection, std::string_view bytes, int descriptor = -1) {
  return os::send_packet(connection, bytes, descriptor, MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

/// Takes the next packet and returns the pid of its sender, which the kernel adds (SO_PASSCRED); 0: there is no packet.
pid_t sender_of(int connection) {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  auto const got = os::retried([&] { return recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  auto const* const header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) {
    return 0;
  }
  ucred who{};
  std::memcpy(&who, CMSG_DATA(header), sizeof who);
  return who.pid;
}

/// Puts everything that a worker needs into its socket before it is forked, except for the packet that lets it go on.
bool prepare(int connection, WarmWorker& worker) {
  int const on = 1;
  if (setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return false;
  }
  auto const words = memory_with(worker.words);
  if (!words || !send(connection, "s", words.get())) {
    return false;
  }
  for (std::size_t i = 0; i < worker.streams.size(); ++i) {
    auto& stream = worker.streams.at(i);
    if (!stream) {
      stream.reset(open("/dev/null", (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
    }
    if (!send(connection, std::to_string(i), stream.get())) {
      return false;
    }
  }
  return true;
}

}  // namespace

Zygote::Zygote(boost::asio::io_context& io, WarmCommand command, std::string const& modules, ZygoteInbox& inbox)
    : io_(io),
      command_(std::move(command)),
      policy_{printable(modules, 200)},
      inbox_(inbox),
      control_(io),
      timer_(io) {}

Result<Zygote::Started> Zygote::start(boost::asio::io_context& io, std::vector<std::string> const& argv,
                                      std::vector<std::string> environment, std::string const& modules,
                                      ZygoteInbox& inbox) {
  auto command = warm_command(argv);
  if (!command) {
    return command.error();
  }
  std::string_view const text = kZygoteText;
  auto pair = make_pair();
  os::Pipe output = os::make_pipe();
  if (!pair || !output) {
    return !pair ? pair.error() : fail(Errc::io, "cannot make a pipe for the warm Python", errno);
  }
  std::erase_if(environment, [](auto const& word) { return word.starts_with("OPENBLAS_NUM_THREADS="); });
  environment.emplace_back("OPENBLAS_NUM_THREADS=1");  // importing it must not start threads; workers set their number
  os::SpawnRequest request;
  request.argv = zygote_command(*command, argv, text.size());
  request.environment = std::move(environment);
  request.path = os::find_program(argv.front(), request.environment).path;
  request.in = pair->theirs.get();
  request.out = request.err = output.write.get();
  request.nofile_soft = os::original_nofile_limit();
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return fail(Errc::io, os::explain_failed_start(argv.front(), started.stage, started.error));
  }
  std::shared_ptr<Zygote> zygote(new Zygote(io, *std::move(command), modules, inbox));
  zygote->pid_ = started.pid;
  std::string first = argv.at(zygote->command_.script);
  for (auto const& module : split(modules, ',')) {
    first += '\0' + module;
  }
  zygote->control_.assign(pair->ours.release());
  send(zygote->control_.native_handle(), text);  // errors are ignored: the end of the process is noticed by itself
  send(zygote->control_.native_handle(), first);
  zygote->await_report();
  return Started{std::move(zygote), started.pid, std::move(output.read)};
}

bool Zygote::takes(std::vector<std::string> const& argv) const {
  auto const command = warm_command(argv);
  return machine_.state.life != warm::Life::given_up && command && *command == command_;
}

void Zygote::await_report() {
  control_.async_wait(Stream::wait_read, [weak = weak_from_this()](error_code const& error) {
    auto const self = weak.lock();
    if (error || !self) {
      return;
    }
    std::array<char, kMostReport> bytes{};
    os::UniqueFd none;
    auto const got = os::receive_packet(self->control_.native_handle(), bytes, none, MSG_DONTWAIT);
    if (got > 0) {
      auto const words = split(std::string_view(bytes.data(), static_cast<std::size_t>(got)), '\0');
      if (words.size() > 1 && words.front() != "ready") {
        self->inbox_.on_module_refused(words[1]);
      }
      self->feed(warm::Reported{words});
    }
  });
}

void Zygote::ended(ExitStatus const& status) {
  pid_ = 0;
  feed(warm::Ended{status});
}

void Zygote::say(Line const& line) {
  log(line.level, line.text);
}

void Zygote::want(std::uint32_t local_rank) {
  if (pid_ > 0) {
    kill(-pid_, SIGCONT);  // it may still be frozen, with a generation that was killed before it was thawed
  }
  feed(warm::Wanted{local_rank});
}

void Zygote::perform(warm::Fork const& what) {
  auto worker = inbox_.open_warm(what.local_rank);
  if (!worker) {
    return feed(warm::Unopened{what.local_rank});
  }
  auto pair = make_pair();
  if (!pair || !prepare(pair->ours.get(), *worker) || !send(control_.native_handle(), "f", pair->theirs.get())) {
    return feed(warm::Lost{what.local_rank});
  }
  callers_[what.local_rank] = std::make_shared<Stream>(io_, pair->ours.release());
  await_hello(what.local_rank);
}

void Zygote::await_hello(std::uint32_t local_rank) {
  auto const caller = callers_.at(local_rank);
  caller->async_wait(Stream::wait_read, [weak = weak_from_this(), caller, local_rank](error_code const& error) {
    auto const self = weak.lock();
    if (!error && self && caller->is_open()) {
      self->on_hello(local_rank);
    }
  });
}

// A hello counts only if its sender is a child of ours now. The socket is also readable when the worker has died.
void Zygote::on_hello(std::uint32_t local_rank) {
  pid_t const pid = sender_of(callers_.at(local_rank)->native_handle());
  auto const stat = pid > 0 ? os::read_stat(pid) : std::nullopt;
  if (stat && stat->parent == getpid()) {
    feed(warm::Hello{local_rank, pid});
  } else {
    callers_.extract(local_rank).mapped()->close();
    feed(warm::Lost{local_rank});
  }
}

void Zygote::perform(warm::Admit const& what) {
  auto const caller = callers_.extract(what.local_rank);
  assert(caller);
  inbox_.on_forked(what.local_rank, what.pid);
  send(caller.mapped()->native_handle(), "g");
  caller.mapped()->close();
}

void Zygote::perform(warm::Execute const& what) {
  if (auto const caller = callers_.extract(what.local_rank)) {
    caller.mapped()->close();
  }
  inbox_.on_not_forked(what.local_rank);
}

void Zygote::perform(warm::Drop const& what) {
  if (auto const caller = callers_.extract(what.local_rank)) {
    caller.mapped()->close();
  }
  inbox_.on_dropped(what.local_rank);
}

void Zygote::perform(warm::Kill const& /*what*/) {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
  }
}

void Zygote::perform(warm::Arm const& what) {
  if (what.at) {
    timer_.at(*what.at, [this] { feed(warm::Tick{}); });
  } else {
    timer_.cancel();
  }
}

}  // namespace cxxrun::launcher
