// The parts of the shm transport one by one: pool, lease words, description, hand-over packets, door, helper
// thread.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "shm_kit.h"
#include "transport/shm/description.h"
#include "transport/shm/handover.h"
#include "transport/shm/lease.h"
#include "transport/shm/peer_memory.h"
#include "transport/shm/pool.h"
#include "transport/shm/worker.h"

namespace kvferry {
namespace {

using namespace shm_kit;  // NOLINT: a test
using namespace shm;      // NOLINT: a test

TEST(ShmPoolTest, IsAlignedSealedZeroedAndRoundedUp) {
  const auto pool = pool_of(3ULL << 20);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->size(), 4ULL << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool->data()) % kHuge, 0U)
      << "file offset 0 lies at a multiple of 2 MiB";
  for (std::uint64_t i = 0; i < pool->size(); i += 64) ASSERT_EQ(pool->data()[i], std::byte{0});
  EXPECT_NE(::ftruncate(pool->fd(), 4096), 0) << "a reader's copy would end in SIGBUS";
  EXPECT_NE(::ftruncate(pool->fd(), 8 << 20), 0);
  EXPECT_TRUE(pool->contains(pool->data(), pool->size()));
  EXPECT_TRUE(pool->contains(pool->data() + 5, 7));
  EXPECT_FALSE(pool->contains(pool->data() + 1, pool->size()));
  EXPECT_FALSE(pool->contains(pool->data() - 1, 2));
  EXPECT_FALSE(pool->contains(pool->data() + 8, ~0ULL));
  EXPECT_NE(pool->report().find("of 4 MiB in huge pages"), std::string::npos) << pool->report();
}

TEST(ShmPoolTest, EveryPageIsThereBeforeItIsUsed) {
  const auto pool = pool_of(4ULL << 20);
  std::vector<unsigned char> present(pool->size() / kSmall);
  ASSERT_EQ(::mincore(pool->data(), pool->size(), present.data()), 0);
  for (std::size_t i = 0; i < present.size(); ++i) ASSERT_EQ(present[i] & 1, 1) << "page " << i;
}

TEST(ShmPoolTest, ImpossibleSizesAreNamed) {
  EXPECT_EQ(allocate_pool(0).error().code, Code::kUsage);
  EXPECT_EQ(allocate_pool(~0ULL).error().code, Code::kUsage);
  const auto refused = allocate_pool(1ULL << 46);  // 64 TiB
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kEnvironment) << refused.error().line();
  EXPECT_NE(refused.error().why.find("67108864 MiB are wanted"), std::string::npos) << refused.error().why;
}

TEST(ShmFileTest, TheReadersDescriptorCannotWriteAndUnsealedFilesAreRefused) {
  auto file = make_memfd("t", 4096);
  ASSERT_TRUE(file);
  auto reader = read_only(file->fd());
  ASSERT_TRUE(reader);
  EXPECT_EQ(::fcntl(reader->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(*sealed_size(reader->fd(), "t"), 4096U);
  EXPECT_EQ(::fcntl(file->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  const File bare{::memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(sealed_size(bare.fd(), "t").error().code, Code::kBadMessage);
  const File pipe{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  EXPECT_FALSE(sealed_size(pipe.fd(), "t"));
}

TEST(ShmMappingTest, LengthsThatAreNoPagesAndOddOffsetsWork) {
  auto file = make_memfd("t", (5ULL << 20) + 100);
  auto mapping = map_file(file->fd(), (5ULL << 20) + 100, Protection::kReadWrite, "t");
  ASSERT_TRUE(mapping);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % kHuge, 0U);
  ASSERT_TRUE(populate(mapping->data() + 12345, (4ULL << 20), nullptr, "t"));
  ASSERT_TRUE(touch(mapping->data() + 777, 9000, Protection::kReadWrite, nullptr, "t"));
  mapping->data()[(5ULL << 20) + 99] = std::byte{1};
}

TEST(ShmLeaseTest, OnlyTheNewestSerialWithItsTokenIsInForce) {
  auto writer = LeaseWriter::create(100, 42);
  ASSERT_TRUE(writer);
  auto view = LeaseView::open(writer->handed()->fd(), 42, "t");
  ASSERT_TRUE(view) << view.error().line();
  EXPECT_EQ(view->slots(), 100U);
  using State = LeaseView::State;
  EXPECT_EQ(view->look({{99, 0}, 0}), State::kEnded) << "0 is no serial";
  writer->begin(99, 5, 7);
  EXPECT_EQ(view->look({{99, 5}, 7}), State::kInForce);
  EXPECT_EQ(view->look({{99, 5}, 8}), State::kWrongToken);
  EXPECT_EQ(view->look({{99, 4}, 7}), State::kEnded);
  EXPECT_EQ(view->look({{98, 5}, 7}), State::kEnded);
  writer->end(99);
  EXPECT_EQ(view->look({{99, 5}, 7}), State::kEnded);
  writer->begin(99, 6, 7);
  EXPECT_EQ(view->look({{99, 5}, 7}), State::kEnded);
  EXPECT_EQ(view->look({{99, 6}, 7}), State::kInForce);
  { const LeaseWriter last = std::move(*writer); }
  EXPECT_EQ(view->look({{99, 6}, 7}), State::kEnded) << "words must be dead when the lender's transport ends";
}

TEST(ShmLeaseTest, AnotherLifesWordsAreRefused) {
  auto writer = LeaseWriter::create(4, 42);
  EXPECT_EQ(LeaseView::open(writer->handed()->fd(), 43, "t").error().code, Code::kPeerLost);
  auto empty = make_memfd("t", 8192);
  EXPECT_EQ(LeaseView::open(empty->fd(), 0, "t").error().code, Code::kMismatch);
  auto tiny = make_memfd("t", 16);
  EXPECT_EQ(LeaseView::open(tiny->fd(), 0, "t").error().code, Code::kBadMessage);
}

Description described() {
  return {77,
          1234,
          false,
          "/run/kvferry/kvferry-shm-1.sock",
          {{1ULL << 30, RegionKind::kShared}, {0, {}}, {4096, RegionKind::kForeign}}};
}

TEST(ShmDescriptionTest, ComesBackWholeAndOtherwiseNotAtAll) {
  const auto bytes = encode(described());
  ASSERT_TRUE(decode_description(bytes));
  EXPECT_EQ(*decode_description(bytes), described());
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_description(longer).error().code, Code::kBadMessage);
  auto newer = bytes;
  newer[4] = std::byte{9};
  EXPECT_EQ(decode_description(newer).error().code, Code::kMismatch);
  EXPECT_NE(decode_description(newer).error().why.find("version 9"), std::string::npos);
  auto kind = bytes;
  kind.back() = std::byte{3};
  EXPECT_FALSE(decode_description(kind));
}

TEST(ShmDescriptionTest, TheMostRegionsFitItsPromise) {
  Description description = described();
  description.door.assign(107, 'x');
  description.regions.resize(432);
  EXPECT_LE(encode(description).size(), kMaxDescription);
  EXPECT_EQ(*decode_description(encode(description)), description);
}

TEST(ShmHandoverTest, PacketsComeBackWholeAndCutOnesAreRefused) {
  const Table table{3, 77, 0xabcdef, {{1, RegionKind::kShared, 2, 3, 4}, {5, RegionKind::kForeign, 0, 0, 9}}};
  for (const Packet& packet : {Packet{Knock{5}}, Packet{table}, Packet{Files{64}}, Packet{Refusal{"no"}}}) {
    const auto bytes = encode(packet);
    ASSERT_TRUE(decode_packet(bytes)) << packet.index();
    EXPECT_EQ(*decode_packet(bytes), packet);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(decode_packet(std::span(bytes).first(size))) << packet.index() << " cut at " << size;
    }
  }
}

TEST(ShmHandoverTest, TablesThatNameNoFileOfTheirsAreRefused) {
  EXPECT_FALSE(decode_packet(encode(Table{3, 0, 0, {{1, RegionKind::kShared, 3, 0, 0}}})));
  EXPECT_FALSE(decode_packet(encode(Table{0, 0, 0, {}})));
  EXPECT_FALSE(decode_packet(encode(Table{kMaxFiles + 1, 0, 0, {}})));
  EXPECT_FALSE(decode_packet(encode(Table{1, 0, 0, {{1, static_cast<RegionKind>(7), 0, 0, 0}}})));
}

TEST(ShmHandoverTest, RandomBytesNeverDecode) {
  Prng random(11);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = encode(Table{3, 77, 1, {{1, RegionKind::kShared, 2, 3, 4}}});
    const std::size_t at = random.below(7);  // magic, version or kind
    bytes[at] ^= static_cast<std::byte>(1 + random.below(255));
    ASSERT_FALSE(decode_packet(bytes)) << "byte " << at;
  }
}

// A lender that lies about its files: each lie is found before a byte of it is touched.
Handed handed(std::uint64_t length, std::uint64_t offset, RegionKind kind, std::uint32_t file,
              const LeaseWriter& words) {
  Handed made;
  made.table = {2, 42, 0, {{length, kind, file, offset, 0}}};
  made.files.push_back(std::move(*read_only(words.handed()->fd())));
  made.files.push_back(std::move(*make_memfd("t", 8192)));
  return made;
}

TEST(ShmPeerMemoryTest, RegionsOutsideTheirFileAreRefused) {
  auto words = LeaseWriter::create(4, 42);
  const Stop stop{false};
  const auto shared = RegionKind::kShared;
  ASSERT_TRUE(PeerMemory::open(handed(8192, 0, shared, 1, *words), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(8193, 0, shared, 1, *words), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(1, 8192, shared, 1, *words), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(8192, ~0ULL - 100, shared, 1, *words), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(~0ULL, 1, shared, 1, *words), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(8, 0, shared, 0, *words), stop, "t"))
      << "the lease words are no region";
  Handed unsealed = handed(4096, 0, shared, 1, *words);
  unsealed.files[1] = File{::memfd_create("bare", MFD_CLOEXEC)};
  ASSERT_EQ(::ftruncate(unsealed.files[1].fd(), 4096), 0);
  EXPECT_FALSE(PeerMemory::open(std::move(unsealed), stop, "t"));
  EXPECT_FALSE(PeerMemory::open(handed(4096, 0, RegionKind::kForeign, 0, *words), stop, "t")) << "no pid";
}

// ---- the door against strangers

class ShmDoorTest : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = pool_of(2ULL << 20);
    lender_ = open_side(with_pool(pool_));
    ASSERT_TRUE(lender_.mover->add_region(RegionId{0}, {pool_->data(), 2ULL << 20, Memory::kHost}));
    description_ = *decode_description(lender_.mover->describe());
    address_ = {description_.abstract, description_.door};
  }
  // What the door answers to this packet, or "closed".
  std::string answer(std::span<const std::byte> packet) {
    File socket;
    if (connect_to(address_, socket) != 0) return "unreachable";
    if (send_packet(socket.fd(), packet, {}) != 0) return "closed";
    for (int i = 0; i < 1000; ++i) {
      lender_.turn();
      int status = 0;
      if (auto incoming = receive_packet(socket.fd(), status)) {
        auto said = decode_packet(incoming->bytes);
        const auto* refusal = said ? std::get_if<Refusal>(&*said) : nullptr;
        return refusal != nullptr ? refusal->text : "table";
      }
      if (status != 0) return "closed";
    }
    return "silence";
  }
  std::shared_ptr<SharedPool> pool_;
  Side lender_;
  Description description_;
  Address address_;
};

TEST_F(ShmDoorTest, OnlyTheRightCookieGetsTheMemory) {
  EXPECT_EQ(answer(encode(Knock{description_.cookie})), "table");
  EXPECT_NE(answer(encode(Knock{description_.cookie ^ 1})).find("another life"), std::string::npos);
  EXPECT_NE(answer(encode(Files{1})).find("knock was expected"), std::string::npos);
}

TEST_F(ShmDoorTest, TenThousandBadKnocksHarmNobody) {
  Prng random(3);
  for (int i = 0; i < 10000; ++i) {
    std::vector<std::byte> junk(1 + random.below(64));
    for (std::byte& byte : junk) byte = static_cast<std::byte>(random.next());
    ASSERT_NE(answer(junk), "table");
  }
  EXPECT_EQ(answer(encode(Knock{description_.cookie})), "table");
}

TEST_F(ShmDoorTest, SilentVisitorsDoNotKeepOthersOut) {
  ShmOptions options = with_pool(pool_);
  options.limits.door_connections = 4;
  lender_ = open_side(options);
  ASSERT_TRUE(lender_.mover->add_region(RegionId{0}, {pool_->data(), 2ULL << 20, Memory::kHost}));
  description_ = *decode_description(lender_.mover->describe());
  address_.name = description_.door;
  std::vector<File> silent(4);
  for (File& socket : silent) ASSERT_EQ(connect_to(address_, socket), 0);
  EXPECT_NE(answer(encode(Knock{description_.cookie})).find("shm.door_connections"), std::string::npos);
  silent.pop_back();
  for (int i = 0; i < 10; ++i) lender_.turn();
  EXPECT_EQ(answer(encode(Knock{description_.cookie})), "table");
}

TEST(ShmOptionsTest, BadOnesAreNamed) {
  ShmOptions regions;
  regions.limits.regions = 433;
  EXPECT_NE(open_shm(regions).error().why.find("432"), std::string::npos);
  ShmOptions loans;
  loans.limits.loans = 0;
  EXPECT_EQ(open_shm(loans).error().code, Code::kUsage);
  ShmOptions directory;
  directory.socket_directory = "/nonexistent/directory";
  EXPECT_EQ(open_shm(directory).error().status, ENOENT);
  directory.socket_directory = std::string(100, 'x');
  EXPECT_NE(open_shm(directory).error().why.find("107"), std::string::npos);
}

// ---- the helper thread

TEST(ShmWorkerTest, JobsRunInOrderElsewhereAndEndOnTheCallersThread) {
  auto worker = Worker::start();
  ASSERT_TRUE(worker);
  std::vector<int> order;
  std::atomic<bool> elsewhere{true};
  const auto self = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    (*worker)->submit([&](const Stop&) { elsewhere = elsewhere && std::this_thread::get_id() != self; },
                      [&order, i] { order.push_back(i); });
  }
  while (order.size() < 100) {
    for (const Worker::Done& done : (*worker)->take()) done();
  }
  EXPECT_TRUE(elsewhere);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ShmWorkerTest, TheEndStopsTheRunningJobAndForgetsTheRest) {
  auto worker = Worker::start();
  std::atomic<bool> running{false}, second{false};
  (*worker)->submit(
      [&](const Stop& stop) {
        running = true;
        while (!stop) std::this_thread::yield();
      },
      nullptr);
  (*worker)->submit([&](const Stop&) { second = true; }, nullptr);
  while (!running) std::this_thread::yield();
  worker->reset();
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace kvferry
