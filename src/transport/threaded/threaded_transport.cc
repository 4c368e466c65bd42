#include "transport/threaded/threaded_transport.h"

#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "transport/threaded/inner_loop.h"
#include "transport/threaded/owned.h"

namespace kvferry {

using threaded::InnerLoop;

struct ThreadedTransport::Rep {
  Rep(std::unique_ptr<Transport> inner, const ThreadedOptions& given)
      : options(given), capabilities(inner->capabilities()), loop(std::move(inner), given) {}

  ThreadedOptions options;
  Capabilities capabilities;
  InnerLoop loop;
  std::thread thread;
  // Of the progress thread:
  struct Lent {
    PeerId peer;
    std::shared_ptr<InnerLoop::Answer> answer;  // of a lend() that had no answer in time; null: lent
  };
  std::map<LoanId, Lent> loans;
};

namespace {

Error ended(std::string why, Code code, Who who) {
  return Error{code, who, Next::kNewRoom, 0, "threaded mover", std::move(why)};
}

Event event_of(Event::Kind kind, Error error) {
  Event event;
  event.kind = kind;
  event.error = std::move(error);
  return event;
}

}  // namespace

Result<std::unique_ptr<ThreadedTransport>> ThreadedTransport::open(std::unique_ptr<Transport> inner,
                                                                   const ThreadedOptions& options) {
  if (inner == nullptr || options.posts == 0 || options.commands == 0 || options.events == 0) {
    return fail(
        Code::kUsage, Who::kConfig, Next::kAfterFix, "threaded mover",
        "it needs a mover and bounds of at least 1 (threaded.posts, threaded.commands, threaded.events)");
  }
  auto rep = std::make_shared<Rep>(std::move(inner), options);
  if (!rep->loop.usable()) {
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "threaded mover",
                "the system gave no eventfd; raise the limit of file descriptors (ulimit -n)");
  }
  try {
    rep->thread = std::thread([rep] { rep->loop.run(); });
  } catch (const std::system_error& error) {
    return fail(Code::kEnvironment, Who::kLocal, Next::kAfterFix, "threaded mover",
                std::string("its thread cannot be started: ") + error.what(), error.code().value());
  }
  return std::unique_ptr<ThreadedTransport>(new ThreadedTransport(std::move(rep)));
}

ThreadedTransport::ThreadedTransport(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}

ThreadedTransport::~ThreadedTransport() { stop(rep_->options.stop); }

bool ThreadedTransport::stop(Duration limit) {
  const bool over = rep_->loop.stop(limit);
  if (rep_->thread.joinable()) {
    if (over) {
      rep_->thread.join();
    } else {
      rep_->thread.detach();  // it owns what it uses
    }
  }
  return over;
}

const Capabilities& ThreadedTransport::capabilities() const noexcept { return rep_->capabilities; }

Result<> ThreadedTransport::add_region(RegionId id, const RegionView& view) {
  return rep_->loop.command([&loop = rep_->loop, id, view](Transport& inner) {
    if (auto added = inner.add_region(id, view); !added) {
      Event event = event_of(Event::Kind::kRegionReady, added.error());
      event.region = id;
      loop.tell(std::move(event));
    }
  });
}

Result<> ThreadedTransport::drop_region(RegionId id) {
  auto answer = rep_->loop.ask([id](Transport& inner) { return inner.drop_region(id); });
  if (!answer) return tl::unexpected(answer.error());
  if (rep_->loop.wait(**answer, rep_->options.patience) == InnerLoop::Answer::State::kDone)
    return (*answer)->result;
  return fail(Code::kWouldBlock, Who::kTransport, Next::kRetry,
              "threaded mover region " + std::to_string(id.value),
              "the mover is busy in another call; drop the region again later");
}

std::vector<std::byte> ThreadedTransport::describe() const { return rep_->loop.description(); }

Result<> ThreadedTransport::add_peer(PeerId id, std::span<const std::byte> description) {
  return rep_->loop.command([&loop = rep_->loop, id,
                             bytes = std::vector(description.begin(), description.end())](Transport& inner) {
    if (auto added = inner.add_peer(id, bytes); !added) {
      Event event = event_of(Event::Kind::kPeerReady, added.error());
      event.peer = id;
      loop.tell(std::move(event));
    }
  });
}

void ThreadedTransport::drop_peer(PeerId id) {
  // A full queue loses this: the inner mover then keeps a dead peer's entry, bounded by its own table.
  static_cast<void>(rep_->loop.drop_peer(id, ended("its peer was dropped", Code::kPeerLost, Who::kLocal)));
}

Result<> ThreadedTransport::fence(PeerId id) {
  return rep_->loop.command([&loop = rep_->loop, id](Transport& inner) {
    loop.end_queued(id, ended("its peer was fenced", Code::kPeerLost, Who::kPeer));
    if (auto fenced = inner.fence(id); !fenced) {
      Event event = event_of(Event::Kind::kPeerFenced, fenced.error());
      event.peer = id;
      loop.tell(std::move(event));
    }
  });
}

Result<> ThreadedTransport::lend(const Loan& loan) {
  using State = InnerLoop::Answer::State;
  auto known = rep_->loans.find(loan.id);
  if (known == rep_->loans.end()) {
    auto owned = std::make_shared<threaded::OwnedLoan>(loan);
    auto asked = rep_->loop.ask([owned](Transport& inner) { return inner.lend(owned->head); });
    if (!asked) return tl::unexpected(asked.error());
    known = rep_->loans.emplace(loan.id, Rep::Lent{loan.peer, *asked}).first;
  }
  const std::shared_ptr<InnerLoop::Answer> answer = known->second.answer;
  const std::string what = "threaded mover loan slot " + std::to_string(loan.id.slot);
  if (answer == nullptr) return fail(Code::kRefused, Who::kLocal, Next::kNever, what, "it is lent already");
  const State state = rep_->loop.wait(*answer, rep_->options.patience);
  if (state == State::kDone) {
    if (answer->result) {
      known->second.answer = nullptr;
    } else {
      rep_->loans.erase(known);
    }
    return answer->result;
  }
  if (state == State::kWithdrawn) rep_->loans.erase(known);
  return fail(Code::kWouldBlock, Who::kTransport, Next::kRetry, what,
              "the mover is busy in another call; the loan is not in force yet");
}

Result<> ThreadedTransport::revoke(LoanId id) {
  const auto known = rep_->loans.find(id);
  if (known == rep_->loans.end()) {
    return fail(Code::kUsage, Who::kLocal, Next::kNever,
                "threaded mover loan slot " + std::to_string(id.slot), "no such loan is in force");
  }
  auto queued = rep_->loop.command([&loop = rep_->loop, id, lent = known->second](Transport& inner) {
    auto revoked = inner.revoke(id);
    if (revoked) return;
    const bool never =
        lent.answer != nullptr && !lent.answer->result;  // its lend was refused: nothing to recall
    Event event =
        event_of(never ? Event::Kind::kRevoked : Event::Kind::kPeerLost, never ? Error{} : revoked.error());
    event.loan = id;
    event.peer = lent.peer;
    loop.tell(std::move(event));
  });
  if (queued) rep_->loans.erase(known);
  return queued;
}

Result<> ThreadedTransport::post(const Operation& operation) { return rep_->loop.post(operation); }

void ThreadedTransport::cancel(OpId op) noexcept {
  static_cast<void>(
      rep_->loop
          .command([&loop = rep_->loop, op](Transport& inner) {
            if (!loop.end_queued(op, ended("cancelled by its poster", Code::kAborted, Who::kLocal)))
              inner.cancel(op);
          })
          .has_value());
}

std::size_t ThreadedTransport::progress(std::span<Event> out) { return rep_->loop.take(out); }
bool ThreadedTransport::busy() const noexcept { return rep_->loop.has_events(); }
int ThreadedTransport::wake_fd() const noexcept { return rep_->loop.wake_fd(); }

}  // namespace kvferry
