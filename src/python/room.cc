#include "python/room.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "python/convert.h"

namespace kvferry::python {
namespace {

using namespace nb::literals;

constexpr Duration kSignalTurn = std::chrono::milliseconds(100);  // so often a wait lets Python handle Ctrl-C

Poll wait(const PyRoom& room, std::optional<double> timeout) {
  const Duration most = timeout ? seconds(*timeout, "timeout") : Duration::max();
  Duration waited{0};
  const Manager& manager = room.manager();
  for (;;) {
    const Duration turn = std::min(most - waited, kSignalTurn);
    Poll poll = Poll::kStale;
    {
      const nb::gil_scoped_release waiting;
      poll = manager.wait(room.handle(), turn);
    }
    waited += turn;
    if (poll == Poll::kSuccess || poll == Poll::kFailed || poll == Poll::kStale || waited >= most)
      return poll;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

template <class Spec>
Spec pages_spec(nb::handle pages, std::uint32_t tokens, nb::handle aux_slot,
                std::vector<std::uint32_t> state_slots, std::uint64_t event) {
  Spec spec;
  spec.pages = page_runs(pages);
  spec.tokens = tokens;
  spec.aux_slot = slot_of(aux_slot);
  spec.state_slots = std::move(state_slots);
  spec.event = EventId{event};
  return spec;
}

void grant(PyRoom& room, nb::handle pages, std::uint32_t tokens, std::uint32_t prefix_tokens,
           nb::handle aux_slot, std::vector<std::uint32_t> state_slots, std::uint64_t event) {
  auto spec = pages_spec<GrantSpec>(pages, tokens, aux_slot, std::move(state_slots), event);
  spec.prefix_tokens = prefix_tokens;
  check(room.manager().grant(room.handle(), std::move(spec)));
}

void push(PyRoom& room, nb::handle pages, std::uint32_t tokens, bool last, nb::handle aux_slot,
          std::vector<std::uint32_t> state_slots, std::uint64_t event) {
  auto spec = pages_spec<ChunkSpec>(pages, tokens, aux_slot, std::move(state_slots), event);
  spec.last = last;
  check(room.manager().push(room.handle(), std::move(spec)));
}

nb::object info(const PyRoom& room) {
  const RoomInfo i = room.manager().info(room.handle());
  const nb::object aux = i.aux_slot == kNoSlot ? nb::none() : nb::object(nb::int_(i.aux_slot));
  return nb::make_tuple(i.role, i.poll, to_seconds(i.created.time_since_epoch()), i.legs, i.legs_required,
                        i.prefix_tokens, i.tokens, i.pages, aux, i.bytes, i.failing, i.quiet, i.mover);
}

Error not_ended(const PyRoom& room, std::optional<double> timeout) {
  return {Code::kTimeout,
          Who::kLocal,
          Next::kRetry,
          0,
          "room " + std::to_string(room.room().value),
          "it is " + std::string(name_of(room.manager().poll(room.handle()))) + " and has not ended after " +
              (timeout ? std::to_string(*timeout) : std::string("0")) + " s of waiting for it"};
}

using TagValues = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

void open(PyRoom* self, nb::object owner, std::uint64_t room, Role role, nb::tuple senders, TagValues tag,
          std::uint32_t leg, std::uint32_t legs, double client_deadline, std::uint8_t priority,
          std::uint64_t trace_id) {
  OpenSpec spec;
  spec.room = RoomId{room};
  spec.role = role;
  spec.tag = {std::get<0>(tag), std::get<1>(tag), std::get<2>(tag)};
  for (nb::handle sender : senders) spec.senders.push_back(nb::cast<std::string>(sender));
  spec.leg = leg;
  spec.legs = legs;
  spec.client_deadline = seconds(client_deadline, "client_deadline");
  spec.priority = priority;
  spec.trace_id = trace_id;
  new (self) PyRoom(std::move(owner), spec);
}

}  // namespace

PyRoom::PyRoom(nb::object owner, const OpenSpec& spec)
    : owner_(std::move(owner)),
      host_(nb::cast<RoomHost*>(owner_)),
      room_(spec.room),
      role_(spec.role),
      handle_(take(manager().open(spec))) {}

PyRoom::~PyRoom() {
  Manager* manager = host_->manager();
  if (manager != nullptr && !closed_.exchange(true)) static_cast<void>(manager->close(handle_));
}

Manager& PyRoom::manager() const {
  Manager* manager = host_->manager();
  if (manager == nullptr) {
    raise({Code::kRefused, Who::kLocal, Next::kAfterFix, 0, "room " + std::to_string(room_.value),
           "the node that it belonged to is crashed; open a new room with the next life's manager"});
  }
  return *manager;
}

void PyRoom::close() {
  if (closed_.exchange(true)) return;
  const Result<> said = manager().close(handle_);
  if (said) return;
  if (said.error().code == Code::kWouldBlock) closed_.store(false);  // it had no effect: may be tried again
  if (manager().poll(handle_) != Poll::kStale) raise(said.error());
}

void bind_rooms(nb::module_& m) {
  nb::enum_<Poll>(
      m, "Poll", nb::is_arithmetic(),
      "The state of a room: SGLang's five values, and STALE for a closed one. all_reduce(MIN) over "
      "ranks works.")
      .value("FAILED", Poll::kFailed)
      .value("BOOTSTRAPPING", Poll::kBootstrapping)
      .value("WAITING_FOR_INPUT", Poll::kWaitingForInput)
      .value("TRANSFERRING", Poll::kTransferring)
      .value("SUCCESS", Poll::kSuccess)
      .value("STALE", Poll::kStale);
  nb::enum_<Role>(m, "Role", nb::is_arithmetic())
      .value("SENDER", Role::kSender)
      .value("RECEIVER", Role::kReceiver);
  nb::class_<PyRoom>(m, "Room")
      .def("__init__", &open)
      .def_prop_ro("room", [](const PyRoom& room) { return room.room().value; })
      .def_prop_ro("role", &PyRoom::role)
      .def_prop_ro("handle", [](const PyRoom& room) { return number_of(room.handle()); })
      .def_prop_ro("slot", [](const PyRoom& room) { return room.handle().slot; })
      .def_prop_ro("manager", &PyRoom::owner)
      .def("poll", [](const PyRoom& room) { return room.manager().poll(room.handle()); })
      .def("wait", &wait, "timeout"_a = nb::none())
      .def("grant", &grant, "pages"_a, "tokens"_a, nb::kw_only(), "prefix_tokens"_a = 0,
           "aux_slot"_a = nb::none(), "state_slots"_a = std::vector<std::uint32_t>(), "event"_a = 0)
      .def("push", &push, "pages"_a, "tokens"_a, nb::kw_only(), "last"_a = false, "aux_slot"_a = nb::none(),
           "state_slots"_a = std::vector<std::uint32_t>(), "event"_a = 0)
      .def(
          "abort",
          [](PyRoom& room, std::string why) { check(room.manager().abort(room.handle(), std::move(why))); },
          "why"_a)
      .def(
          "reject",
          [](PyRoom& room, std::int32_t status, std::string text) {
            check(room.manager().reject(room.handle(), status, std::move(text)));
          },
          "status"_a, "text"_a)
      .def("renew", [](PyRoom& room) { check(room.manager().renew(room.handle())); })
      .def("close", &PyRoom::close)
      .def("_error", [](const PyRoom& room) { return to_python(room.manager().error(room.handle())); })
      .def("_quiet", [](const PyRoom& room) { return room.manager().quiet(room.handle()); })
      .def("_info", &info)
      .def(
          "_not_ended",
          [](const PyRoom& room, std::optional<double> timeout) {
            return to_python(not_ended(room, timeout));
          },
          "timeout"_a = nb::none());
}

}  // namespace kvferry::python
