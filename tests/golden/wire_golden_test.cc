// The bytes of version 1.0, message by message and as transcripts. `kvferry_golden_tests --update-golden`
// rewrites the files: only when a field was added, and the review shows what changed. Old readers must still
// read the new bytes.
#include <gtest/gtest.h>

#include <set>

#include "base/bytes.h"
#include "golden/hex_file.h"
#include "golden/wire_samples.h"
#include "wire/codec.h"

namespace kvferry::golden {
namespace {

const std::string kFolder = std::string(KVFERRY_TESTS_DIR) + "/golden/wire_1.0/";
const std::string kCorpus = std::string(KVFERRY_TESTS_DIR) + "/fuzz/corpus/codec/";

std::vector<std::byte> encoded(const wire::Message& message) {
  wire::Encoder encoder;
  const auto frame = encoder.encode(message);
  return {frame.begin(), frame.end()};
}

HexBlock block_of(std::string comment, const wire::Message& message) {
  return {{std::move(comment)}, encoded(message)};
}

std::string text_of(const Sample& sample) {
  return print_hex(
      {block_of(std::string(wire::name_of(sample.message.body)) + ", kvferry wire 1.0, all fields set",
                sample.message)});
}

std::string text_of(const Transcript& transcript) {
  std::vector<HexBlock> blocks;
  blocks.push_back({{"kvferry wire 1.0. " + transcript.title,
                     "One block is one frame, without the length that a channel puts before it."},
                    {}});
  std::size_t number = 0;
  for (const Line& line : transcript.lines) {
    blocks.push_back(block_of("frame " + std::to_string(++number) + ": " + line.from + " -> " + line.to +
                                  ": " + wire::name_of(line.message.body) + ": " + line.about,
                              line.message));
  }
  return print_hex(blocks);
}

void expect_file(const std::string& path, const std::string& text) {
  if (updating()) {
    write_file(path, text);
  }
  EXPECT_EQ(read_file(path), text) << path << " differs; if a field was added, run with --update-golden";
}

TEST(WireGolden, EveryKindHasASample) {
  std::set<std::size_t> kinds;
  for (const Sample& sample : samples()) {
    kinds.insert(sample.message.body.index());
    EXPECT_EQ(sample.file, wire::name_of(sample.message.body));
  }
  EXPECT_EQ(kinds.size(), wire::kKinds);
}

TEST(WireGolden, EncodingGivesTheKeptBytes) {
  for (const Sample& sample : samples()) {
    expect_file(kFolder + sample.file + ".hex", text_of(sample));
    if (updating()) {
      const auto bytes = encoded(sample.message);
      write_file(kCorpus + sample.file, std::string(text_of_bytes(bytes)));
    }
  }
}

TEST(WireGolden, KeptBytesGiveTheMessage) {
  for (const Sample& sample : samples()) {
    const auto blocks = parse_hex(read_file(kFolder + sample.file + ".hex"));
    ASSERT_EQ(blocks.size(), 1U) << sample.file;
    const auto message = wire::decode(blocks[0].bytes);
    ASSERT_TRUE(message) << sample.file << ": " << message.error().line();
    EXPECT_EQ(*message, sample.message) << sample.file;
  }
}

TEST(WireGolden, TranscriptsEncodeToTheKeptBytes) {
  for (const Transcript& transcript : transcripts()) {
    expect_file(kFolder + transcript.file + ".hex", text_of(transcript));
  }
}

TEST(WireGolden, TranscriptsDecodeFrameByFrame) {
  for (const Transcript& transcript : transcripts()) {
    const auto blocks = parse_hex(read_file(kFolder + transcript.file + ".hex"));
    ASSERT_EQ(blocks.size(), transcript.lines.size() + 1) << transcript.file;
    for (std::size_t i = 0; i < transcript.lines.size(); ++i) {
      const auto message = wire::decode(blocks[i + 1].bytes);
      ASSERT_TRUE(message) << blocks[i + 1].comments[0] << ": " << message.error().line();
      EXPECT_EQ(*message, transcript.lines[i].message) << blocks[i + 1].comments[0];
    }
  }
}

TEST(WireGolden, FuzzerSeedsAreTheSamples) {
  for (const Sample& sample : samples()) {
    EXPECT_EQ(read_file(kCorpus + sample.file), text_of_bytes(encoded(sample.message))) << sample.file;
  }
}

TEST(HexFile, ParsesWhatItPrints) {
  const std::vector<HexBlock> blocks = {{{"title"}, {}},
                                        {{"one", "two"}, std::vector<std::byte>(70, std::byte{0xa5})}};
  const auto parsed = parse_hex(print_hex(blocks));
  ASSERT_EQ(parsed.size(), 2U);
  EXPECT_EQ(parsed[0].comments, blocks[0].comments);
  EXPECT_EQ(parsed[1].comments, blocks[1].comments);
  EXPECT_EQ(parsed[1].bytes, blocks[1].bytes);
  EXPECT_TRUE(parse_hex("# a\n0g\n").empty());
  EXPECT_TRUE(parse_hex("# a\n012\n").empty());
}

}  // namespace
}  // namespace kvferry::golden
