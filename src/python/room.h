// A room as Python holds it. Thread rule: any thread; every method is called with the GIL and gives it up
// where it may wait.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

#include "kvferry/manager.h"

namespace kvferry::python {

// What a room hangs on: a manager with a thread, or a node of the test kit.
class RoomHost {
 public:
  virtual ~RoomHost() = default;
  virtual Manager*
  manager() noexcept = 0;  // null while a node of the test kit is crashed, or in another life
};

class PyRoom {
 public:
  PyRoom(nanobind::object owner, const OpenSpec& spec);
  ~PyRoom();
  PyRoom(const PyRoom&) = delete;
  PyRoom& operator=(const PyRoom&) = delete;

  Manager& manager() const;  // raises kvferry.Refused when it is gone
  Handle handle() const noexcept { return handle_; }
  RoomId room() const noexcept { return room_; }
  Role role() const noexcept { return role_; }
  const nanobind::object& owner() const noexcept { return owner_; }
  void close();  // idempotent

 private:
  nanobind::object owner_;  // the Python manager: it owns the memory
  RoomHost* host_;          // of owner_
  RoomId room_;
  Role role_;
  Handle handle_;
  std::atomic<bool> closed_{false};
};

void bind_rooms(nanobind::module_&);
void bind_managers(nanobind::module_&);
void bind_registry(nanobind::module_&);
void bind_testkit(nanobind::module_&);

// The reads that a manager with a thread and a node of the test kit share.
nanobind::dict counters_of(const Manager&);
nanobind::list quarantined_of(const Manager&);
nanobind::list events_of(Manager&, std::size_t most);

}  // namespace kvferry::python
