#include "control/tcp_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <set>
#include <unordered_map>

#include "control/resolver.h"
#include "control/tcp_link.h"

namespace kvferry::control {
namespace {

constexpr std::uint64_t kListenerKey = 1ULL << 32U, kEventKey = 2ULL << 32U, kNamesKey = 3ULL << 32U;
constexpr std::size_t kFramesPerTurn = 64;  // of one link before the next one has its turn
constexpr int kAcceptsPerTurn = 32;
constexpr std::size_t kFlushAt = 256 * 1024;  // send() writes at once beyond this

using Io = TcpLink::Io;
using State = TcpLink::State;

class TcpChannel final : public Channel {
 public:
  TcpChannel(TcpChannelOptions options, Fd listener, std::string endpoint)
      : options_(std::move(options)), listener_(std::move(listener)), endpoint_(std::move(endpoint)) {
    if (!options_.counters) options_.counters = std::make_shared<TcpChannelCounters>();
  }
  ~TcpChannel() override;
  Result<> start();

  Result<LinkId> dial(std::string_view endpoint) override;
  bool send(LinkId, std::span<const std::byte> frame) override;
  void close(LinkId) override;
  std::size_t poll(std::vector<ChannelEvent>& out, std::size_t most) override;
  int wake_fd() const noexcept override { return epoll_.get(); }
  std::string endpoint() const override { return endpoint_; }

 private:
  TcpChannelCounters& counters() { return *options_.counters; }
  TcpLink* find(std::uint32_t id);
  Result<TcpLink*> add_link(bool dialled, std::string target);
  bool make_room();
  void watch(TcpLink&, bool first);
  void arm();
  void disarm();
  void list_dirty(TcpLink&);
  void list_ready(TcpLink&);
  void flush(TcpLink&);
  void flush_dirty();
  void take_kernel_events();
  void on_link(TcpLink&, std::uint32_t events);
  void accept_some();
  void refuse_without_descriptor();
  void adopt(Fd, const Address& from);
  void take_names();
  void after_connect(TcpLink&, Io);
  void came_up(TcpLink&);
  void ended(TcpLink&);
  void read(TcpLink&);
  std::size_t deliver(std::vector<ChannelEvent>& out, std::size_t most);
  std::size_t deliver_link(TcpLink&, std::vector<ChannelEvent>& out, std::size_t most);
  void forget(TcpLink&);

  TcpChannelOptions options_;
  Fd epoll_, listener_, event_, spare_;
  std::string endpoint_;
  Resolver names_;
  std::unordered_map<std::uint32_t, std::unique_ptr<TcpLink>> links_;
  std::set<std::uint32_t> silent_;    // inbound links that never sent a frame, oldest first
  std::vector<std::uint32_t> dirty_;  // links with unsent bytes
  std::deque<std::uint32_t> ready_;   // links with something to tell
  std::uint32_t last_id_ = 0;
  std::uint32_t live_ = 0;  // links that did not end
  bool armed_ = false;
};

void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

TcpChannel::~TcpChannel() {
  for (auto& [id, link] : links_) {
    if (link->state == State::kUp && link->queued() > 0) flush(*link);  // one try
  }
}

Result<> TcpChannel::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  event_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::array<std::pair<int, std::uint64_t>, 3> own{
      {{listener_.get(), kListenerKey}, {event_.get(), kEventKey}, {names_.wake_fd(), kNamesKey}}};
  for (const auto& [fd, key] : own) {
    epoll_event ev{};
    ev.events = EPOLLIN;
    ev.data.u64 = key;
    if (!epoll_ || fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &ev) != 0)
      return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "control channel " + endpoint_,
                  "no descriptor left: " + errno_text(errno) + "; raise the limit of open files (ulimit -n)",
                  errno);
  }
  return {};
}

TcpLink* TcpChannel::find(std::uint32_t id) {
  const auto at = links_.find(id);
  return at == links_.end() ? nullptr : at->second.get();
}

// At the limit an inbound link that never sent a frame makes room: strangers cannot keep peers out.
// Links that ended and were not told yet are bounded as well.
bool TcpChannel::make_room() {
  if (links_.size() >= 2 * static_cast<std::size_t>(options_.max_links)) return false;
  if (live_ < options_.max_links) return true;
  if (silent_.empty()) return false;
  TcpLink& victim = *find(*silent_.begin());
  victim.fail_with(
      Code::kExhausted, Who::kPeer, Next::kRetry,
      "no frame had come when the limit of " + std::to_string(options_.max_links) + " links was reached", 0);
  bump(counters().links_evicted);
  ended(victim);
  return true;
}

Result<TcpLink*> TcpChannel::add_link(bool dialled, std::string target) {
  if (!make_room() || last_id_ == ~0U)
    return fail(Code::kExhausted, Who::kLocal, Next::kRetry, "control link to " + target,
                "the limit of " + std::to_string(options_.max_links) + " live links is reached");
  const LinkId id{++last_id_};
  auto link = std::make_unique<TcpLink>(id, dialled, std::move(target), options_.max_frame);
  TcpLink* raw = link.get();
  links_.emplace(id.value, std::move(link));
  ++live_;
  if (!dialled) silent_.insert(id.value);
  return raw;
}

void TcpChannel::watch(TcpLink& link, bool first) {
  link.watching_write = link.state == State::kConnecting || (link.queued() > 0 && !link.write_broken);
  epoll_event ev{};
  ev.events = EPOLLIN | (link.watching_write ? EPOLLOUT : 0U);
  ev.data.u64 = link.id.value;
  const int how = first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), how, link.fd.get(), &ev) != 0 && errno == EEXIST)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.fd.get(), &ev);
}

void TcpChannel::arm() {
  if (armed_) return;
  const std::uint64_t one = 1;
  armed_ = ::write(event_.get(), &one, sizeof one) == sizeof one;
}

void TcpChannel::disarm() {
  if (!armed_) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(event_.get(), &count, sizeof count);
  armed_ = false;
}

void TcpChannel::list_dirty(TcpLink& link) {
  if (!link.dirty) dirty_.push_back(link.id.value);
  link.dirty = true;
}

void TcpChannel::list_ready(TcpLink& link) {
  if (!link.ready) ready_.push_back(link.id.value);
  link.ready = true;
}

Result<LinkId> TcpChannel::dial(std::string_view endpoint) {
  const auto where = parse_host_port(endpoint, "endpoint to dial");
  if (!where) return tl::unexpected(where.error());
  if (where->port == 0 || is_any_host(where->host))
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix,
                "endpoint to dial \"" + std::string(endpoint) + "\"",
                "host and port must both be given to dial (not an address that means \"all\", not port 0)");
  auto added = add_link(true, std::string(endpoint));
  if (!added) return tl::unexpected(added.error());
  TcpLink& link = **added;
  const LinkId id = link.id;
  if (auto numeric = numeric_address(*where)) {
    link.candidates.push_back(*numeric);
    after_connect(link, link.connect_next(options_.connect_tries));
  } else if (auto started = names_.start(id.value, *where); !started) {
    forget(link);
    return tl::unexpected(started.error());
  }
  if (!ready_.empty()) arm();
  return id;
}

bool TcpChannel::send(LinkId id, std::span<const std::byte> frame) {
  TcpLink* link = find(id.value);
  if (link == nullptr || link->state == State::kEnded || link->write_broken ||
      frame.size() > options_.max_frame || !link->queue(frame, options_.queue_bytes)) {
    bump(counters().frames_dropped);
    return false;
  }
  bump(counters().frames_sent);
  if (link->state != State::kUp || link->watching_write) return true;
  list_dirty(*link);
  if (link->queued() >= kFlushAt) flush(*link);
  arm();
  return true;
}

void TcpChannel::close(LinkId id) {
  TcpLink* link = find(id.value);
  if (link == nullptr) return;
  if (link->state == State::kUp && link->queued() > 0) flush(*link);
  forget(*link);
}

void TcpChannel::forget(TcpLink& link) {
  const std::uint32_t id = link.id.value;
  silent_.erase(id);
  if (link.state != State::kEnded) --live_;
  links_.erase(id);  // closing the descriptor takes it out of the epoll set
}

void TcpChannel::flush(TcpLink& link) {
  std::uint64_t bytes = 0, calls = 0;
  const Io io = link.flush(bytes, calls);
  bump(counters().bytes_sent, bytes);
  bump(counters().writes, calls);
  if ((io == Io::kBlocked) != link.watching_write && link.state == State::kUp) watch(link, false);
  // Broken: what the other end had sent before is read first; the read then finds the end.
}

void TcpChannel::flush_dirty() {
  std::vector<std::uint32_t> now;
  now.swap(dirty_);
  for (const std::uint32_t id : now) {
    TcpLink* link = find(id);
    if (link == nullptr) continue;
    link->dirty = false;
    if (link->state == State::kUp && !link->watching_write) flush(*link);
  }
  now.clear();
  if (dirty_.empty()) dirty_.swap(now);  // keeps the capacity
}

std::size_t TcpChannel::poll(std::vector<ChannelEvent>& out, std::size_t most) {
  disarm();
  flush_dirty();
  take_kernel_events();
  const std::size_t told = deliver(out, most);
  if (!ready_.empty() || !dirty_.empty()) arm();
  return told;
}

void TcpChannel::take_kernel_events() {
  std::array<epoll_event, 128> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const epoll_event& ev = events[static_cast<std::size_t>(i)];
    const std::uint64_t key = ev.data.u64;
    if (key == kListenerKey) {
      accept_some();
    } else if (key == kNamesKey) {
      take_names();
    } else if (key != kEventKey) {
      if (TcpLink* link = find(static_cast<std::uint32_t>(key))) on_link(*link, ev.events);
    }
  }
}

void TcpChannel::on_link(TcpLink& link, std::uint32_t events) {
  if (link.state == State::kConnecting) {
    after_connect(link, link.connect_result(options_.connect_tries));
    return;
  }
  if (link.state != State::kUp) return;
  if ((events & EPOLLOUT) != 0) flush(link);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !link.ready) read(link);
}

void TcpChannel::read(TcpLink& link) {
  std::uint64_t bytes = 0;
  const Io io = link.fill(bytes);
  bump(counters().bytes_received, bytes);
  if (io == Io::kBroken) {
    if (link.reader.inside_frame()) bump(counters().frames_cut);
    ended(link);
  } else if (link.reader.has_next()) {
    list_ready(link);
  }
}

// The end is told behind the frames that had come before it.
void TcpChannel::ended(TcpLink& link) {
  if (link.state != State::kEnded) --live_;
  link.state = State::kEnded;
  link.fd.reset();
  silent_.erase(link.id.value);
  list_ready(link);
}

void TcpChannel::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Address from;
    from.length = sizeof from.storage;
    Fd fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      adopt(std::move(fd), from);
    } else if (errno == EMFILE || errno == ENFILE) {
      return refuse_without_descriptor();
    } else if (errno != ECONNABORTED && errno != EINTR) {
      return;
    }
  }
}

// A listener that cannot accept stays readable for ever: the spare descriptor is given up to answer with a
// close.
void TcpChannel::refuse_without_descriptor() {
  spare_.reset();
  const Fd refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (refused) bump(counters().links_refused);
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void TcpChannel::adopt(Fd fd, const Address& from) {
  auto added = add_link(false, from.text());
  if (!added) {
    bump(counters().links_refused);
    return;
  }
  TcpLink& link = **added;
  link.fd = std::move(fd);
  link.state = State::kUp;
  set_low_latency(link.fd.get());
  watch(link, true);
  bump(counters().accepted);
  list_ready(link);
}

void TcpChannel::take_names() {
  std::vector<Resolver::Answer> answers;
  names_.take(answers);
  for (auto& answer : answers) {
    TcpLink* link = find(answer.token);
    if (link == nullptr || link->state != State::kResolving) continue;  // closed meanwhile
    link->candidates.assign(answer.addresses.rbegin(), answer.addresses.rend());
    if (link->candidates.empty()) {
      link->fail_with(answer.error.code, answer.error.who, answer.error.next,
                      answer.error.what + ": " + answer.error.why, answer.error.status);
      after_connect(*link, Io::kBroken);
    } else {
      after_connect(*link, link->connect_next(options_.connect_tries));
    }
  }
}

void TcpChannel::after_connect(TcpLink& link, Io io) {
  if (io == Io::kBroken) {
    bump(counters().dials_failed);
    return ended(link);
  }
  link.state = State::kConnecting;
  watch(link, true);  // a fresh socket each time
  if (io == Io::kDone) came_up(link);
}

// Same host: Linux then uses the address that was dialled on both ends.
void TcpChannel::came_up(TcpLink& link) {
  const Address peer = remote_address(link.fd.get());
  if (is_loopback(endpoint_) && !is_loopback_host(peer.host()) &&
      local_address(link.fd.get()).host() != peer.host()) {
    link.fail_with(
        Code::kUsage, Who::kConfig, Next::kAfterFix,
        "this process advertises " + endpoint_ + ", a loopback address, and " + peer.text() +
            " is another host, which could never dial it; set --bind and --advertise to an address of this "
            "host that the other one reaches",
        0);
    bump(counters().dials_failed);
    return ended(link);
  }
  link.state = State::kUp;
  watch(link, false);
  bump(counters().dialled);
  list_ready(link);
}

std::size_t TcpChannel::deliver(std::vector<ChannelEvent>& out, std::size_t most) {
  std::size_t told = 0;
  for (std::size_t turns = ready_.size(); turns > 0 && told < most; --turns) {
    const std::uint32_t id = ready_.front();
    ready_.pop_front();
    TcpLink* link = find(id);
    if (link == nullptr) continue;
    link->ready = false;
    told += deliver_link(*link, out, std::min(most - told, kFramesPerTurn));
  }
  return told;
}

// Up, then frames, then down; what does not fit is told by a later poll.
std::size_t TcpChannel::deliver_link(TcpLink& link, std::vector<ChannelEvent>& out, std::size_t most) {
  std::size_t told = 0;
  if (link.fd && link.state == State::kUp && !link.announced) {
    link.announced = true;
    out.push_back({ChannelEvent::Kind::kUp, link.id, remote_address(link.fd.get()).text(), {}, {}});
    ++told;
  }
  std::span<const std::byte> frame;
  auto status = FrameReader::Status::kMore;
  while (told < most && (status = link.reader.next(frame)) == FrameReader::Status::kFrame) {
    out.push_back({ChannelEvent::Kind::kFrame, link.id, {}, {}, {frame.begin(), frame.end()}});
    bump(counters().frames_received);
    if (!link.heard) silent_.erase(link.id.value);
    link.heard = true;
    ++told;
  }
  if (status == FrameReader::Status::kTooLong) {
    const Error error = link.reader.error();
    link.fail_with(error.code, error.who, error.next, error.why, 0);
    bump(counters().frames_too_long);
    ended(link);
  }
  if (told < most && link.state == State::kEnded) {
    if (!link.announced && !link.dialled) return forget(link), told;  // evicted before anyone heard of it
    out.push_back({ChannelEvent::Kind::kDown, link.id, {}, link.end, {}});
    forget(link);
    return told + 1;
  }
  if (link.state == State::kEnded || link.reader.has_next()) list_ready(link);
  return told;
}

Result<std::string> endpoint_to_advertise(const TcpChannelOptions& options, const HostPort& bound,
                                          std::uint16_t port) {
  const bool any = is_any_host(bound.host);
  if (options.advertise.empty()) {
    if (!any) return print_host_port(bound.host, port);
    if (const auto host = first_outside_host()) return print_host_port(*host, port);
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "advertise (not set)",
                "bind " + options.bind +
                    " accepts other hosts, but this host has no address besides loopback to tell "
                    "them; set --advertise HOST[:PORT], or bind 127.0.0.1");
  }
  std::string text = options.advertise;
  const bool bare_v6 = text.front() != '[' && std::count(text.begin(), text.end(), ':') > 1;
  if (bare_v6) text = "[" + text + "]";
  if (text.back() == ']' || text.find(':') == std::string::npos) text += ":0";
  auto parsed = parse_host_port(text, "advertise");
  if (!parsed) return tl::unexpected(parsed.error());
  if (is_any_host(parsed->host))
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "advertise \"" + options.advertise + "\"",
                "it means every address and cannot be dialled; name one address of this host");
  if (is_loopback_host(parsed->host) && !is_loopback_host(bound.host))
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "advertise \"" + options.advertise + "\"",
                "it is a loopback address, but bind " + options.bind +
                    " accepts other hosts, which would dial "
                    "themselves; advertise an address that they reach, or bind 127.0.0.1");
  return print_host_port(parsed->host, parsed->port == 0 ? port : parsed->port);
}

Result<> check_options(const TcpChannelOptions& options) {
  const auto bad = [](const char* name, std::size_t value, const std::string& limit) {
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, std::string(name) + " " + std::to_string(value),
                "must be " + limit);
  };
  if (options.max_frame < 64 || options.max_frame > (64U << 20))
    return bad("max_frame", options.max_frame, "64 to 67108864 bytes");
  if (options.queue_bytes < options.max_frame + kFramePrefix)
    return bad("queue_bytes", options.queue_bytes,
               "at least max_frame + 4 = " + std::to_string(options.max_frame + kFramePrefix) + " bytes");
  if (options.max_links == 0) return bad("max_links", options.max_links, "at least 1");
  if (options.connect_tries == 0 || options.connect_tries > 7)
    return bad("connect_tries", options.connect_tries, "1 to 7");
  return {};
}

}  // namespace

Result<std::unique_ptr<Channel>> make_tcp_channel(TcpChannelOptions options) {
  if (auto ok = check_options(options); !ok) return tl::unexpected(ok.error());
  const auto bound = parse_host_port(options.bind, "bind");
  if (!bound) return tl::unexpected(bound.error());
  if (auto ok = endpoint_to_advertise(options, *bound, bound->port); !ok) return tl::unexpected(ok.error());
  auto listener = listen_on(*bound, options.bind_patience, 1024);
  if (!listener) return tl::unexpected(listener.error());
  const Address real = local_address(listener->get());  // of a name: what it stands for here
  auto endpoint = endpoint_to_advertise(options, HostPort{real.host(), real.port()}, real.port());
  if (!endpoint) return tl::unexpected(endpoint.error());
  auto channel = std::make_unique<TcpChannel>(std::move(options), std::move(*listener), std::move(*endpoint));
  if (auto ok = channel->start(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<Channel>(std::move(channel));
}

}  // namespace kvferry::control
