#include "tests/support/cuda_double/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace cxxrun::cuda_double {

struct World::Slot {
  std::atomic<std::uint64_t> meetings;
  std::atomic<std::uint64_t> words[2];
  std::atomic<std::int32_t> pid;
  std::atomic<bool> ends;
  alignas(64) std::byte data[kSlotBytes];
};

namespace {

std::string name_of(ncclUniqueId const& id) {
  std::string name = "/cxxrun-double-";
  for (std::size_t i = 0; i < 16; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    auto const byte = static_cast<unsigned char>(id.internal[i]);
    name += kDigits[byte / 16];
    name += kDigits[byte % 16];
  }
  return name;
}

/// Whether a process has ended, also one that nobody has waited for yet.
bool ended(std::int32_t pid) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  FILE* const file = std::fopen(path, "re");
  if (file == nullptr) {
    return true;
  }
  char state = 'R';
  int const read = std::fscanf(file, "%*d (%*[^)]) %c", &state);
  std::fclose(file);
  return read == 1 && (state == 'Z' || state == 'X');
}

void pause(int round) {
  if (round < 200) {
    std::this_thread::yield();
  } else {
    ::usleep(100);
  }
}

}  // namespace

std::size_t World::bytes_for(int size) {
  return sizeof(Slot) * static_cast<std::size_t>(size);
}

std::optional<World> World::join(ncclUniqueId const& id, int rank, int size, std::atomic<bool> const& stop) {
  std::string const name = name_of(id);
  int const file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_for(size))) != 0) {
    std::perror("cuda_double: shared memory");
    std::_Exit(99);
  }
  void* const memory = ::mmap(nullptr, bytes_for(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) {
    std::perror("cuda_double: shared memory");
    std::_Exit(99);
  }
  std::optional<World> world(World(rank, size, memory));
  world->slot(rank).pid = ::getpid();
  for (int round = 0; !world->all_there(); ++round) {
    if (stop) {
      return std::nullopt;
    }
    pause(round);
  }
  ::shm_unlink(name.c_str());  // all have it mapped: nothing is left behind, however they end
  return world;
}

void World::forget(ncclUniqueId const& id) {
  ::shm_unlink(name_of(id).c_str());
}

World::World(int rank, int size, void* memory) : rank_(rank), size_(size), memory_(memory) {}

World::World(World&& other) noexcept
    : rank_(other.rank_), size_(other.size_), memory_(std::exchange(other.memory_, nullptr)) {}

World::~World() {
  if (memory_ != nullptr) {
    ::munmap(memory_, bytes_for(size_));
  }
}

World::Slot& World::slot(int rank) const {
  return static_cast<Slot*>(memory_)[rank];
}
std::byte* World::data(int rank) const {
  return slot(rank).data;
}
std::atomic<std::uint64_t>& World::word(int rank, int which) const {
  return slot(rank).words[which];
}

bool World::all_there() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (slot(rank).pid == 0) {
      return false;
    }
  }
  return true;
}

bool World::somebody_died() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (ended(slot(rank).pid)) {
      return true;
    }
  }
  return false;
}

void World::end() {
  slot(rank_).ends = true;
  for (int rank = 0; rank < size_; ++rank) {
    for (int round = 0; !slot(rank).ends && !ended(slot(rank).pid); ++round) {
      pause(round);
    }
  }
}

Outcome World::meet(std::atomic<bool> const& stop, bool deaths_seen) {
  std::uint64_t const mine = ++slot(rank_).meetings;
  for (int rank = 0; rank < size_; ++rank) {
    for (int round = 0; slot(rank).meetings < mine; ++round) {
      if (stop) {
        return ncclInProgress;
      }
      if (deaths_seen && round % 64 == 63 && somebody_died()) {
        return ncclRemoteError;
      }
      pause(round);
    }
  }
  return ncclSuccess;
}

}  // namespace cxxrun::cuda_double
