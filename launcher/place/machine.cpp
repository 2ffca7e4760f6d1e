#include "launcher/place/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <hwloc.h>
#include <unistd.h>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr char const* kLibrary = "libhwloc.so.15";

// ---- hwloc, loaded when needed --------------------------------------------------------------------------------

/// The functions of libhwloc that are used, by their own names and types.
struct Hwloc {
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_set_components) set_components = nullptr;
  decltype(&hwloc_topology_set_all_types_filter) set_all_types_filter = nullptr;
  decltype(&hwloc_topology_set_type_filter) set_type_filter = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_get_type_depth) get_type_depth = nullptr;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&hwloc_bitmap_first) bitmap_first = nullptr;
};

/// The library stays loaded until the process ends.
Result<Hwloc> load_hwloc() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    char const* const said = dlerror();
    return fail(Errc::not_found, why_not_loaded(said == nullptr ? "" : said));
  }
  Hwloc hwloc;
  bool const complete = os::find_function(library, "hwloc_topology_init", hwloc.init) &&
                        os::find_function(library, "hwloc_topology_destroy", hwloc.destroy) &&
                        os::find_function(library, "hwloc_topology_set_components", hwloc.set_components) &&
                        os::find_function(library, "hwloc_topology_set_all_types_filter", hwloc.set_all_types_filter) &&
                        os::find_function(library, "hwloc_topology_set_type_filter", hwloc.set_type_filter) &&
                        os::find_function(library, "hwloc_topology_load", hwloc.load) &&
                        os::find_function(library, "hwloc_get_type_depth", hwloc.get_type_depth) &&
                        os::find_function(library, "hwloc_get_obj_by_depth", hwloc.get_obj_by_depth) &&
                        os::find_function(library, "hwloc_bitmap_first", hwloc.bitmap_first);
  return complete ? Result<Hwloc>(hwloc) : Result<Hwloc>(fail(Errc::not_found, "libhwloc.so.15 is older than 2.1"));
}

/// The number of the object of this type that contains `pu`, or `otherwise` if there is none.
std::uint32_t around(hwloc_obj_t pu, hwloc_obj_type_t type, std::uint32_t otherwise = 0) {
  for (hwloc_obj const* object = pu; object != nullptr; object = object->parent) {
    if (object->type == type) {
      return object->logical_index;
    }
  }
  return otherwise;
}

std::vector<Pu> list_pus(Hwloc const& hwloc, hwloc_topology_t topology) {
  std::vector<Pu> pus;
  int const depth = hwloc.get_type_depth(topology, HWLOC_OBJ_PU);
  for (unsigned index = 0;; ++index) {
    hwloc_obj_t const object = hwloc.get_obj_by_depth(topology, depth, index);
    if (object == nullptr) {
      return pus;
    }
    Pu pu;
    pu.id = object->os_index;
    pu.package = around(object, HWLOC_OBJ_PACKAGE);
    pu.l3 = around(object, HWLOC_OBJ_L3CACHE);
    pu.core = around(object, HWLOC_OBJ_CORE, object->logical_index);
    int const node = object->nodeset == nullptr ? -1 : hwloc.bitmap_first(object->nodeset);
    pu.numa = node < 0 ? 0 : static_cast<std::uint32_t>(node);
    pus.push_back(pu);
  }
}

// ---- GPUs -----------------------------------------------------------------------------------------------------

std::vector<std::string> entries(std::string const& path) {
  auto names = os::entries_of(path);
  std::erase_if(names, [](std::string const& name) { return name.starts_with('.'); });
  std::ranges::sort(names);  // PCI bus order
  return names;
}

// ---- both -----------------------------------------------------------------------------------------------------

void keep_plugins_out() {
  setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);  // NOLINT(concurrency-mt-unsafe): there are no threads yet
  setenv("HWLOC_HIDE_ERRORS", "2", 1);              // NOLINT(concurrency-mt-unsafe)
}

CpuPlan look_up(CpuMode mode, std::uint32_t workers, std::optional<std::string> const& visible_gpus) {
  auto const allowed = os::allowed_cpus();
  auto const machine = allowed.size() < workers ? Result<Machine>(Machine{}) : read_machine();
  return machine ? plan_cpus(*machine, allowed, workers, gpu_nodes(read_gpus(""), visible_gpus), mode)
                 : CpuPlan{{}, machine.error().context + ": workers are not bound to CPUs"};
}

}  // namespace

std::string why_not_loaded(std::string const& said) {
  std::string const name = kLibrary;
  bool const missing = said.empty() || (said.starts_with(name + ": ") && said.ends_with(": No such file or directory"));
  return missing ? name + " is not installed here" : name + " is here but cannot be loaded: " + printable(said);
}

Result<Machine> read_machine() {
  auto const hwloc = load_hwloc();
  if (!hwloc) {
    return hwloc.error();
  }
  hwloc_topology_t topology = nullptr;
  if (hwloc->init(&topology) != 0) {
    return fail(Errc::io, "hwloc cannot start", errno);
  }
  // The x86 backend moves to each CPU in turn to query it. That takes milliseconds and adds nothing to what Linux
  // reports.
  hwloc->set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc->set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (auto const type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_CORE}) {
    hwloc->set_type_filter(topology, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  Machine machine;
  bool const loaded = hwloc->load(topology) == 0;
  if (loaded) {
    machine.pus = list_pus(*hwloc, topology);
  }
  hwloc->destroy(topology);
  return loaded ? Result<Machine>(std::move(machine)) : fail(Errc::io, "hwloc cannot read this machine");
}

std::vector<Gpu> read_gpus(std::string const& root) {
  std::string const gpus_path = root + "/proc/driver/nvidia/gpus/";
  std::vector<Gpu> gpus;
  for (auto const& bus_id : entries(gpus_path)) {
    Gpu gpu;
    bool usable = true;
    for (auto const& line : split(os::read_text(gpus_path + bus_id + "/information"), '\n')) {
      auto const colon = line.find(':');
      auto const name = std::string_view(line).substr(0, colon);
      auto const value = colon == std::string::npos ? std::string() : replace_all(line.substr(colon + 1), "\t", "");
      if (name == "GPU UUID") {
        gpu.uuid = trim(value);
      } else if (name == "Device Minor") {
        // A control group may deny the device, and CUDA does not count it then. Checked by access(), as in
        // os::gpu_devices().
        auto const device = root + "/dev/nvidia" + std::string(trim(value));
        usable = access(device.c_str(), R_OK | W_OK) == 0;
      }
    }
    auto const node = os::read_text(root + "/sys/bus/pci/devices/" + lower(bus_id) + "/numa_node");
    if (auto const number = parse_unsigned(trim(replace_all(node, "\n", "")), 0, 65535)) {  // -1: unknown
      gpu.numa = static_cast<std::uint32_t>(*number);
    }
    if (usable) {
      gpus.push_back(std::move(gpu));
    }
  }
  return gpus;
}

CpuPlan find_cpus(CpuMode mode, std::uint32_t workers, std::optional<std::string> const& visible_gpus) {
  if (mode == CpuMode::none) {
    return {};
  }
  keep_plugins_out();
  return look_up(mode, workers, visible_gpus);
}

std::function<CpuPlan()> start_finding_cpus(CpuMode mode, std::uint32_t workers,
                                            std::optional<std::string> const& visible_gpus) {
  if (mode == CpuMode::none) {
    return [] { return CpuPlan{}; };
  }
  keep_plugins_out();
  auto const plan = std::make_shared<CpuPlan>();  // shared: the thread may outlive the caller
  auto const find = [=] { *plan = look_up(mode, workers, visible_gpus); };
  std::shared_ptr<os::BoundedThread> const thread = os::BoundedThread::start("cxxrun-cpus", find);
  return [=]() -> CpuPlan {
    if (!thread) {
      find();
    } else if (!thread->join_until(Clock::now() + kPatience)) {
      return {{}, "hwloc takes too long: workers are not bound to CPUs"};
    }
    return std::move(*plan);
  };
}

}  // namespace cxxrun::launcher
