// The flags that say which model, and which part of it, a command works on.
#include "cli/model_flags.h"

#include "base/error.h"
#include "checkpoint/model_part.h"

namespace kimi_k3 {

Flag AddModelFlags(FlagGroup& group, EngineOptions& engine, const std::string& shard_help) {
  Flag model = group.Values(
      "-m,--model", "DIR",
      "The checkpoint's folder, as downloaded; repeated where its files lie in several",
      [&engine](const std::vector<std::string>& folders) {
        for (const std::string& folder : folders) {
          if (folder.empty()) Fail(ErrorKind::kUsage, "-m,--model: the folder's name is empty");
        }
        engine.model_dir = folders.front();
        engine.more_model_dirs.assign(folders.begin() + 1, folders.end());
      });
  group.Value("--shard", "PART", shard_help, [&engine](const std::string& text) {
    ParseModelPart(text);
    engine.shard = text;
  });
  return model;
}

Flag AddOverlayFlag(FlagGroup& group, EngineOptions& engine) {
  return group.Value("--overlay", "DIR",
                     "Use the matrices of this overlay in place of the model's own (kimi_k3 "
                     "quantize makes one)",
                     [&engine](const std::string& text) {
                       if (text.empty()) {
                         Fail(ErrorKind::kUsage, "--overlay: the folder's name is empty");
                       }
                       engine.overlay_dir = text;
                     });
}

Flag AddFolders(FlagGroup& group, std::vector<std::filesystem::path>& folders) {
  return group
      .Values("-m,--model,DIR", "DIR",
              "The checkpoint's folder; -m repeated where its files lie in several",
              [&folders](const std::vector<std::string>& names) {
                for (const std::string& name : names) {
                  if (name.empty()) Fail(ErrorKind::kUsage, "DIR: the folder's name is empty");
                }
                folders.assign(names.begin(), names.end());
              })
      .Required();
}

std::vector<std::filesystem::path> ModelFolders(const EngineOptions& engine) {
  std::vector<std::filesystem::path> folders = engine.more_model_dirs;
  folders.push_back(engine.model_dir);
  return folders;
}

}  // namespace kimi_k3
