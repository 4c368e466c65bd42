#include "replay/worker_main.h"

#include <poll.h>

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "replay/decode_worker.h"
#include "replay/prefill_worker.h"
#include "replay/worker_core.h"

namespace kvferry::replay {
namespace {

constexpr int kSoonMs = 1;    // somebody's poll value may change without an event
constexpr int kIdleMs = 200;

void wait(WorkerCore& core, bool soon) {
  std::array<pollfd, 2> fds{{{core.manager().event_fd(), POLLIN, 0}, {core.link().fd(), POLLIN, 0}}};
  if (core.link().unsent()) fds[1].events |= POLLOUT;
  ::poll(fds.data(), fds.size(), soon ? kSoonMs : kIdleMs);
}

template <class Worker>
int serve(WorkerCore& core) {
  Worker worker(core);
  std::vector<Message> messages;
  std::vector<ManagerEvent> events;
  for (;;) {
    messages.clear();
    if (!core.link().receive(messages)) return 0;  // the parent is gone: nobody wants a report
    for (const Message& message : messages) {
      if (message.kind == Message::Kind::kQuit) {
        core.finish();
        core.tell(Message::Kind::kBye, 0, 0);
        core.link().flush();
        return 0;
      }
      worker.on_message(message);
    }
    events.clear();
    core.manager().take_events(events);
    for (const ManagerEvent& event : events) worker.on_event(event);
    const bool more = worker.work();
    if (!core.link().flush()) return 0;
    if (!more) wait(core, worker.polling());
  }
}

}  // namespace

int worker_main(const WorkerArgs& args) {
  Result<Area> area = Area::attach(args.area_fd);
  if (!area) {
    std::fprintf(stderr, "%s\n", area.error().line().c_str());
    return 3;
  }
  WorkerCore core(std::move(*area), Link(args.link_fd), args.slot, args.config);
  if (Result<> started = core.start(); !started) {
    put_text(core.slot().trouble, started.error().line());
    core.tell(Message::Kind::kTrouble, 0, 0);
    core.link().flush();
    return 3;
  }
  core.tell(Message::Kind::kReady, 0, 0);
  return core.side() == Side::kPrefill ? serve<PrefillWorker>(core) : serve<DecodeWorker>(core);
}

}  // namespace kvferry::replay
