#include "launcher/facts/visible_devices.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

namespace {

constexpr std::uint64_t kMaxDevices = 4096;
constexpr std::string_view kCuda = "CUDA_VISIBLE_DEVICES";
constexpr std::string_view kHip = "HIP_VISIBLE_DEVICES";
constexpr std::string_view kRocr = "ROCR_VISIBLE_DEVICES";
constexpr std::string_view kLevelZero = "ZE_AFFINITY_MASK";

using Entries = std::vector<std::string>;

bool is_mig(std::string const& entry) {
  return entry.starts_with("MIG-");
}

bool names_device(std::string_view entry) {
  return (!entry.empty() && entry.front() >= '0' && entry.front() <= '9') || entry.starts_with("GPU-") ||
         entry.starts_with("MIG-");
}

/// The devices in the list, up to the first entry that is not one; empty if the variable is not set.
std::optional<Entries> entries_of(Environment const& environment, std::string_view name) {
  auto const list = find_value(environment, std::string(name));
  if (!list) {
    return std::nullopt;
  }
  Entries entries;
  for (auto const& entry : split(*list, ',')) {
    entries.emplace_back(trim(entry));
    if (!names_device(entries.back())) {
      entries.pop_back();
      break;
    }
  }
  return entries;
}

/// The entries up to the first number that is not below `count`.
Entries among(Entries list, std::size_t count) {
  auto const outside = std::ranges::find_if(list, [count](std::string const& entry) {
    auto const number = number_in<std::uint64_t>(entry);
    return number && *number >= count;
  });
  list.erase(outside, list.end());
  return list;
}

std::string text_of(Environment const& environment, std::string_view name) {
  return std::string(name) + "=" + printable(value_of(environment, std::string(name)), 80);
}

struct List {
  std::string_view name;
  Entries entries;
  [[nodiscard]] bool of_mig() const { return name == kCuda && !entries.empty() && is_mig(entries.front()); }
};

/// https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html: HIP renumbers what ROCR leaves. Slurm without
/// AutoDetect sets the lists of CUDA, ROCR and Level Zero alike, whatever the GPUs are.
std::optional<List> list_in_effect(Environment const& environment) {
  auto const hip = entries_of(environment, kHip);
  auto const rocr = entries_of(environment, kRocr);
  if (hip && rocr) {
    return List{kHip, among(*hip, rocr->size())};
  }
  for (auto const name : {kCuda, kHip, kRocr, kLevelZero}) {
    if (auto entries = entries_of(environment, name)) {
      // CUDA enumerates no other GPU beside a MIG device (NVIDIA's MIG user guide, "CUDA Visible Devices").
      if (name == kCuda && std::ranges::any_of(*entries, is_mig)) {
        std::erase_if(*entries, [](std::string const& entry) { return !is_mig(entry); });
      }
      return List{name, *std::move(entries)};
    }
  }
  return std::nullopt;
}

/// How Slurm bound devices to tasks: for example "gpu:per_task:1", "gpu:verbose,map_gpu:3,1" or, since 23.11,
/// "gres/gpu:mask:0x3,0xc". What slurmd did takes precedence over what the job asked for.
std::string binding_of(Environment const& environment) {
  for (char const* const name : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND"}) {
    if (auto const binding = find_value(environment, name)) {
      return binding->substr(0, binding->find_first_of("+;"));  // without other kinds of devices
    }
  }
  return "";
}

bool bound_to_tasks(std::string_view binding) {
  constexpr std::array kOfTasks = {"per_task", "single", "map_gpu", "mask_gpu", "gpu:map:", "gpu:mask:"};
  return std::ranges::any_of(kOfTasks,
                             [binding](char const* kind) { return binding.find(kind) != std::string_view::npos; });
}

/// The text behind the first of `words` that occurs; "" if none does.
std::string_view behind(std::string_view text, std::initializer_list<std::string_view> words) {
  for (auto const word : words) {
    if (auto const at = text.find(word); at != std::string_view::npos) {
      return text.substr(at + word.size());
    }
  }
  return "";
}

/// Whether two of the tasks get a common device. The list has an entry for each local rank and repeats: "0,1*2" is for
/// three tasks.
bool overlap(std::string_view list, std::uint32_t tasks, int base) {
  std::vector<std::uint64_t> sets;
  for (auto const& entry : split(list, ',')) {
    auto const value = std::strtoull(entry.c_str(), nullptr, base);
    auto const times = number_in<std::uint32_t>(behind(entry, {"*"})).value_or(1);
    sets.insert(sets.end(), std::min(times, tasks), base == 16 ? value : std::uint64_t{1} << (value % 64U));
  }
  std::uint64_t taken = 0;
  for (std::size_t task = 0; task < tasks && !sets.empty(); ++task) {
    auto const set = sets[task % sets.size()];
    if ((taken & set) != 0) {
      return true;
    }
    taken |= set;
  }
  return false;
}

/// Whether the binding itself gives two tasks of the node one device.
bool binds_twice(std::string_view binding, std::uint32_t tasks) {
  if (auto const many = number_in<std::uint32_t>(behind(binding, {"single:"}))) {
    return *many > 1 && tasks > 1;
  }
  auto const map = behind(binding, {"map_gpu:", "gpu:map:"});
  auto const mask = behind(binding, {"mask_gpu:", "gpu:mask:"});
  return (!map.empty() && overlap(map, tasks, 10)) || (!mask.empty() && overlap(mask, tasks, 16));
}

constexpr char const* kZero = ": LOCAL_RANK is 0 and LOCAL_WORLD_SIZE 1 in every worker, as for the visible devices";

/// `who`: "tasks" or "workers". `list`: what each of them sees. `all`: the number of devices of the node.
std::string sharing_line(std::uint32_t count, char const* who, List const& list, std::uint64_t all) {
  std::string const what = list.of_mig() ? "MIG device" : "GPU";
  std::string const some = std::to_string(list.entries.size());
  std::string const which = count > all ? std::to_string(count) + " " + who + " share " + counted(all, what)
                                        : "each task sees " + some + " of " + counted(all, what) + ", and not alone";
  return which + (list.of_mig()              ? ", of which each worker sees one as its device 0"
                  : list.entries.size() == 1 ? kZero
                                             : ": a worker's GPU is LOCAL_RANK modulo " + some);
}

}  // namespace

std::optional<std::uint32_t> named_devices(Environment const& environment) {
  auto const list = list_in_effect(environment);
  return list ? std::optional(static_cast<std::uint32_t>(list->entries.size())) : std::nullopt;
}

std::string hidden_devices(Environment const& environment, bool amd) {
  auto const rocr = entries_of(environment, kRocr);
  auto const hip = entries_of(environment, kHip);
  auto const cuda = entries_of(environment, kCuda);
  if (amd && hip && cuda && !rocr && hip->size() != cuda->size()) {
    return text_of(environment, kHip) + " replaces " + text_of(environment, kCuda) + ": HIP sees " +
           std::to_string(hip->size()) + ", and workers are counted by the other; unset one of them";
  }
  for (auto const name : {kHip, kCuda}) {
    auto const& list = name == kHip ? hip : cuda;
    if (!list || !rocr || (name == kCuda && !amd)) {
      continue;
    }
    auto const seen = among(*list, rocr->size()).size();
    if (seen == list->size()) {
      return "";
    }
    return text_of(environment, name) + " counts among the " + counted(rocr->size(), "device") + " of " +
           text_of(environment, kRocr) + ": HIP sees " + (seen == 0 ? "none" : std::to_string(seen)) + "; unset " +
           std::string(name) + " to use all of them";
  }
  return "";
}

std::optional<std::uint32_t> mig_devices(Environment const& environment) {
  auto const list = list_in_effect(environment);
  return list && list->of_mig() ? std::optional(static_cast<std::uint32_t>(list->entries.size())) : std::nullopt;
}

std::string unnamed_partitions(Environment const& environment, std::vector<std::uint32_t> const& partitioned,
                               std::uint32_t workers) {
  auto const list = entries_of(environment, kCuda);
  auto const concerned = [&](std::string const& entry) {
    auto const number = number_in<std::uint32_t>(entry);
    return number && std::ranges::find(partitioned, *number) != partitioned.end();
  };
  if (partitioned.empty() || workers < 2 || mig_devices(environment) ||
      (list && std::ranges::none_of(*list, concerned))) {
    return "";
  }
  return "GPUs of this node are partitioned (MIG), and CUDA shows a process one partition: all workers get the first; "
         "name one for each in CUDA_VISIBLE_DEVICES (MIG-..., from nvidia-smi -L)";
}

std::optional<DeviceChoice> device_of(Environment const& environment, std::uint32_t local_rank) {
  auto const list = list_in_effect(environment);
  if (!list || list->name == kRocr) {
    return DeviceChoice{std::string(kCuda), std::to_string(local_rank)};
  }
  if (local_rank == 0 && find_value(environment, std::string(list->name)) == "") {
    return DeviceChoice{std::string(list->name), ""};  // the user asked for no GPU
  }
  return local_rank < list->entries.size()
             ? std::optional(DeviceChoice{std::string(list->name), list->entries[local_rank]})
             : std::nullopt;
}

std::string gpu_of(Environment const& environment) {
  auto const list = list_in_effect(environment);
  auto const local_rank = number_in<std::uint32_t>(value_of(environment, "LOCAL_RANK"));
  if (!local_rank || (list && (list->name != kCuda || list->entries.empty()))) {
    return "";
  }
  return list ? list->entries[*local_rank % list->entries.size()] : std::to_string(*local_rank);
}

std::string visible_list(Environment const& environment) {
  auto const list = list_in_effect(environment);
  return list ? text_of(environment, list->name) : "";
}

std::optional<std::uint32_t> slurm_devices(Environment const& environment) {
  auto const allotted = find_value(environment, "SLURM_GPUS_ON_NODE");
  bool const listed = environment.contains("SLURM_STEP_GPUS");  // all that 20.11 sets in a step
  if ((!allotted && !listed) || !find_value(environment, "SLURMD_NODENAME")) {
    return std::nullopt;
  }
  if (auto const named = named_devices(environment)) {
    return named;
  }
  auto const count = parse_unsigned(allotted.value_or(""), 0, kMaxDevices);
  return count ? std::optional<std::uint32_t>(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

TaskDevices devices_of_tasks(Environment const& environment, std::uint32_t tasks_on_node) {
  auto const list = list_in_effect(environment);
  if (!list || list->entries.empty()) {
    return {};  // all devices are visible, or none
  }
  std::uint64_t const named = list->entries.size();
  auto const allotted = parse_unsigned(value_of(environment, "SLURM_GPUS_ON_NODE"), named, kMaxDevices);
  auto const binding = binding_of(environment);
  bool const must_share = (allotted && named * tasks_on_node > *allotted) || binds_twice(binding, tasks_on_node);
  bool const chosen = bound_to_tasks(binding) || (allotted && named < *allotted);
  if (chosen && !must_share) {
    return {true, std::string("each task sees GPUs of its own") + kZero};
  }
  if (named == 1 && !allotted) {
    return {true, std::string("each task sees 1 GPU, and nothing says that it is its own") + kZero};
  }
  return {named == 1,
          named < tasks_on_node ? sharing_line(tasks_on_node, "tasks", *list, allotted ? *allotted : named) : ""};
}

std::string devices_of_workers(Environment const& environment, std::uint32_t workers) {
  auto const list = list_in_effect(environment);
  std::uint64_t const named = list ? list->entries.size() : 0;
  if (named > 0 && workers > named) {
    return sharing_line(workers, "workers", *list, named);
  }
  return named > 1 && list->of_mig()
             ? "CUDA shows a process one MIG device: each worker sees one of the " + std::to_string(named) +
                   " as its device 0, and LOCAL_RANK is 0, as with --virtual-local-rank"
             : "";
}

}  // namespace cxxrun::launcher
