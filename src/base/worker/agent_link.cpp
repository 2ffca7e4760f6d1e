#include "src/base/worker/agent_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <new>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/base/core/variables.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/thread.hpp"
#include "src/base/worker/futex.hpp"

namespace cxxrun::worker {
namespace {

constexpr Millis kAnswer{
    10'000};                    ///< for the agent's first packet, which is late on a machine that is starting workers
constexpr Millis kSlice{1000};  ///< the bell is looked at this often, so that a missed wake-up costs no more
constexpr Millis kSoon{1};

/// One packet and at most one descriptor. No bytes: none has arrived yet.
struct Packet {
  std::string bytes;
  os::UniqueFd descriptor;
  bool closed = false;
};

Packet receive_packet(int connection, std::string& buffer, int flags) {
  buffer.resize(kMostBytes);
  Packet packet;
  ssize_t const n = os::receive_packet(connection, buffer, packet.descriptor, flags);
  packet.closed = n == 0 || (n < 0 && errno != EAGAIN);
  packet.bytes = buffer.substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return packet;
}

bool send_packet(int connection, FromWorker const& packet) {
  std::string const bytes = encode(packet);
  return os::send_packet(connection, bytes) == static_cast<ssize_t>(bytes.size());
}

ControlPage* page_in(os::Mapping const& memory) {
  return std::launder(reinterpret_cast<ControlPage*>(memory.get()));
}

/// Null when the descriptor is not of a page of this version.
os::Mapping map_page(int fd) {
  struct stat file {};
  int const seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 ||
      file.st_size < static_cast<off_t>(sizeof(ControlPage))) {
    return {};
  }
  auto memory = os::map_memory(sizeof(ControlPage), MAP_SHARED, fd);
  bool const ours = memory && page_in(memory)->magic.load(std::memory_order_acquire) == kPageMagic;
  return ours ? std::move(memory) : os::Mapping();
}

struct ProcessLink {
  std::mutex mutex{};
  pid_t pid = 0;  // of the process that made the link
  AgentLink* link = nullptr;

  [[nodiscard]] AgentLink* own() const { return link != nullptr && pid == getpid() ? link : nullptr; }
};

ProcessLink& kept_link() {
  // Never destroyed: exit() in one thread must not destroy it while another thread uses it.
  static auto* const kept = new ProcessLink;  // NOLINT(cppcoreguidelines-owning-memory)
  return *kept;
}

}  // namespace

Lookup own_variables() {
  return [](char const* name) -> char const* { return std::getenv(name); };  // NOLINT(concurrency-mt-unsafe)
}

Lookup variables_of(std::vector<std::string> const& environment) {
  auto values = std::make_shared<std::map<std::string, std::string>>();
  for (std::string const& entry : environment) {
    auto const equals = entry.find('=');
    if (equals != std::string::npos) {
      values->emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return [values = std::move(values), own = own_variables()](char const* name) {
    auto const found = values->find(name);
    return found != values->end() ? found->second.c_str() : own(name);
  };
}

Result<std::unique_ptr<AgentLink>> AgentLink::connect(std::string const& name, Register const& me) {
  auto connection = os::connect_local(name, static_cast<int>(kAnswer.count()));
  if (!connection) {
    return connection.error();
  }
  std::string buffer;
  if (!send_packet(connection->get(), me)) {
    return fail(Errc::closed, "cannot send the registration to the agent", errno);
  }
  Packet const packet = receive_packet(connection->get(), buffer, 0);
  auto const answer = decode_from_agent(packet.bytes);
  if (packet.bytes.empty()) {
    return fail(packet.closed ? Errc::closed : Errc::timeout, "the agent does not answer the registration");
  }
  if (auto const* const no = answer ? std::get_if<No>(&*answer) : nullptr) {
    return fail(Errc::refused, no->why);
  }
  bool const welcome = answer && std::holds_alternative<Welcome>(*answer) && packet.descriptor;
  os::Mapping page = welcome ? map_page(packet.descriptor.get()) : os::Mapping();
  if (!page) {
    return fail(Errc::protocol, "the agent's answer to the registration is not from this version of cxxrun");
  }
  return std::unique_ptr<AgentLink>(new AgentLink(*std::move(connection), std::move(page), me.survives));
}

AgentLink::AgentLink(os::UniqueFd connection, os::Mapping memory, bool survives)
    : pid_(getpid()),
      connection_(std::move(connection)),
      rung_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_(std::move(memory)),
      page_(page_in(memory_)),
      survives_(survives),
      thread_(os::start_quiet_thread([this] { listen(); })) {}

AgentLink::~AgentLink() {
  stop_.store(true);
  // The thread may be just before its sleep, and only the agent may change the bell: wake it until it has ended.
  while (!ended_.load()) {
    futex_wake_all(page_->bell);
    std::this_thread::sleep_for(kSoon);
  }
  thread_.join();
}

bool AgentLink::claim(std::uint64_t generation) {
  std::uint64_t newest = claimed_.load();
  while (newest < generation && !claimed_.compare_exchange_weak(newest, generation)) {
  }
  return newest < generation;
}

void AgentLink::listen() {
  while (!stop_.load()) {
    std::uint32_t const seen = page_->bell.load(std::memory_order_acquire);
    if (std::uint64_t const over = page_->over.load(std::memory_order_acquire); over > 0) {
      notify_up_to(over);
    }
    if (std::uint64_t const asked = page_->asked.load(std::memory_order_acquire); asked > 0) {
      ask_to_hurry(asked);
      page_->heard.store(asked, std::memory_order_release);
    }
    static_cast<void>(eventfd_write(rung_.get(), 1));
    futex_wait(page_->bell, seen, kSlice);
  }
  ended_.store(true);
}

void AgentLink::notify_up_to(std::uint64_t generation) {
  std::lock_guard const lock(watching_);
  for (Watcher& watcher : watchers_) {
    if (watcher.tell && watcher.generation <= generation) {
      std::exchange(watcher.tell, nullptr)();
    }
  }
}

void AgentLink::ask_to_hurry(std::uint64_t generation) {
  std::lock_guard const lock(watching_);
  for (Watcher& watcher : watchers_) {
    if (watcher.hurry && watcher.generation == generation) {
      std::exchange(watcher.hurry,
                    nullptr)([this, generation] { page_->answered.store(generation, std::memory_order_release); });
    }
  }
}

AgentLink::Watch AgentLink::watch(std::uint64_t generation, std::function<void()> tell, Hurry hurry) {
  std::uint64_t number = 0;
  {
    std::lock_guard const lock(watching_);
    number = ++watches_;
    watchers_.push_back({number, generation, std::move(tell), std::move(hurry)});
  }
  if (is_over(generation)) {
    notify_up_to(generation);
  }
  return {this, number};
}

void AgentLink::Watch::reset() noexcept {
  AgentLink* const link = std::exchange(link_, nullptr);
  // In a forked child the lock may be held for ever: by a thread that only the parent has.
  if (link == nullptr || link->pid_ != getpid()) {
    return;
  }
  std::lock_guard const lock(link->watching_);
  std::erase_if(link->watchers_, [this](Watcher const& watcher) { return watcher.number == number_; });
}

void AgentLink::end_if_job_ends(Parked const& parked) const {
  if (page_->ends.load(std::memory_order_acquire) != 0) {
    throw Failure(fail(Errc::closed, "the job ends: no generation follows generation " +
                                         std::to_string(parked.generation) + " (" + parked.why + ")"));
  }
}

/// The Resume that has arrived, if any. Every other packet is ignored: none is meant for a parked worker.
std::optional<Resume> AgentLink::receive(std::uint64_t after) {
  for (;;) {
    Packet const packet = receive_packet(connection_.get(), packet_, MSG_DONTWAIT);
    if (packet.closed) {
      throw Failure(fail(Errc::closed, "the agent is gone: no generation follows generation " + std::to_string(after)));
    }
    if (packet.bytes.empty()) {
      return std::nullopt;
    }
    auto answer = decode_from_agent(packet.bytes);
    if (!answer) {
      throw Failure(fail(Errc::protocol, "the agent's answer is not from this version of cxxrun"));
    }
    if (auto* const resume = std::get_if<Resume>(&*answer); resume != nullptr && resume->generation > after) {
      return std::move(*resume);
    }
  }
}

Resume AgentLink::next_generation(Parked const& parked, Millis quiet) {
  std::lock_guard const lock(parking_);
  if (latest_ && latest_->generation > parked.generation) {
    return *latest_;
  }
  notify_up_to(parked.generation);  // other Communicators of this process must let go of it, too
  end_if_job_ends(parked);
  TimePoint const until = Clock::now() + quiet;
  if (!send_packet(connection_.get(), parked)) {
    throw Failure(fail(Errc::closed, "the agent is gone: no generation follows generation " +
                                         std::to_string(parked.generation) + " (" + parked.why + ")"));
  }
  for (;;) {
    if (auto resume = receive(parked.generation)) {
      latest_ = std::move(resume);
      return *latest_;
    }
    end_if_job_ends(parked);
    bool const known = is_over(parked.generation);
    int const left = known ? -1 : os::poll_time(until);
    if (left == 0) {
      throw Failure(fail(Errc::timeout, "no other generation came within " + std::to_string(quiet.count()) +
                                            " ms, and the launcher knows of nothing wrong with generation " +
                                            std::to_string(parked.generation) + " (" + parked.why + ")"));
    }
    std::array<pollfd, 2> watched{{{connection_.get(), POLLIN, 0}, {rung_.get(), POLLIN, 0}}};
    ::poll(watched.data(), watched.size(), left);
    eventfd_t rings = 0;
    static_cast<void>(eventfd_read(rung_.get(), &rings));
  }
}

AgentLink* process_link(Lookup const& lookup, Register const& me) {
  auto& kept = kept_link();
  std::lock_guard const lock(kept.mutex);
  if (kept.link == nullptr) {
    char const* const name = lookup(variables::kAgent);
    auto link = name == nullptr || *name == '\0' ? Result<std::unique_ptr<AgentLink>>(fail(Errc::closed, "no agent"))
                                                 : AgentLink::connect(name, me);
    if (link) {
      kept.link = link->release();
      kept.pid = getpid();
    }
  }
  return kept.own();
}

ControlPage* process_page() {
  auto& kept = kept_link();
  std::lock_guard const lock(kept.mutex);
  auto const* const link = kept.own();
  return link == nullptr ? nullptr : &link->page();
}

}  // namespace cxxrun::worker
