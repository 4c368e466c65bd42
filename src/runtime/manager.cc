// The public facade: judges what callers hand in, queues it, and answers reads. Everything else is the
// progress thread's.
#include "kvferry/manager.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/edge.h"
#include "runtime/identity.h"
#include "runtime/progress.h"
#include "runtime/register_regions.h"
#include "runtime/shared.h"
#include "runtime/status_json.h"

namespace kvferry {

using runtime::Command;
using runtime::Slot;
using runtime::Wish;
namespace in = core::in;

struct Manager::Rep {
  Rep(ManagerOptions settings, Parts handed, runtime::WakeEvent command_wake, runtime::WakeEvent event_wake,
      const core::EngineConfig& config)
      : options(std::move(settings)),
        parts(std::move(handed)),
        endpoint(config.endpoint),
        self(config.self),
        shared(options, std::move(command_wake), std::move(event_wake), core::Engine(config)),
        progress(std::in_place, options, shared, parts) {}

  const ManagerOptions options;
  Parts parts;                               // emptied by stop()
  const std::string endpoint;
  const Incarnation self;
  const pid_t owner = ::getpid();            // the process that started this manager
  runtime::Shared shared;
  std::optional<runtime::Progress> progress;  // empty once stopped
  std::thread thread;                        // not running in manual mode

  Result<> ready(const runtime::CommandQueue<Command>::Lock&, std::size_t entries) const;
  Result<> forked() const;
  // Finds the handle's slot, lets `check` judge and change it, queues what `make` returns.
  template <class Check, class Make>
  Result<> command(Handle, const char* call, Check check, Make make);
  Result<> simple(Wish);                     // a wish without a handle
  Result<> count(Result<> result) {
    if (!result) shared.refused.fetch_add(1, std::memory_order_relaxed);
    return result;
  }
  Counters counters_held() const;            // with shared.core held
};

namespace {

Error stale(Handle handle, const char* call) {
  return Error{Code::kUsage,
               Who::kConfig,
               Next::kNever,
               0,
               fmt::format("{} of handle {}.{}", call, handle.slot, handle.generation),
               "the handle was closed or never opened; use the one that open() returned"};
}

core::EngineConfig config_of(const ManagerOptions& options, const Parts& parts) {
  core::EngineConfig config;
  config.self = options.self;
  config.name = options.name;
  config.endpoint = parts.channel->endpoint();
  config.host_id = options.host_id;
  config.pid = static_cast<std::uint64_t>(::getpid());
  config.rank = options.rank;
  config.layout = options.layout;
  config.limits = options.limits;
  config.deadlines = options.deadlines;
  config.token_seed = runtime::draw_token_seed();
  config.trace = options.recorder_events > 0;
  for (const auto& mover : parts.transports)
    config.movers.push_back({mover->capabilities(), mover->describe()});
  return config;
}

// Signals belong to the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Result<> Manager::Rep::forked() const {
  const pid_t here = ::getpid();
  if (here == owner) return {};
  return fail(
      Code::kRefused, Who::kConfig, Next::kNever, fmt::format("manager '{}'", options.name),
      fmt::format("it belongs to process {}, this is its forked child {}; start a manager after the fork",
                  owner, here));
}

Result<> Manager::Rep::ready(const runtime::CommandQueue<Command>::Lock& lock, std::size_t entries) const {
  if (shared.stopping) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, fmt::format("manager '{}'", options.name),
                "it is stopped");
  }
  if (!shared.queue.fits(lock, entries)) {
    return fail(Code::kWouldBlock, Who::kLocal, Next::kRetry, fmt::format("manager '{}'", options.name),
                fmt::format("{} commands wait, limits.commands = {}", shared.queue.waiting(lock),
                            shared.queue.most()));
  }
  return {};
}

template <class Check, class Make>
Result<> Manager::Rep::command(Handle handle, const char* call, Check check, Make make) {
  if (auto same = forked(); !same) return count(same);
  auto lock = shared.queue.lock();
  Slot* slot = shared.slots.find(handle);
  if (slot == nullptr) return count(tl::unexpected(stale(handle, call)));
  if (auto fit = ready(lock, 1); !fit) return count(fit);
  if (auto good = check(*slot); !good) return count(good);
  shared.queue.put(lock, Command{parts.clock->now(), make()});
  shared.queue.unlock(std::move(lock));
  return {};
}

Result<> Manager::Rep::simple(Wish wish) {
  if (auto same = forked(); !same) return count(same);
  auto lock = shared.queue.lock();
  if (auto fit = ready(lock, 1); !fit) return count(fit);
  shared.queue.put(lock, Command{parts.clock->now(), std::move(wish)});
  shared.queue.unlock(std::move(lock));
  return {};
}

Result<std::unique_ptr<Manager>> Manager::start(ManagerOptions options, Parts parts) {
  if (auto good = runtime::check_options(options, parts); !good) return tl::unexpected(good.error());
  if (!options.self.known()) options.self = runtime::draw_incarnation();
  if (options.host_id.empty()) options.host_id = runtime::default_host_id();
  if (auto done = runtime::register_regions(parts.transports, options.regions, options.log); !done) {
    return tl::unexpected(done.error());
  }
  auto command_wake = runtime::WakeEvent::make();
  if (!command_wake) return tl::unexpected(command_wake.error());
  auto event_wake = runtime::WakeEvent::make();
  if (!event_wake) return tl::unexpected(event_wake.error());
  const core::EngineConfig config = config_of(options, parts);
  const bool manual = options.manual;
  auto rep = std::make_unique<Rep>(std::move(options), std::move(parts), std::move(*command_wake),
                                   std::move(*event_wake), config);
  if (!manual) {
    const SignalsBlocked blocked;
    try {
      rep->thread = std::thread([progress = &*rep->progress] { progress->run(); });
    } catch (const std::system_error& fault) {
      return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix,
                  fmt::format("manager '{}': thread", config.name), fault.what(), fault.code().value());
    }
  }
  return std::unique_ptr<Manager>(new Manager(std::move(rep)));
}

Manager::Manager(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

Manager::~Manager() {
  if (rep_ == nullptr) return;
  if (!rep_->forked()) {
    // In a forked child neither the thread nor the locks' owners exist: touching them could hang. Leave it
    // all alone.
    [[maybe_unused]] const Rep* abandoned = rep_.release();
    return;
  }
  [[maybe_unused]] const Result<> stopped = stop(rep_->options.deadlines.drain);
}

// --- commands
// ---------------------------------------------------------------------------------------------------

Result<Handle> Manager::open(OpenSpec spec) {
  Rep& rep = *rep_;
  const auto refuse = [&rep](Error error) -> Result<Handle> {
    return tl::unexpected(rep.count(tl::unexpected(std::move(error))).error());
  };
  if (auto same = rep.forked(); !same) return refuse(same.error());
  if (auto good = runtime::check_open(spec, rep.shared.limits); !good) return refuse(good.error());
  auto lock = rep.shared.queue.lock();
  if (auto fit = rep.ready(lock, spec.senders.size() + 1); !fit) return refuse(fit.error());
  auto& names = rep.shared.endpoints;
  std::size_t fresh = 0;
  for (const std::string& name : spec.senders) fresh += names.contains(name) ? 0 : 1;
  if (names.size() + fresh > rep.shared.limits.endpoints) {
    return refuse(Error{Code::kExhausted, Who::kLocal, Next::kAfterFix, 0,
                        fmt::format("room {}", spec.room.value),
                        fmt::format("{} endpoints are known, limits.endpoints = {}", names.size(),
                                    rep.shared.limits.endpoints)});
  }
  const std::optional<Handle> handle = rep.shared.slots.take();
  if (!handle) {
    return refuse(Error{Code::kExhausted, Who::kLocal, Next::kRetry, 0,
                        fmt::format("room {}", spec.room.value),
                        fmt::format("{} rooms are open, limits.rooms = {}; close those that ended",
                                    rep.shared.slots.taken(), rep.shared.limits.rooms)});
  }
  const TimePoint now = rep.parts.clock->now();
  Slot& slot = *rep.shared.slots.find(*handle);
  slot.role = spec.role;
  slot.room = spec.room;
  slot.opened = now;
  in::Open open{
      *handle,       spec.room,    spec.role, spec.tag, {}, spec.leg, spec.legs, spec.client_deadline,
      spec.priority, spec.trace_id};
  for (std::string& name : spec.senders) {
    const EndpointId next{static_cast<std::uint32_t>(names.size())};
    const auto [entry, added] = names.try_emplace(name, next);
    if (added) rep.shared.queue.put(lock, Command{now, in::Endpoint{next, std::move(name)}});
    open.senders.push_back(entry->second);
  }
  rep.shared.board.open(*handle);
  rep.shared.queue.put(lock, Command{now, std::move(open)});
  rep.shared.queue.unlock(std::move(lock));
  return *handle;
}

Result<> Manager::grant(Handle handle, GrantSpec spec) {
  return rep_->command(
      handle, "grant",
      [&](Slot& slot) -> Result<> {
        if (auto good = runtime::check_grant(spec, slot, rep_->options.layout, rep_->shared.limits); !good)
          return good;
        slot.granted = true;
        return {};
      },
      [&]() -> Wish { return in::GrantPages{handle, std::move(spec)}; });
}

Result<> Manager::push(Handle handle, ChunkSpec spec) {
  return rep_->command(
      handle, "push",
      [&](Slot& slot) -> Result<> {
        if (auto good = runtime::check_push(spec, slot, rep_->options.layout, rep_->shared.limits); !good)
          return good;
        slot.last_pushed = spec.last;
        slot.tokens += spec.tokens;
        ++slot.chunks;
        return {};
      },
      [&]() -> Wish { return in::Push{handle, std::move(spec)}; });
}

Result<> Manager::abort(Handle handle, std::string why) {
  Error cause{Code::kAborted,
              Who::kLocal,
              Next::kNewRoom,
              0,
              "",
              runtime::cut_text(std::move(why), rep_->shared.limits.text_bytes)};
  return rep_->command(
      handle, "abort",
      [&](Slot& slot) -> Result<> {
        cause.what = fmt::format("{} at {}", runtime::subject(slot), rep_->options.name);
        return {};
      },
      [&]() -> Wish { return in::Abort{handle, std::move(cause)}; });
}

Result<> Manager::reject(Handle handle, std::int32_t status, std::string text) {
  // A server's fault (5xx) may pass; the request's own (4xx) comes again with the same request.
  const Next next = status >= 500 ? Next::kNewRoom : Next::kNever;
  Error cause{
      Code::kRejected, Who::kLocal, next,
      status,          "",          runtime::cut_text(std::move(text), rep_->shared.limits.text_bytes)};
  return rep_->command(
      handle, "reject",
      [&](Slot& slot) -> Result<> {
        cause.what = fmt::format("{} at {}", runtime::subject(slot), rep_->options.name);
        if (slot.role == Role::kSender) return {};
        return fail(Code::kRefused, Who::kConfig, Next::kAfterFix, runtime::subject(slot),
                    "reject belongs to the sender (prefill); a receiver calls abort");
      },
      [&]() -> Wish { return in::Abort{handle, std::move(cause)}; });
}

Result<> Manager::renew(Handle handle) {
  return rep_->command(
      handle, "renew", [](Slot&) -> Result<> { return {}; }, [&]() -> Wish { return in::Renew{handle}; });
}

Result<> Manager::close(Handle handle) {
  return rep_->command(
      handle, "close",
      [&](Slot& slot) -> Result<> {
        slot.open = false;
        rep_->shared.board.close(handle);
        return {};
      },
      [&]() -> Wish { return in::Close{handle}; });
}

Result<> Manager::fired(EventId event, bool ok) {
  if (event.value == 0) {
    return rep_->count(fail(Code::kUsage, Who::kConfig, Next::kNever, "fired",
                            "event 0 means \"ready now\" and never fires"));
  }
  return rep_->simple(in::EventFired{event, ok});
}

Result<> Manager::rekey() { return rep_->simple(in::Rekey{}); }

// --- reads
// ------------------------------------------------------------------------------------------------------

Poll Manager::poll(Handle handle) const noexcept { return rep_->shared.board.poll(handle); }

Poll Manager::wait(Handle handle, Duration most) const { return rep_->shared.board.wait(handle, most); }

void Manager::poll_many(std::span<const Handle> handles, std::span<std::uint8_t> out) const noexcept {
  rep_->shared.board.poll_many(handles, out);
}

std::span<const std::atomic<std::uint64_t>> Manager::board() const noexcept {
  return rep_->shared.board.words();
}

Error Manager::error(Handle handle) const {
  const runtime::Shared& shared = rep_->shared;
  if (shared.board.poll(handle) == Poll::kStale) return stale(handle, "error");
  const std::lock_guard held(rep_->shared.core);
  if (shared.known[handle.slot] != handle.generation) return Error{};
  const Error* cause = shared.engine.error(handle);
  return cause == nullptr ? Error{} : *cause;
}

bool Manager::quiet(Handle handle) const noexcept { return rep_->shared.board.quiet(handle); }

RoomInfo Manager::info(Handle handle) const {
  runtime::Shared& shared = rep_->shared;
  RoomInfo info;
  if (shared.board.poll(handle) == Poll::kStale) {
    info.poll = Poll::kStale;
    info.quiet = shared.board.quiet(handle);
    return info;
  }
  {
    const std::lock_guard held(shared.core);
    if (shared.known[handle.slot] == handle.generation) {
      info = shared.engine.info(handle);
      info.poll = shared.board.poll(handle);
      return info;
    }
  }
  const auto lock = shared.queue.lock();  // open() is queued and not stepped yet
  if (const Slot* slot = shared.slots.peek(handle)) {
    info.role = slot->role;
    info.created = slot->opened;
  }
  return info;
}

Counters Manager::Rep::counters_held() const {
  Counters counters = shared.engine.counters();
  counters.commands_refused += shared.refused.load(std::memory_order_relaxed);
  return counters;
}

Counters Manager::counters() const {
  const std::lock_guard held(rep_->shared.core);
  return rep_->counters_held();
}

std::vector<Quarantined> Manager::quarantined() const {
  const std::lock_guard held(rep_->shared.core);
  return rep_->shared.engine.quarantined();
}

std::string Manager::status_json() const {
  const std::lock_guard held(rep_->shared.core);
  return runtime::status_json(rep_->shared, rep_->counters_held(), rep_->options.name, rep_->endpoint,
                              rep_->self);
}

std::string Manager::flight_record() const {
  const std::lock_guard held(rep_->shared.trace);
  const auto pid = static_cast<std::uint64_t>(rep_->owner);
  if (rep_->shared.recorder) return rep_->shared.recorder->json(rep_->options.name, pid);
  return observe::FlightRecorder(1).json(rep_->options.name, pid);
}

std::size_t Manager::take_events(std::vector<ManagerEvent>& out, std::size_t most) {
  return rep_->shared.events.take(out, most);
}

int Manager::event_fd() const noexcept { return rep_->shared.events.fd(); }
std::string Manager::endpoint() const { return rep_->endpoint; }
Incarnation Manager::incarnation() const noexcept { return rep_->self; }

// --- the end, and manual mode
// -------------------------------------------------------------------------------------

Result<> Manager::stop(Duration deadline) {
  Rep& rep = *rep_;
  if (auto same = rep.forked(); !same) return same;
  {
    auto lock = rep.shared.queue.lock();
    if (rep.shared.stopping) return {};
    rep.shared.stopping = true;
    rep.shared.queue.put(lock, Command{rep.parts.clock->now(), in::Stop{}});
    rep.shared.queue.unlock(std::move(lock));
  }
  if (rep.thread.joinable()) {
    rep.progress->wait_stopped(deadline);
    rep.progress->quit();
    rep.thread.join();
  } else {
    while (rep.progress->turn() && !rep.progress->settled()) {}
  }
  const std::size_t live = rep.progress->live();
  rep.progress.reset();
  rep.parts.transports.clear();
  rep.parts.channel.reset();
  if (live == 0) return {};
  return fail(
      Code::kTimeout, Who::kLocal, Next::kNever, fmt::format("manager '{}' stop", rep.options.name),
      fmt::format("{} rooms were not quiet after {} ms; their pages must not be reused by this process", live,
                  std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count()));
}

bool Manager::turn() { return rep_->options.manual && rep_->progress && rep_->progress->turn(); }

TimePoint Manager::next_deadline() const {
  const std::lock_guard held(rep_->shared.core);
  return rep_->shared.engine.next_deadline().value_or(TimePoint::max());
}

}  // namespace kvferry
