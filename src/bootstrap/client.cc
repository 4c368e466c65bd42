#include "bootstrap/client.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "bootstrap/answers.h"
#include "bootstrap/http_link.h"
#include "bootstrap/json_body.h"

namespace kvferry::bootstrap {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using Key = std::pair<std::string, std::uint32_t>;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

struct Wish {  // a registration to keep; guarded by the client's mutex
  core::Registration wanted;
  std::uint64_t version = 0;      // counts hold() calls
  TimePoint good_until;  // the lease that the server last granted
  bool superseded = false;
};

struct Keeper {  // who keeps it; the client's thread only
  Keeper(asio::io_context& context, const HostPort& server) : link(context, server), timer(context) {}
  HttpLink link;
  asio::steady_timer timer;
  bool poked = false;  // do not sleep: the wish changed or the server went away
  void poke() {
    poked = true;
    timer.cancel();
  }
};

Duration lease_of(const core::Registration& r) {
  return r.lease == Duration{0} ? core::RegistryLimits{}.lease_default : r.lease;
}

std::string rank_target(const Key& key) {
  return "/v1/groups/" + percent_encoded(key.first) + "/ranks/" + std::to_string(key.second);
}

}  // namespace

struct BootstrapClient::Rep {
  explicit Rep(ClientOptions o, HostPort where) : options(std::move(o)), server(std::move(where)) {}

  asio::awaitable<void> keep(Key key, std::shared_ptr<Keeper> keeper);
  asio::awaitable<void> find(std::uint64_t id, std::string group, milliseconds deadline);
  std::optional<milliseconds> note_put(const Key& key, std::uint64_t version, const HttpAnswer& answer,
                                       milliseconds& backoff);
  void note_failure(const Error& error);
  void answer(std::uint64_t id, Result<std::vector<ResolvedRank>> result);
  void wake(const Key& key);
  ClientStatus status() const;

  const ClientOptions options;
  const HostPort server;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(context);
  std::map<Key, std::shared_ptr<Keeper>> keepers;  // the client's thread only
  std::thread thread;

  mutable std::mutex mutex;  // guards what follows
  mutable std::condition_variable changed;
  std::map<Key, Wish> wishes;
  std::map<std::uint64_t, Found> waiting;
  std::uint64_t next_id = 0;
  std::size_t keeping = 0;   // keepers that did not end
  bool stopped = false;
  ClientStatus counts;       // held, registered and superseded are worked out by status()
};

void BootstrapClient::Rep::note_failure(const Error& error) {
  const std::lock_guard lock(mutex);
  ++counts.failures;
  counts.reachable = false;
  counts.last_error = error;
}

// What the answer to a PUT means: how long to sleep, or nothing when the rank was lost to a newer process.
std::optional<milliseconds> BootstrapClient::Rep::note_put(const Key& key, std::uint64_t version,
                                                           const HttpAnswer& answer, milliseconds& backoff) {
  const milliseconds pause = backoff;
  backoff = std::min(backoff * 2, options.retry_most);
  if (!answer.error.ok()) {
    note_failure(answer.error);
    return pause;
  }
  const PutAnswer put = read_put_answer(answer.status, answer.body);
  const std::lock_guard lock(mutex);
  counts.reachable = true;
  changed.notify_all();
  const auto at = wishes.find(key);
  const bool current = at != wishes.end() && at->second.version == version;
  if (put.outcome.empty()) {
    const bool superseded = put.code == "superseded";
    counts.last_error = Error{superseded ? Code::kSuperseded : Code::kRefused,
                              Who::kPeer,
                              superseded ? Next::kNever : Next::kAfterFix,
                              static_cast<std::int32_t>(answer.status),
                              "registration of group " + key.first + " rank " + std::to_string(key.second),
                              put.message};
    if (current) at->second.superseded = superseded;
    if (current && superseded) return std::nullopt;
    return pause;
  }
  counts.last_error = Error{};
  ++(put.outcome == "renewed" ? counts.renewals : counts.registrations);
  backoff = options.retry_first;
  if (!current) return milliseconds(0);
  const Duration lease = lease_of(at->second.wanted);
  at->second.good_until = options.clock->now() + lease;
  return std::chrono::duration_cast<milliseconds>(lease / 3);
}

// Registers, renews, registers again after a restart of the server; ends with release().
asio::awaitable<void> BootstrapClient::Rep::keep(Key key, std::shared_ptr<Keeper> keeper) {
  milliseconds backoff = options.retry_first;
  core::Registration wanted;
  for (;;) {
    std::uint64_t version = 0;
    keeper->poked = false;
    {
      const std::lock_guard lock(mutex);
      const auto at = wishes.find(key);
      if (at == wishes.end()) break;
      wanted = at->second.wanted;
      version = at->second.version;
    }
    std::string body = write_registration(wanted);
    const HttpAnswer put =
        co_await keeper->link.call("PUT", rank_target(key), std::move(body), options.request_timeout);
    const auto pause = note_put(key, version, put, backoff);
    if (keeper->poked) continue;
    keeper->timer.expires_after(pause.value_or(std::chrono::hours(24)));
    if (pause) keeper->link.watch([keeper] { keeper->poke(); });
    co_await keeper->timer.async_wait(kTuple);
  }
  if (wanted.incarnation.known()) {  // else it was released before it was ever asked for
    std::string target = rank_target(key) + "?incarnation=" + core::print_incarnation(wanted.incarnation);
    const HttpAnswer gone =
        co_await keeper->link.call("DELETE", std::move(target), {}, options.request_timeout);
    if (!gone.error.ok()) note_failure(gone.error);
  }
  keepers.erase(key);
  const std::lock_guard lock(mutex);
  --keeping;
  changed.notify_all();
  if (wishes.count(key) != 0) asio::post(context, [this, key] { wake(key); });  // held again meanwhile
}

void BootstrapClient::Rep::wake(const Key& key) {
  const auto at = keepers.find(key);
  if (at != keepers.end()) return at->second->poke();
  auto keeper = std::make_shared<Keeper>(context, server);
  keepers.emplace(key, keeper);
  {
    const std::lock_guard lock(mutex);
    ++keeping;
  }
  asio::co_spawn(context, keep(key, keeper), asio::detached);
}

asio::awaitable<void> BootstrapClient::Rep::find(std::uint64_t id, std::string group, milliseconds deadline) {
  HttpLink link(context, server);
  asio::steady_timer timer(context);
  const TimePoint end = options.clock->now() + deadline;
  const std::string target = "/v1/groups/" + percent_encoded(group);
  milliseconds backoff = options.retry_first;
  std::string why = "it was not asked";
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - options.clock->now());
    if (left <= milliseconds(0)) break;
    const HttpAnswer got = co_await link.call("GET", target, {}, std::min(left, options.request_timeout));
    milliseconds pause = options.resolve_every;
    if (got.error.ok()) {
      GroupAnswer known = read_group_answer(got.status, got.body);
      if (known.ready) co_return answer(id, std::move(known.ranks));
      why = known.missing;
      backoff = options.retry_first;
    } else {
      note_failure(got.error);
      why = got.error.what + " cannot be reached: " + got.error.why;
      pause = std::exchange(backoff, std::min(backoff * 2, options.retry_most));
    }
    timer.expires_after(std::clamp(end - options.clock->now(), Duration{0}, Duration{pause}));
    co_await timer.async_wait(kTuple);
  }
  answer(id, fail(Code::kTimeout, Who::kPeer, Next::kRetry,
                  "group " + group + " at bootstrap server " + print_host_port(server.host, server.port),
                  "not ready after " + std::to_string(deadline.count()) + " ms: " + why));
}

void BootstrapClient::Rep::answer(std::uint64_t id, Result<std::vector<ResolvedRank>> result) {
  Found found;
  {
    const std::lock_guard lock(mutex);
    if (result) {
      counts.reachable = true;
      counts.last_error = Error{};
    }
    const auto at = waiting.find(id);
    if (at == waiting.end()) return;
    found = std::move(at->second);
    waiting.erase(at);
  }
  found(std::move(result));
}

ClientStatus BootstrapClient::Rep::status() const {
  ClientStatus out = counts;
  for (const auto& [key, wish] : wishes) {
    ++out.held;
    if (wish.superseded) {
      ++out.superseded;
    } else if (wish.good_until > options.clock->now()) {
      ++out.registered;
    }
  }
  return out;
}

BootstrapClient::BootstrapClient(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
BootstrapClient::~BootstrapClient() { stop(); }

Result<std::unique_ptr<BootstrapClient>> BootstrapClient::start(ClientOptions options) {
  auto where = parse_host_port(options.server, "bootstrap server");
  if (!where) return tl::unexpected(where.error());
  if (where->port == 0 || is_any_host(where->host))
    return fail(Code::kUsage, Who::kConfig, Next::kAfterFix, "bootstrap server \"" + options.server + "\"",
                "host and port must both be given to dial");
  if (!options.clock) options.clock = std::make_shared<SystemClock>();
  auto rep = std::make_unique<Rep>(std::move(options), std::move(*where));
  rep->thread = std::thread([raw = rep.get()] { raw->context.run(); });
  return std::unique_ptr<BootstrapClient>(new BootstrapClient(std::move(rep)));
}

void BootstrapClient::hold(core::Registration wanted) {
  const Key key{wanted.group, wanted.rank};
  {
    const std::lock_guard lock(rep_->mutex);
    Wish& wish = rep_->wishes[key];
    wish = Wish{std::move(wanted), wish.version + 1, {}, false};
  }
  asio::post(rep_->context, [rep = rep_.get(), key] { rep->wake(key); });
}

void BootstrapClient::release(const std::string& group, std::uint32_t rank) {
  const Key key{group, rank};
  {
    const std::lock_guard lock(rep_->mutex);
    if (rep_->wishes.erase(key) == 0) return;
  }
  asio::post(rep_->context, [rep = rep_.get(), key] { rep->wake(key); });
}

void BootstrapClient::resolve(std::string group, milliseconds deadline, Found found) {
  std::uint64_t id = 0;
  bool stopped = false;
  {
    const std::lock_guard lock(rep_->mutex);
    stopped = rep_->stopped;
    if (!stopped) {
      id = ++rep_->next_id;
      rep_->waiting.emplace(id, std::move(found));
    }
  }
  if (stopped)
    return found(fail(Code::kAborted, Who::kLocal, Next::kNever, "group " + group,
                      "the bootstrap client was stopped"));
  asio::post(rep_->context, [rep = rep_.get(), id, group = std::move(group), deadline] {
    asio::co_spawn(rep->context, rep->find(id, group, deadline), asio::detached);
  });
}

Result<std::vector<ResolvedRank>> BootstrapClient::resolve(std::string group, milliseconds deadline) {
  const auto promise = std::make_shared<std::promise<Result<std::vector<ResolvedRank>>>>();
  auto future = promise->get_future();
  resolve(std::move(group), deadline,
          [promise](Result<std::vector<ResolvedRank>> r) { promise->set_value(std::move(r)); });
  return future.get();
}

ClientStatus BootstrapClient::status() const {
  const std::lock_guard lock(rep_->mutex);
  return rep_->status();
}

bool BootstrapClient::wait_registered(milliseconds deadline) const {
  std::unique_lock lock(rep_->mutex);
  return rep_->changed.wait_for(lock, deadline, [this] {
    const ClientStatus now = rep_->status();
    return now.registered == now.held;
  });
}

void BootstrapClient::stop(milliseconds farewell) {
  if (farewell > milliseconds(0)) {
    std::vector<Key> keys;
    {
      const std::lock_guard lock(rep_->mutex);
      for (const auto& [key, wish] : rep_->wishes) keys.push_back(key);
    }
    for (const auto& [group, rank] : keys) release(group, rank);
    std::unique_lock lock(rep_->mutex);
    rep_->changed.wait_for(lock, farewell, [this] { return rep_->keeping == 0; });
  }
  std::map<std::uint64_t, Found> waiting;
  {
    const std::lock_guard lock(rep_->mutex);
    rep_->stopped = true;
  }
  rep_->context.stop();
  if (rep_->thread.joinable()) rep_->thread.join();
  {
    const std::lock_guard lock(rep_->mutex);
    waiting.swap(rep_->waiting);
  }
  for (auto& [id, found] : waiting)
    found(fail(Code::kAborted, Who::kLocal, Next::kNever, "resolve", "the bootstrap client was stopped"));
}

}  // namespace kvferry::bootstrap
