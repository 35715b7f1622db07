// base/config: precedence, origins, refusals, and the page that is made from the table.
#include "base/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"

namespace nezha {
namespace {

std::filesystem::path scratch_file(const std::string& text) {
  std::string path = ::testing::TempDir() + "nezha-config-XXXXXX";
  const int descriptor = mkstemp(path.data());
  EXPECT_GE(descriptor, 0);
  close(descriptor);
  std::ofstream(path) << text;
  return path;
}

Config loaded(const ConfigInputs& inputs) {
  auto config = load_config(inputs);
  EXPECT_TRUE(config.is_ok()) << config.status().to_string();
  return config ? config.value() : Config{};
}

std::string refusal(const ConfigInputs& inputs) {
  const auto config = load_config(inputs);
  EXPECT_FALSE(config.is_ok());
  EXPECT_EQ(config.status().code(), Code::invalid_argument);
  return config.status().message();
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Config, DefaultsNeedNoInput) {
  const Config config = loaded({});
  EXPECT_EQ(config.policy, "pull");
  EXPECT_EQ(config.algorithm, "auto");
  EXPECT_EQ(config.chunk_bytes, 262144u);
  EXPECT_EQ(config.streams_per_rail, 1);
  EXPECT_DOUBLE_EQ(config.timeout_s, 300);
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_EQ(config.origin(FieldIndex::chunk_bytes), "default");
}

TEST(Config, EveryDefaultIsAccepted) {
  const auto schema = parse_json(config_schema_json());
  ASSERT_TRUE(schema.is_ok()) << schema.status().to_string();
  ASSERT_EQ(schema.value().items().size(), kConfigFields);
  for (const JsonValue& field : schema.value().items()) {
    const JsonValue& initial = field.at("default");
    JsonWriter number;
    if (initial.is_number()) number.value(initial.number_or(0));
    const std::string text = initial.is_number() ? number.take()
                                                 : std::string(initial.string_or(""));
    const HiddenText line(std::string(field.at("name").string_or("")) + "=" + text);
    EXPECT_TRUE(load_config(ConfigInputs{line, {}}).is_ok()) << line;
  }
}

TEST(Config, CodeBeatsEnvironmentBeatsFile) {
  const auto file = scratch_file("# mine\nchunk_bytes = 64K\n\nspin_us=7\ntimeout_s=1.5\n");
  const HiddenText variable("NEZHA_CONF_FILE=" + file.string());
  const Config config = loaded(
      {"chunk_bytes=16K\n", {variable, "NEZHA_CHUNK_BYTES=32K", "NEZHA_SPIN_US=9", "OTHER=1"}});
  EXPECT_EQ(config.chunk_bytes, 16384u);
  EXPECT_EQ(config.origin(FieldIndex::chunk_bytes), "code");
  EXPECT_EQ(config.spin_us, 9);
  EXPECT_EQ(config.origin(FieldIndex::spin_us), "environment NEZHA_SPIN_US");
  EXPECT_DOUBLE_EQ(config.timeout_s, 1.5);
  EXPECT_EQ(config.origin(FieldIndex::timeout_s), "file " + file.string() + ":5");
  std::filesystem::remove(file);
}

TEST(Config, HomeFileIsReadWhenNoneIsNamedAndMayBeMissing) {
  const auto home = std::filesystem::path(::testing::TempDir()) / "nezha-config-home";
  std::filesystem::create_directories(home);
  const HiddenText variable("HOME=" + home.string());
  EXPECT_EQ(loaded({"", {variable}}).spin_us, 50);
  std::ofstream(home / ".nezha.conf") << "spin_us=3\n";
  EXPECT_EQ(loaded({"", {variable}}).spin_us, 3);
  std::filesystem::remove_all(home);
}

TEST(Config, NamedFileMustExist) {
  const std::string text = refusal({"", {"NEZHA_CONF_FILE=/nonexistent/nezha.conf"}});
  EXPECT_TRUE(mentions(text, "/nonexistent/nezha.conf")) << text;
}

TEST(Config, AFileThatIsNoneOrThatOthersCanWriteIsToldOf) {
  const std::string refused = refusal({"", {"NEZHA_CONF_FILE=/dev/null"}});
  EXPECT_TRUE(mentions(refused, "'/dev/null' is not a regular file")) << refused;
  const auto file = scratch_file("spin_us=7\n");
  const HiddenText variable("NEZHA_CONF_FILE=" + file.string());
  EXPECT_TRUE(loaded({"", {variable}}).warnings.empty());
  std::filesystem::permissions(file, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  const Config config = loaded({"", {variable}});
  EXPECT_EQ(config.spin_us, 7);
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_TRUE(mentions(config.warnings[0], "can be written by others")) << config.warnings[0];
  std::filesystem::remove(file);
}

TEST(Config, RailsFallBackToTheOtherLibrariesVariables) {
  EXPECT_EQ(loaded({"", {"NCCL_SOCKET_IFNAME=c"}}).rails, "c");
  EXPECT_EQ(loaded({"", {"NCCL_SOCKET_IFNAME=c", "GLOO_SOCKET_IFNAME=b"}}).rails, "b");
  const std::vector<HiddenText> three = {"NCCL_SOCKET_IFNAME=c", "GLOO_SOCKET_IFNAME=b",
                                          "NEZHA_SOCKET_IFNAME=a"};
  const Config config = loaded({"", three});
  EXPECT_EQ(config.rails, "a");
  EXPECT_EQ(config.origin(FieldIndex::rails), "environment NEZHA_SOCKET_IFNAME");
  auto four = three;
  four.push_back("NEZHA_RAILS=r");
  EXPECT_EQ(loaded({"", four}).rails, "r");
  EXPECT_TRUE(loaded({"", four}).warnings.empty());
}

TEST(Config, EmptyVariableCountsAsNotSet) {
  EXPECT_EQ(loaded({"", {"NEZHA_CHUNK_BYTES="}}).chunk_bytes, 262144u);
  EXPECT_EQ(loaded({"", {"NEZHA_RAILS=", "GLOO_SOCKET_IFNAME=b"}}).rails, "b");
}

TEST(Config, UnknownVariableWarnsWithTheNearestName) {
  const Config config = loaded({"", {"NEZHA_CHUNK_BYTE=1"}});
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_TRUE(mentions(config.warnings[0], "NEZHA_CHUNK_BYTES")) << config.warnings[0];
}

TEST(Config, VariablesOfTheToolsAreNoUnknownNames) {
  EXPECT_TRUE(loaded({"", {"NEZHA_STORE=tcp://h:1", "NEZHA_JOB=j", "NEZHA_LAB=l",
                           "NEZHA_LAB_NODE=0", "NEZHA_BENCH_PEERS=x"}})
                  .warnings.empty());
}

TEST(Config, UnknownKeyWarnsInAFileAndFailsInCode) {
  const auto file = scratch_file("polcy=table\n");
  const Config config = loaded({"", {HiddenText("NEZHA_CONF_FILE=" + file.string())}});
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_TRUE(mentions(config.warnings[0], "'policy'")) << config.warnings[0];
  const std::string text = refusal({"spin_u=1", {}});
  EXPECT_TRUE(mentions(text, "'spin_us'")) << text;
  std::filesystem::remove(file);
}

TEST(Config, BadValueNamesVariableValueAndWhatIsAccepted) {
  const std::string text = refusal({"", {"NEZHA_STREAMS_PER_RAIL=17"}});
  for (const char* part : {"NEZHA_STREAMS_PER_RAIL", "'17'", "from 1 to 16"}) {
    EXPECT_TRUE(mentions(text, part)) << text;
  }
}

TEST(Config, RefusesWhatItCannotUse) {
  for (const char* line :
       {"chunk_bytes=", "chunk_bytes=4095", "chunk_bytes=16385K", "chunk_bytes=-1",
        "chunk_bytes=64KB", "chunk_bytes=0x1000", "chunk_bytes=99999999999999999999",
        "chunk_bytes=17179869184G", "chunk_bytes=K", "streams_per_rail=0", "streams_per_rail=1.5",
        "timeout_s=0", "timeout_s=nan", "timeout_s=inf", "timeout_s=-1", "timeout_s=5s",
        "linger_s=-0.1", "algorithm=rings", "weights=2:", "weights=-1:2", "weights=0:0",
        "weights=a", "weights=1e308:1e308", "weights=1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1",
        "bind_ports=0-5", "bind_ports=40000", "bind_ports=5-4", "bind_ports=65536", "bind_ports=1-",
        "log_level=loud", "just text", "=1"}) {
    refusal({line, {}});
  }
  refusal({HiddenText("rails=a\0b", 9), {}});
}

TEST(Config, AggregationIsNoAlgorithm) {
  const std::string text = refusal({"algorithm=aggregation", {}});
  EXPECT_TRUE(mentions(text, "aggregator=") && mentions(text, "halving_doubling")) << text;
}

TEST(Config, SaysThatWeightsChangeNothing) {
  EXPECT_TRUE(loaded({"weights=2:1\npolicy=static", {}}).warnings.empty());
  const Config config = loaded({"weights=2:1", {}});
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_TRUE(mentions(config.warnings[0], "weights=2:1") && mentions(config.warnings[0], "pull"));
}

TEST(Config, AcceptsTheForms) {
  const Config config = loaded(
      {"chunk_bytes = 1M\ncredit_bytes=1G\n# remark\nweights=2:1\nbind_ports=40000-40100\r\n"
       "rails= a, b \nalgorithm=ring\nlog_level=trace\nlinger_s=0\nconnect_timeout_s=1e2",
       {}});
  EXPECT_EQ(config.chunk_bytes, 1u << 20);
  EXPECT_EQ(config.credit_bytes, 1u << 30);
  EXPECT_EQ(parse_weights(config.weights).value(), (std::vector<double>{2, 1}));
  EXPECT_EQ(parse_port_range(config.bind_ports).value().low, 40000);
  EXPECT_EQ(parse_port_range(config.bind_ports).value().high, 40100);
  EXPECT_EQ(config.rails, "a, b");
  EXPECT_DOUBLE_EQ(config.connect_timeout_s, 100);
}

TEST(Config, CreditsMustHoldAChunk) {
  const std::string text = refusal({"chunk_bytes=1M\ncredit_bytes=512K", {}});
  EXPECT_TRUE(mentions(text, "credit_bytes") && mentions(text, "chunk_bytes")) << text;
}

TEST(Config, SecretsAreNeverPrinted) {
  const Config config = loaded({"secret=hunter2\n", {}});
  EXPECT_EQ(config.secret, "hunter2");
  EXPECT_FALSE(mentions(config.to_json(), "hunter2"));
  EXPECT_TRUE(mentions(config.to_json(), "(set)"));
  const std::string text = refusal({HiddenText("secret=hunter2\0", 15), {}});
  EXPECT_FALSE(mentions(text, "hunter2")) << text;
}

TEST(Config, JsonHasEveryFieldWithItsOrigin) {
  const auto json = parse_json(loaded({"rails=\"e\\th0\"", {"NEZHA_SPIN_US=5"}}).to_json());
  ASSERT_TRUE(json.is_ok()) << json.status().to_string();
  EXPECT_EQ(json.value().fields().size(), kConfigFields);
  EXPECT_EQ(json.value().at("spin_us").at("value").integer_or(0), 5);
  EXPECT_EQ(json.value().at("spin_us").at("origin").string_or(""), "environment NEZHA_SPIN_US");
  EXPECT_EQ(json.value().at("rails").at("value").string_or(""), "\"e\\th0\"");
}

TEST(Config, FingerprintHasExactlyTheAgreedFields) {
  EXPECT_EQ(loaded({}).agreed_fingerprint_text(),
            "streams_per_rail=1 shm=auto policy=pull message_policy=pull algorithm=auto "
            "chunk_bytes=262144 credit_bytes=8388608 connect=auto quorum=majority hierarchy=auto "
            "checksum=off tls=off integrity=off aggregator= aggregator_share=auto deterministic=off");
  EXPECT_NE(loaded({"policy=table", {}}).agreed_fingerprint_text(),
            loaded({}).agreed_fingerprint_text());
  EXPECT_EQ(loaded({"spin_us=9", {}}).agreed_fingerprint_text(),
            loaded({}).agreed_fingerprint_text());
}

}  // namespace
}  // namespace nezha
