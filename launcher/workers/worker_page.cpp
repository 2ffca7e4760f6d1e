#include "launcher/workers/worker_page.hpp"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "src/host/common/futex.hpp"
#include "src/os/system.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<WorkerPage> WorkerPage::make() {
  os::UniqueFd fd = os::make_memory_file("cxxrun-page");
  if (!fd || ftruncate(fd.get(), kBytes) != 0 || fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return fail(Errc::io, "cannot make the page that a worker and its agent share", errno);
  }
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {  // NOLINT(cppcoreguidelines-pro-type-cstyle-cast,performance-no-int-to-ptr)
    return fail(Errc::io, "cannot map the page that a worker and its agent share", errno);
  }
  auto* const page = new (memory) worker::ControlPage;
  page->magic.store(worker::kPageMagic, std::memory_order_release);
  return WorkerPage(page, std::move(fd));
}

WorkerPage::WorkerPage(WorkerPage&& other) noexcept
    : fd(std::move(other.fd)), page_(std::exchange(other.page_, nullptr)) {}

WorkerPage::~WorkerPage() {
  if (page_ != nullptr) {
    munmap(page_, kBytes);
  }
}

void WorkerPage::ring() const {
  page_->bell.fetch_add(1, std::memory_order_release);
  host::futex_wake_all(page_->bell);
}

}  // namespace cxxrun::launcher
