// The shm transport across processes: this test reads, a forked child lends (and is stopped, killed, moved
// elsewhere).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/prng.h"
#include "shm_kit.h"

namespace kvferry {
namespace {

using namespace shm_kit;  // NOLINT: a test
using Kind = Event::Kind;

constexpr std::uint64_t kBytes = 8ULL << 20;
constexpr std::uint32_t kItems = kBytes / kItemBytes;

void send_bytes(int socket, std::span<const std::byte> bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

std::vector<std::byte> receive_bytes(int socket) {
  std::vector<std::byte> bytes(8192);
  const ssize_t size = ::recv(socket, bytes.data(), bytes.size(), 0);
  bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return bytes;
}

// How the child holds the memory that it lends.
enum class Held { kPool, kAdopted, kForeign };

struct ChildSide {
  std::shared_ptr<SharedPool> pool;
  Side side;
  std::byte* data = nullptr;
};

ChildSide make_child_side(Held held, ShmOptions options) {
  ChildSide child;
  if (held == Held::kPool) {
    child.pool = pool_of(kBytes);
    options.pools.push_back(child.pool);
    child.data = child.pool->data();
  } else {
    child.data = static_cast<std::byte*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    options.adopt = held == Held::kAdopted;
  }
  fill(child.data, kBytes, 1);
  child.side = open_side(options);
  if (!child.side.mover->add_region(RegionId{0}, {child.data, kBytes, Memory::kHost})) ::_exit(3);
  if (!until({&child.side}, [&] { return child.side.find(Kind::kRegionReady).has_value(); })) ::_exit(4);
  return child;
}

// The usual life of a lender: describes itself, adds the reader, lends all items in slot 0 under serial 1
// with token 9, then turns until the test closes its end of the socket.
void lend_all(int socket, Held held, const ShmOptions& options) {
  ChildSide child = make_child_side(held, options);
  send_bytes(socket, child.side.mover->describe());
  if (!child.side.mover->add_peer(kPeer, receive_bytes(socket))) ::_exit(5);
  LoanBox loan(0, 1, 9, 0, kItems);
  if (!child.side.mover->lend(loan.loan)) ::_exit(6);
  send_bytes(socket, std::array{std::byte{1}});
  std::byte order{};
  while (true) {
    child.side.turn();
    const ssize_t got = ::recv(socket, &order, 1, MSG_DONTWAIT);
    if (got == 0) ::_exit(0);
    if (got == 1 && order == std::byte{'R'}) {
      if (!child.side.mover->revoke(loan.loan.id)) ::_exit(7);
      send_bytes(socket, std::array{std::byte{2}});
    }
    std::this_thread::yield();
  }
}

class ShmProcessTest : public testing::Test {
 protected:
  void start(const std::function<void(int)>& life) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::close(ends[0]);
      life(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  void open_reader(ShmOptions options = {}) {
    target_ = pool_of(kBytes);
    options.pools.push_back(target_);
    reader_ = open_side(options);
    ASSERT_TRUE(reader_.mover->add_region(RegionId{0}, {target_->data(), kBytes, Memory::kHost}));
  }
  void meet() {
    const auto description = receive_bytes(socket_);
    ASSERT_FALSE(description.empty());
    send_bytes(socket_, reader_.mover->describe());
    ASSERT_EQ(receive_bytes(socket_).size(), 1U) << "the child did not lend";
    ASSERT_TRUE(reader_.mover->add_peer(kPeer, description));
    ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerReady).has_value(); }));
  }
  void expect_all_read(std::uint64_t op) {
    ReadBox read(op, Ticket{LoanId{0, 1}, 9}, {{0, 0, kItems}});
    ASSERT_TRUE(reader_.mover->post(read.operation));
    ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced, OpId{op}).has_value(); }));
    const Error error = reader_.find(Kind::kCompleted, OpId{op})->error;
    ASSERT_TRUE(error.ok()) << error.line();
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      ASSERT_EQ(target_->data()[i], pattern(1, i / kItemBytes, i % kItemBytes)) << i;
    }
  }
  void end_child(int signal = 0) {
    if (signal != 0) ::kill(child_, signal);
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    if (child_ > 0) ::waitpid(child_, &status_, 0);
    child_ = -1;
  }
  void TearDown() override { end_child(child_ > 0 ? SIGKILL : 0); }

  pid_t child_ = -1;
  int socket_ = -1, status_ = 0;
  std::shared_ptr<SharedPool> target_;
  Side reader_;
};

TEST_F(ShmProcessTest, ReadsAPoolOfAnotherProcess) {
  start([](int socket) { lend_all(socket, Held::kPool, {}); });
  open_reader();
  meet();
  ASSERT_TRUE(reader_.find(Kind::kPeerReady)->error.ok()) << reader_.find(Kind::kPeerReady)->error.line();
  expect_all_read(1);
  send_bytes(socket_, std::array{std::byte{'R'}});
  ASSERT_EQ(receive_bytes(socket_).size(), 1U);
  ReadBox read(2, Ticket{LoanId{0, 1}, 9}, {{0, 0, 1}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced, OpId{2}).has_value(); }));
  EXPECT_FALSE(reader_.find(Kind::kCompleted, OpId{2})->error.ok()) << "revoked over there, accepted here";
  end_child();
  EXPECT_EQ(status_, 0);
}

TEST_F(ShmProcessTest, ReadsAdoptedMemoryOfAnotherProcess) {
  start([](int socket) {
    ShmOptions options;
    options.allow_foreign = false;
    lend_all(socket, Held::kAdopted, options);
  });
  open_reader();
  meet();
  expect_all_read(1);
}

TEST_F(ShmProcessTest, ReadsForeignMemoryOfAnotherProcess) {
  start([](int socket) { lend_all(socket, Held::kForeign, {}); });
  open_reader();
  meet();
  if (reader_.find(Kind::kPeerReady)->error.status == EPERM)
    GTEST_SKIP() << "process_vm_readv is forbidden here";
  ASSERT_TRUE(reader_.find(Kind::kPeerReady)->error.ok()) << reader_.find(Kind::kPeerReady)->error.line();
  expect_all_read(1);
}

TEST_F(ShmProcessTest, AKilledLenderOfForeignMemoryFailsTheRead) {
  start([](int socket) { lend_all(socket, Held::kForeign, {}); });
  open_reader();
  meet();
  if (!reader_.find(Kind::kPeerReady)->error.ok()) GTEST_SKIP() << "process_vm_readv is forbidden here";
  ReadBox read(1, Ticket{LoanId{0, 1}, 9}, {{0, 0, kItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  end_child(SIGKILL);
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced).has_value(); }));
  EXPECT_EQ(reader_.find(Kind::kCompleted)->error.code, Code::kPeerLost)
      << reader_.find(Kind::kCompleted)->error.line();
}

// A clock that looks on: when the watched byte has changed, it calls out once. The copy lane asks it the time
// behind each slice, that is, behind the last byte and before the verdict.
class WatchingClock final : public Clock {
 public:
  TimePoint now() noexcept override {
    if (watched != nullptr && *watched != before && then) std::exchange(then, {})();
    return system_.now();
  }
  const volatile std::byte* watched = nullptr;
  std::byte before{};
  std::function<void()> then;

 private:
  SystemClock system_;
};

// The lease word lives on in its memfd and still says "in force" when its owner is gone: only the pidfd,
// asked after the word, tells that the pid may have named somebody else during the copy.
TEST_F(ShmProcessTest, ALenderOfForeignMemoryThatEndsBetweenCopyAndVerdictFailsTheRead) {
  constexpr std::uint32_t kSliceItems = (256U << 10) / kItemBytes;  // one slice of the copy lane
  start([](int socket) { lend_all(socket, Held::kForeign, {}); });
  const auto clock = std::make_shared<WatchingClock>();
  ShmOptions options;
  options.clock = clock;
  open_reader(options);
  meet();
  if (!reader_.find(Kind::kPeerReady)->error.ok()) GTEST_SKIP() << "process_vm_readv is forbidden here";
  const std::uint64_t last = kSliceItems * std::uint64_t{kItemBytes} - 1;
  target_->data()[last] = ~pattern(1, last / kItemBytes, last % kItemBytes);
  clock->before = target_->data()[last];
  clock->watched = target_->data() + last;
  clock->then = [this] { end_child(SIGKILL); };
  ReadBox read(1, Ticket{LoanId{0, 1}, 9}, {{0, 0, kSliceItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced, OpId{1}).has_value(); }));
  EXPECT_FALSE(clock->then) << "the lender was not ended behind the last byte";
  const Error error = reader_.find(Kind::kCompleted, OpId{1})->error;
  EXPECT_EQ(error.code, Code::kPeerLost) << error.line();
  EXPECT_NE(error.line().find("ended during the copy"), std::string::npos) << error.line();
}

TEST_F(ShmProcessTest, AKilledLenderIsToldAndItsMemoryStaysReadable) {
  start([](int socket) { lend_all(socket, Held::kPool, {}); });
  open_reader();
  meet();
  ReadBox read(1, Ticket{LoanId{0, 1}, 9}, {{0, 0, kItems}});
  ASSERT_TRUE(reader_.mover->post(read.operation));
  reader_.turn();
  const auto killed = std::chrono::steady_clock::now();
  end_child(SIGKILL);
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kPeerLost).has_value(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(1));
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced).has_value(); }));
  expect_all_read(2);  // nobody can have written to the pages since: they are as they were lent
  ASSERT_TRUE(reader_.mover->fence(kPeer));
  ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kPeerFenced).has_value(); }));
  reader_.mover->drop_peer(kPeer);
}

TEST_F(ShmProcessTest, AStoppedLenderDoesNotHoldTheReadUp) {
  start([](int socket) { lend_all(socket, Held::kPool, {}); });
  open_reader();
  meet();
  ::kill(child_, SIGSTOP);
  expect_all_read(1);
}

class HandClock final : public Clock {
 public:
  TimePoint now() noexcept override { return TimePoint{Duration{ns_.load()}}; }
  void advance(Duration by) { ns_ += by.count(); }

 private:
  std::atomic<std::int64_t> ns_{1};
};

TEST_F(ShmProcessTest, AStoppedLenderEndsTheHandOverAtItsDeadline) {
  start([](int socket) { lend_all(socket, Held::kPool, {}); });
  auto clock = std::make_shared<HandClock>();
  ShmOptions options;
  options.clock = clock;
  open_reader(options);
  const auto description = receive_bytes(socket_);
  ::kill(child_, SIGSTOP);
  ASSERT_EQ(::waitpid(child_, &status_, WUNTRACED), child_);
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, description));
  clock->advance(options.handover - Duration{1});
  for (int i = 0; i < 10; ++i) {
    pollfd ask{reader_.mover->wake_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ask, 1, 10000), 1) << "a transport that waits for a peer must tick";
    reader_.turn();
  }
  EXPECT_FALSE(reader_.find(Kind::kPeerReady));
  clock->advance(Duration{1});
  ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerReady).has_value(); }));
  const Error error = reader_.find(Kind::kPeerReady)->error;
  EXPECT_EQ(error.code, Code::kTimeout);
  EXPECT_NE(error.why.find("shm.handover"), std::string::npos) << error.why;
}

TEST_F(ShmProcessTest, OnlyASharedDirectoryCrossesNetworkNamespaces) {
  start([](int socket) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(0);
    lend_all(socket, Held::kPool, {});
  });
  open_reader();
  const auto description = receive_bytes(socket_);
  if (description.empty()) GTEST_SKIP() << "no right to make a network namespace";
  ASSERT_TRUE(reader_.mover->add_peer(kPeer, description));
  ASSERT_TRUE(until({&reader_}, [this] { return reader_.find(Kind::kPeerReady).has_value(); }));
  EXPECT_EQ(reader_.find(Kind::kPeerReady)->error.status, ECONNREFUSED);
  EXPECT_NE(reader_.find(Kind::kPeerReady)->error.why.find("network namespace"), std::string::npos);
  end_child(SIGKILL);
  reader_.mover.reset();  // its thread ends before the next fork

  const auto directory = std::filesystem::temp_directory_path() / ("kvf-shm-" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  ShmOptions options;
  options.socket_directory = directory;
  start([options](int socket) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(0);
    lend_all(socket, Held::kPool, options);
  });
  open_reader(options);
  meet();
  expect_all_read(1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 2);
  end_child(SIGKILL);
  open_reader(options);  // a new life removes the socket file that the killed one left
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
  reader_.mover.reset();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 0);
  std::filesystem::remove(directory);
}

TEST_F(ShmProcessTest, ForeignMemoryThatMayNotBeReadIsRefusedWithTheReason) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to give its rights up";
  // Here the test lends and the child, another user, reads.
  start([](int socket) {
    const auto description = receive_bytes(socket);
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(3);
    Side side = open_side();
    if (!side.mover->add_peer(kPeer, description)) ::_exit(4);
    if (!until({&side}, [&] { return side.find(Kind::kPeerReady).has_value(); })) ::_exit(5);
    const Error error = side.find(Kind::kPeerReady)->error;
    send_bytes(socket, std::as_bytes(std::span(error.why)));
  });
  std::vector<std::byte> bytes(4096);
  reader_ = open_side();
  ASSERT_TRUE(reader_.mover->add_region(RegionId{0}, {bytes.data(), bytes.size(), Memory::kHost}));
  send_bytes(socket_, reader_.mover->describe());
  std::vector<std::byte> answer;
  std::thread listener([&] { answer = receive_bytes(socket_); });
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    listener.join();
    done = true;
  });
  until({&reader_}, [&] { return done.load(); });
  waiter.join();
  const std::string why(reinterpret_cast<const char*>(answer.data()), answer.size());
  EXPECT_NE(why.find("Operation not permitted"), std::string::npos) << why;
  EXPECT_NE(why.find("allocate_pool"), std::string::npos) << why;
}

// The lender overwrites its pages the moment a revoke returns; whatever the reader accepts must be whole.
struct Board {
  std::atomic<std::uint64_t> serial{0};
  std::atomic<bool> stop{false};
};

void lend_and_overwrite(int socket, Board* board) {
  ChildSide child = make_child_side(Held::kPool, {});
  send_bytes(socket, child.side.mover->describe());
  if (!child.side.mover->add_peer(kPeer, receive_bytes(socket))) ::_exit(5);
  send_bytes(socket, std::array{std::byte{1}});
  Prng random(5);
  for (std::uint64_t serial = 1; !board->stop; ++serial) {
    std::memset(child.data, static_cast<int>(serial & 0xff), kBytes / 4);
    LoanBox loan(0, serial, 9, 0, kItems / 4);
    if (!child.side.mover->lend(loan.loan)) ::_exit(6);
    board->serial = serial;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(2500));
    while (std::chrono::steady_clock::now() < end) child.side.turn();
    if (!child.side.mover->revoke(loan.loan.id)) ::_exit(7);
  }
}

TEST_F(ShmProcessTest, WhatIsAcceptedWasNeverOverwritten) {
  void* raw = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* board = new (raw) Board;
  start([board](int socket) { lend_and_overwrite(socket, board); });
  open_reader();
  meet();
  int accepted = 0, rejected = 0;
  for (std::uint64_t op = 1; op < 20000 && (accepted < 50 || rejected < 50); ++op) {
    const std::uint64_t serial = board->serial;
    if (serial == 0) {
      reader_.turn();
      continue;
    }
    ReadBox read(op, Ticket{LoanId{0, serial}, 9}, {{0, 0, kItems / 4}});
    ASSERT_TRUE(reader_.mover->post(read.operation));
    ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kQuiesced, OpId{op}).has_value(); }));
    const bool ok = reader_.find(Kind::kCompleted, OpId{op})->error.ok();
    reader_.seen.clear();
    ++(ok ? accepted : rejected);
    if (!ok) continue;
    const std::byte want{static_cast<unsigned char>(serial & 0xff)};
    ASSERT_TRUE(
        std::all_of(target_->data(), target_->data() + kBytes / 4, [want](std::byte b) { return b == want; }))
        << "an accepted read of serial " << serial << " holds bytes of a later one";
  }
  board->stop = true;
  EXPECT_GE(accepted, 50);
  EXPECT_GE(rejected, 50);
  end_child();
  ::munmap(raw, 4096);
}

// Twenty lives of a peer leave descriptors flat.
TEST_F(ShmProcessTest, TwentyPeersLeaveNoDescriptors) {
  open_reader();
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  for (std::uint32_t life = 1; life <= 20; ++life) {
    const auto pool = pool_of(2ULL << 20);
    Side lender = open_side(with_pool(pool));
    ASSERT_TRUE(lender.mover->add_region(RegionId{0}, {pool->data(), 2ULL << 20, Memory::kHost}));
    ASSERT_TRUE(reader_.mover->add_peer(PeerId{life}, lender.mover->describe()));
    ASSERT_TRUE(lender.mover->add_peer(PeerId{1}, reader_.mover->describe()));
    reader_.seen.clear();
    ASSERT_TRUE(until({&lender, &reader_},
                      [&] { return reader_.find(Kind::kPeerReady) && lender.find(Kind::kPeerReady); }));
    ASSERT_TRUE(reader_.find(Kind::kPeerReady)->error.ok());
    if (life % 2 == 0) {  // every other one ends first; the rest are dropped alive
      lender.mover.reset();
      ASSERT_TRUE(until({&reader_}, [&] { return reader_.find(Kind::kPeerLost).has_value(); }));
    }
    reader_.mover->drop_peer(PeerId{life});
  }
  ASSERT_TRUE(until({&reader_}, [&] { return descriptors() <= before; }))
      << descriptors() << " after " << before;
}

}  // namespace
}  // namespace kvferry
