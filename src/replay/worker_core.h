// What prefill and decode workers share: the manager, the memory, the pages and their way back, the words to
// the parent. Thread rule: the worker's main thread; the manager has its own progress thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "kvferry/manager.h"
#include "observe/log.h"
#include "replay/area.h"
#include "replay/link.h"
#include "replay/mover_setup.h"
#include "replay/page_memory.h"
#include "replay/page_pool.h"

namespace kvferry::replay {

inline constexpr std::uint64_t kSliceBytes = 4ULL
                                             << 20;  // worked on between two looks at the events: about 1 ms
inline constexpr std::int64_t kRenewEveryNs = 10'000'000'000;  // a third of the lease

class WorkerCore {
 public:
  WorkerCore(Area area, Link link, std::uint32_t slot, const config::Config& config);

  // Memory, mover, channel, manager. Errors: kEnvironment and what the manager says.
  Result<> start();

  Manager& manager() noexcept { return *manager_; }
  Area& area() noexcept { return area_; }
  Link& link() noexcept { return link_; }
  PageMemory& memory() noexcept { return *memory_; }
  PagePool& pool() noexcept { return *pool_; }
  WorkerSlot& slot() noexcept { return area_.worker(slot_); }
  Side side() const noexcept { return side_; }
  std::string name() const;

  void count(Count c, std::uint64_t n) { slot().add(c, n); }

  // The record of this side for an attempt that begins.
  SideRecord& begin_record(std::uint32_t request, std::uint32_t attempt);
  SideRecord& record(std::uint32_t request) { return area_.side(request, side_); }
  void note_cause(std::uint32_t request, const Error&);
  void tell(Message::Kind, std::uint32_t request, std::uint32_t attempt);
  void abort(Handle, const std::string& why);
  void refused(std::string_view call, const Error&);  // counts and logs what should not happen

  // Pages on their way back: checked against `tag` if `check`, poisoned, then free. Done in slices by
  // scrub().
  void retire(std::uint32_t page, bool check, const PageTag& tag);
  void retire_all(std::span<const std::uint32_t> pages);
  bool scrub(std::uint64_t bytes);  // true: more is left
  std::size_t dirty() const noexcept { return dirty_.size(); }
  void check_free(std::uint32_t page) { count(Count::kStrangerWrites, memory_->stranger(page)); }

  // Auxiliary slots: poisoned while free, like pages.
  bool take_aux(std::uint32_t& slot);
  void give_aux(std::uint32_t slot);

  // Stops the manager and checks all free memory; what is still lent counts as quarantined.
  void finish();

 private:
  struct Dirty {
    std::uint32_t page = 0;
    bool check = false;
    PageTag tag;
  };
  Result<ManagerOptions> options();
  void write_record();  // the flight record, when a folder is set

  Area area_;
  Link link_;
  std::uint32_t slot_;
  config::Config config_;
  Side side_;
  std::uint32_t index_;
  MoverSetup mover_;
  std::unique_ptr<PageMemory> memory_;
  std::unique_ptr<PagePool> pool_;
  std::vector<std::uint32_t> free_aux_;
  std::deque<Dirty> dirty_;
  std::unique_ptr<Manager> manager_;  // last: it ends before the memory goes
};

}  // namespace kvferry::replay
