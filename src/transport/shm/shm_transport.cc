#include "transport/shm/shm_transport.h"

#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>

#include "transport/path_events.h"
#include "transport/shm/copy_lane.h"
#include "transport/shm/door.h"
#include "transport/shm/exports.h"
#include "transport/shm/loans.h"
#include "transport/shm/peers.h"
#include "transport/shm/poller.h"
#include "transport/shm/worker.h"

namespace kvferry {

namespace shm {

namespace {

constexpr long kTick = 2'000'000;  // ns between looks at retries and deadlines, while there are any

Capabilities capabilities_of(const ShmOptions& options) {
  Capabilities caps;
  caps.name = "shm";
  caps.memory = static_cast<std::uint8_t>(Memory::kHost);
  caps.access = Access::kRead;
  caps.visible = Visible::kReceiverPlaced;
  caps.revoke = RevokeMode::kLenderStops;
  caps.fence = FenceMode::kAtOnce;
  caps.same_host_only = true;
  caps.max_in_flight = options.limits.ops_in_flight;
  caps.max_loans = options.limits.loans;
  return caps;
}

// What open_shm() makes before the transport exists, so that its constructor cannot fail.
struct Parts {
  Poller poller;
  File timer;
  std::unique_ptr<Worker> worker;
  LeaseWriter words;
  Door door;
  std::uint64_t cookie = 0;
};

class Mover final : public ShmTransport {
 public:
  Mover(const ShmOptions& options, Parts parts);
  ~Mover() override;
  Result<> start();  // once, before any other call

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<> share(std::shared_ptr<const SharedPool> pool) override { return exports_.share(std::move(pool)); }
  std::vector<ShmRegionReport> report() const override { return exports_.report(); }
  std::string peers_report() const override { return peers_.report(); }

  Result<> add_region(RegionId id, const RegionView& view) override { return exports_.add(id, view); }
  Result<> drop_region(RegionId id) override { return exports_.drop(id); }
  std::vector<std::byte> describe() const override;

  Result<> add_peer(PeerId id, std::span<const std::byte> description) override;
  void drop_peer(PeerId id) override;
  Result<> fence(PeerId id) override;

  Result<> lend(const Loan& loan) override;
  Result<> revoke(LoanId id) override;

  Result<> post(const Operation& operation) override;
  void cancel(OpId op) noexcept override { lane_.cancel(op); }

  std::size_t progress(std::span<Event> out) override;
  bool busy() const noexcept override { return lane_.busy() || !events_.empty(); }
  int wake_fd() const noexcept override { return poller_.fd(); }

 private:
  std::optional<Door::HandOut> hand_out() const;
  void take_ready(TimePoint now);
  void set_timer();

  ShmOptions options_;
  std::shared_ptr<Clock> clock_;
  Capabilities capabilities_;
  std::uint64_t cookie_;
  std::deque<Event> events_;
  Poller poller_;
  File timer_;
  bool ticking_ = false;
  std::unique_ptr<Worker>
      worker_;  // its destructor forgets jobs: what they point to below is never touched after
  Exports exports_;
  Loans loans_;
  Door door_;
  Peers peers_;
  CopyLane lane_;
};

Mover::Mover(const ShmOptions& options, Parts parts)
    : options_(options),
      clock_(options.clock != nullptr ? options.clock : std::make_shared<SystemClock>()),
      capabilities_(capabilities_of(options)),
      cookie_(parts.cookie),
      poller_(std::move(parts.poller)),
      timer_(std::move(parts.timer)),
      worker_(std::move(parts.worker)),
      exports_(options_, *worker_, events_),
      loans_(std::move(parts.words), exports_.table(), options.limits.loans),
      door_(std::move(parts.door)),
      peers_(options_, poller_, *worker_, events_),
      lane_(exports_.table(), *clock_, events_) {}

Result<> Mover::start() {
  for (const std::shared_ptr<const SharedPool>& pool : options_.pools) {
    if (auto shared = share(pool); !shared) return shared;
  }
  if (auto watched = poller_.add(timer_.fd(), Source::kTimer, 0); !watched) return watched;
  if (auto watched = poller_.add(worker_->wake_fd(), Source::kWorker, 0); !watched) return watched;
  return door_.start(poller_, cookie_, options_.limits.door_connections, [this] { return hand_out(); });
}

std::optional<Door::HandOut> Mover::hand_out() const {
  if (!exports_.settled()) {
    return std::nullopt;
  }
  Door::HandOut out;
  out.files.push_back(loans_.words().handed());
  out.table.regions = exports_.hand_out(out.files);
  out.table.files = static_cast<std::uint32_t>(out.files.size());
  out.table.cookie = cookie_;
  out.table.lease_address = reinterpret_cast<std::uintptr_t>(loans_.words().address());
  return out;
}

Mover::~Mover() { worker_.reset(); }

std::vector<std::byte> Mover::describe() const {
  Description description;
  description.cookie = cookie_;
  description.pid = static_cast<std::uint64_t>(::getpid());
  description.abstract = door_.address().abstract;
  description.door = door_.address().name;
  description.regions = exports_.described();
  return encode(description);
}

Result<> Mover::add_peer(PeerId id, std::span<const std::byte> description) {
  auto added = peers_.add(id, description, clock_->now());
  set_timer();
  return added;
}

void Mover::drop_peer(PeerId id) {
  lane_.end_peer(id, Error{Code::kPeerLost, Who::kLocal, Next::kNever, 0,
                           "shm peer " + std::to_string(id.value), "it was dropped"});
  loans_.revoke_peer(id);
  peers_.drop(id);
  transport::forget_path(events_, id);
}

Result<> Mover::fence(PeerId id) {
  if (auto closed = peers_.close(id); !closed) {
    return closed;
  }
  lane_.end_peer(id, Error{Code::kPeerLost, Who::kPeer, Next::kNewRoom, 0,
                           "shm peer " + std::to_string(id.value), "it was fenced"});
  loans_.revoke_peer(id);
  Event event;
  event.kind = Event::Kind::kPeerFenced;
  event.peer = id;
  events_.push_back(std::move(event));
  return {};
}

Result<> Mover::lend(const Loan& loan) {
  if (!peers_.has(loan.peer)) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever, "shm loan slot " + std::to_string(loan.id.slot),
                "peer " + std::to_string(loan.peer.value) + " was not added");
  }
  return loans_.lend(loan);
}

Result<> Mover::revoke(LoanId id) {
  if (auto revoked = loans_.revoke(id); !revoked) {
    return revoked;
  }
  Event event;
  event.kind = Event::Kind::kRevoked;
  event.loan = id;
  events_.push_back(std::move(event));
  return {};
}

Result<> check_size(const Operation& operation, const ShmLimits& limits, const std::string& what) {
  std::size_t planes = 0, runs = 0;
  for (const PieceGroup& group : operation.groups) {
    planes += group.planes.size();
    runs += group.runs.size();
  }
  if (planes > limits.planes_per_op || runs > limits.runs_per_op) {
    return fail(Code::kExhausted, Who::kLocal, Next::kNever, what,
                std::to_string(planes) + " planes (at most " + std::to_string(limits.planes_per_op) +
                    ", shm.planes_per_op) and " + std::to_string(runs) + " runs (at most " +
                    std::to_string(limits.runs_per_op) + ", shm.runs_per_op); post smaller operations");
  }
  return {};
}

Result<> Mover::post(const Operation& operation) {
  const std::string what = "shm operation " + std::to_string(operation.op.value);
  if (operation.access != Access::kRead) {
    return fail(Code::kUnsupported, Who::kLocal, Next::kNever, what,
                "this mover pulls: only reads can be posted");
  }
  if (lane_.has(operation.op)) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what, "an operation of this number is under way");
  }
  if (lane_.size() >= options_.limits.ops_in_flight) {
    return fail(Code::kWouldBlock, Who::kLocal, Next::kRetry, what,
                std::to_string(lane_.size()) + " operations are under way (shm.ops_in_flight)");
  }
  auto memory = peers_.readable(operation.peer);
  if (!memory) {
    return tl::unexpected(memory.error());
  }
  if (operation.ticket.loan.slot >= (*memory)->lease().slots()) {
    return fail(Code::kRefused, Who::kLocal, Next::kNever, what,
                "loan slot " + std::to_string(operation.ticket.loan.slot) + " is behind the peer's " +
                    std::to_string((*memory)->lease().slots()) + " slots");
  }
  if (auto small = check_size(operation, options_.limits, what); !small) return small;
  if (auto inside = exports_.table().check_local(operation.groups); !inside) return inside;
  if (auto inside = (*memory)->check_remote(operation.groups, what); !inside) return inside;
  lane_.add(operation, std::move(*memory));
  return {};
}

void Mover::take_ready(TimePoint now) {
  for (const Ready& ready : poller_.poll()) {
    switch (ready.source) {
      case Source::kDoor: door_.on_knocking(now); break;
      case Source::kVisitor: door_.on_visitor(ready, now); break;
      case Source::kPeer: peers_.on_ready(PeerId{ready.id}, now); break;
      case Source::kWorker: {
        const bool settled = exports_.settled();
        for (const Worker::Done& done : worker_->take()) done();
        if (!settled && exports_.settled()) door_.serve();
        break;
      }
      case Source::kTimer: {
        std::uint64_t count = 0;
        static_cast<void>(!::read(timer_.fd(), &count, sizeof count));
        door_.on_time(now);
        peers_.on_time(now);
        break;
      }
    }
  }
  set_timer();
}

void Mover::set_timer() {
  const bool wanted = door_.needs_time() || peers_.needs_time();
  if (wanted == ticking_) {
    return;
  }
  ticking_ = wanted;
  itimerspec every{};
  if (wanted) every.it_interval.tv_nsec = every.it_value.tv_nsec = kTick;
  ::timerfd_settime(timer_.fd(), 0, &every, nullptr);
}

std::size_t Mover::progress(std::span<Event> out) {
  take_ready(clock_->now());
  if (events_.size() < out.size()) {  // else the caller is behind: nothing more is produced
    lane_.quantum();
  }
  const std::size_t count = std::min(out.size(), events_.size());
  std::move(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count), out.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

Result<std::uint64_t> make_cookie() {
  std::uint64_t cookie = 0;
  if (::getrandom(&cookie, sizeof cookie, 0) != static_cast<ssize_t>(sizeof cookie)) {
    return system_error("shm transport", "getrandom failed", errno);
  }
  return cookie;
}

Result<> check_options(const ShmOptions& options) {
  constexpr std::uint32_t kMostRegions = 432;  // 9 B each beside 150 B in describe()'s 4 KiB
  const ShmLimits& limits = options.limits;
  if (limits.regions == 0 || limits.regions > kMostRegions) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "shm.regions",
                std::to_string(limits.regions) + " was given; 1 to " + std::to_string(kMostRegions) +
                    " are possible");
  }
  if (limits.loans == 0 || limits.ops_in_flight == 0 || limits.peers == 0 || limits.door_connections == 0) {
    return fail(
        Code::kUsage, Who::kConfig, Next::kAfterFix, "shm limits",
        "0 was given for shm.loans, shm.ops_in_flight, shm.peers or shm.door_connections; give at least 1");
  }
  return {};
}

Result<Parts> make_parts(const ShmOptions& options) {
  auto cookie = make_cookie();
  if (!cookie) return tl::unexpected(cookie.error());
  auto poller = Poller::create();
  if (!poller) return tl::unexpected(poller.error());
  File timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (!timer) return system_error("shm transport", "timerfd_create failed", errno);
  auto worker = Worker::start();
  if (!worker) return tl::unexpected(worker.error());
  auto words = LeaseWriter::create(options.limits.loans, *cookie);
  if (!words) return tl::unexpected(words.error());
  auto address = Door::choose_address(options.socket_directory);
  if (!address) return tl::unexpected(address.error());
  auto door = Door::open(*address);
  if (!door) return tl::unexpected(door.error());
  return Parts{std::move(*poller), std::move(timer), std::move(*worker),
               std::move(*words),  std::move(*door), *cookie};
}

}  // namespace

}  // namespace shm

Result<std::unique_ptr<ShmTransport>> open_shm(const ShmOptions& options) {
  if (auto checked = shm::check_options(options); !checked) return tl::unexpected(checked.error());
  auto parts = shm::make_parts(options);
  if (!parts) return tl::unexpected(parts.error());
  auto mover = std::make_unique<shm::Mover>(options, std::move(*parts));
  if (auto started = mover->start(); !started) return tl::unexpected(started.error());
  return std::unique_ptr<ShmTransport>(std::move(mover));
}

Result<std::unique_ptr<Transport>> make_shm(const ShmOptions& options) {
  auto mover = open_shm(options);
  if (!mover) return tl::unexpected(mover.error());
  return std::unique_ptr<Transport>(std::move(*mover));
}

}  // namespace kvferry
