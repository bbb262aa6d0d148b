// Walks a weight stream as a model does, and what such a walk must have seen.
#include "residency/stream_test_support.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "base/bf16.h"

namespace kimi_k3 {
namespace {

std::vector<std::byte> FileBytes(const Checkpoint& checkpoint, const ByteRange& range) {
  std::vector<std::byte> bytes(range.bytes);
  std::ifstream file(checkpoint.shards()[range.shard].path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(range.offset));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read the shard");
  return bytes;
}

void Append(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void Append(std::vector<std::byte>& to, const kernels::WeightView& view) {
  const size_t bytes = view.rows * kernels::RowBytes(view.type, view.columns);
  to.insert(to.end(), view.data, view.data + bytes);
  if (view.scales == nullptr) return;
  const auto* scales = reinterpret_cast<const std::byte*>(view.scales);
  to.insert(to.end(), scales, scales + view.rows * view.columns / kernels::kMxfp4GroupColumns);
}

std::string NameOf(Role role, size_t layer) {
  return std::string(RoleName(role)) + " " + std::to_string(layer);
}

std::string NameOfExpert(size_t layer, int32_t expert) {
  return "expert " + std::to_string(layer) + "." + std::to_string(expert);
}

// Calls one of the three for every step of the walk.
void Walk(const Checkpoint& checkpoint, bool with_head,
          const std::function<void(Role, size_t)>& matrix,
          const std::function<void(size_t)>& request, const std::function<void(size_t)>& experts) {
  for (size_t layer = 0; layer < checkpoint.config().layers; ++layer) {
    bool experts_done = false;
    for (const TensorSpec& spec : TensorSpecs(checkpoint.config(), layer)) {
      if (spec.kind == TensorKind::kMatrix) matrix(spec.role, layer);
      if (spec.role == Role::kRouter) request(layer);
      if (spec.kind == TensorKind::kExpert && !experts_done) {
        experts(layer);
        experts_done = true;
      }
    }
  }
  if (with_head) matrix(Role::kHead, 0);
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "k3_residency_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path GoldenCheckpoint(const std::string& name) {
  return std::filesystem::path(KIMI_K3_SOURCE_DIR) / "tests/data/golden" / name / "checkpoint";
}

std::filesystem::path CopyOfGolden(const std::string& name, const ScratchFolder& scratch) {
  std::filesystem::copy(GoldenCheckpoint(name), scratch.path() / name);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / name)) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  return scratch.path() / name;
}

std::string TestName(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

ExpertChoice SomeExperts(const Checkpoint& checkpoint, size_t pass) {
  const size_t count = checkpoint.config().moe.experts;
  return [count, pass](size_t layer) {
    std::vector<int32_t> experts;
    for (size_t e = 0; e < count; ++e) {
      if ((e * 7 + layer * 3 + pass * 5) % 5 < 2) experts.push_back(static_cast<int32_t>(e));
    }
    return experts;
  };
}

ExpertChoice AllExperts(const Checkpoint& checkpoint) {
  const size_t count = checkpoint.config().moe.experts;
  return [count](size_t) {
    std::vector<int32_t> experts(count);
    for (size_t e = 0; e < count; ++e) experts[e] = static_cast<int32_t>(e);
    return experts;
  };
}

std::vector<Visit> RunPass(WeightStream& stream, const Checkpoint& checkpoint, bool with_head,
                           const ExpertChoice& choice, ExpertOrder order) {
  std::vector<Visit> visits;
  stream.BeginPass(with_head);
  Walk(
      checkpoint, with_head,
      [&](Role role, size_t layer) {
        Visit visit = {NameOf(role, layer), {}};
        size_t row = 0;
        stream.ForEachTile({role, layer}, [&](const Tile& tile) {
          if (tile.first_row != row) throw std::runtime_error("tiles out of order");
          row += tile.weights.rows;
          Append(visit.bytes, tile.weights);
        });
        visits.push_back(std::move(visit));
      },
      [&](size_t layer) { stream.RequestExperts(layer, choice(layer)); },
      [&](size_t layer) {
        std::vector<std::pair<int32_t, Visit>> seen;
        stream.ForEachExpert(layer, order, [&](int32_t expert, const ExpertWeights& weights) {
          Visit visit = {NameOfExpert(layer, expert), {}};
          Append(visit.bytes, weights.gate);
          Append(visit.bytes, weights.up);
          Append(visit.bytes, weights.down);
          seen.emplace_back(expert, std::move(visit));
        });
        const auto by_expert = [](const auto& a, const auto& b) { return a.first < b.first; };
        if (order == ExpertOrder::kAscending &&
            !std::is_sorted(seen.begin(), seen.end(), by_expert)) {
          throw std::runtime_error("experts not in ascending order");
        }
        std::sort(seen.begin(), seen.end(), by_expert);
        for (auto& [expert, visit] : seen) visits.push_back(std::move(visit));
      });
  return visits;
}

std::vector<Visit> ExpectedPass(const Checkpoint& checkpoint, bool with_head,
                                const ExpertChoice& choice) {
  std::vector<Visit> visits;
  Walk(
      checkpoint, with_head,
      [&](Role role, size_t layer) {
        visits.push_back(
            {NameOf(role, layer), FileBytes(checkpoint, checkpoint.Get(role, layer).range)});
      },
      [](size_t) {},
      [&](size_t layer) {
        for (const int32_t expert : choice(layer)) {
          Visit visit = {NameOfExpert(layer, expert), {}};
          const ExpertLocation location = checkpoint.Expert(layer, static_cast<size_t>(expert));
          for (const ExpertMatrixLocation* m : {&location.gate, &location.up, &location.down}) {
            Append(visit.bytes, FileBytes(checkpoint, m->weights));
            if (m->scales.bytes > 0) Append(visit.bytes, FileBytes(checkpoint, m->scales));
          }
          visits.push_back(std::move(visit));
        }
      });
  return visits;
}

std::vector<float> ExpectedEmbeddingRow(const Checkpoint& checkpoint, size_t token) {
  const TensorLocation table = checkpoint.Get(Role::kEmbedding);
  const uint64_t row_bytes = table.columns * DtypeBytes(table.dtype);
  const auto bytes =
      FileBytes(checkpoint, {table.range.shard, table.range.offset + token * row_bytes, row_bytes});
  std::vector<float> row(table.columns);
  for (size_t i = 0; i < row.size(); ++i) {
    uint16_t bits = 0;
    if (table.dtype == Dtype::kF32) {
      std::memcpy(&row[i], bytes.data() + i * sizeof(float), sizeof(float));
    } else {
      std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
      row[i] = Bf16ToFloat(bits);
    }
  }
  return row;
}

std::string Difference(const std::vector<Visit>& got, const std::vector<Visit>& want) {
  for (size_t i = 0; i < std::max(got.size(), want.size()); ++i) {
    if (i >= got.size()) return "missing: " + want[i].what;
    if (i >= want.size()) return "surplus: " + got[i].what;
    if (got[i].what != want[i].what) return got[i].what + " in the place of " + want[i].what;
    if (got[i].bytes != want[i].bytes) return "other bytes in " + got[i].what;
  }
  return "";
}

}  // namespace kimi_k3
