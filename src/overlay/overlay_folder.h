// The folder of an overlay that is being made: whose it is, and what is in it already.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/overlay_record.h"
#include "fetch/folder_lock.h"
#include "overlay/overlay_plan.h"

namespace kimi_k3 {

// Holds the folder for this program while it lives. The record on disk is always true: a file is
// entered once it is there, whole.
class OverlayFolder {
 public:
  // Makes the folder or takes up what an earlier run left, and clears away what was half-written.
  // wanted: the record of the overlay to be made, without files. Throws Error as WriteOverlay says.
  OverlayFolder(std::filesystem::path folder, OverlayRecord wanted);

  const std::filesystem::path& path() const { return folder_; }
  const OverlayRecord& record() const { return record_; }

  // The entry of a file that is there, in full length.
  const OverlayFile* Find(const OverlayUnit& unit) const;
  // Throws Error(kUsage) where the matrices of a file that is entered, there or not, were made from
  // another checkpoint. Reads a piece of each in the checkpoint.
  void CheckMadeFrom(const Checkpoint& checkpoint, const OverlayUnit& unit) const;
  // Throws Error(kIo) where the disk has less room than `needed_bytes`.
  void CheckSpace(uint64_t needed_bytes) const;

  void Begin();                // not complete from here on
  void Add(OverlayFile file);  // which is on disk
  void Complete();

 private:
  // Takes away what was made only to look at the folder, unless something came of it.
  class Traces {
   public:
    ~Traces();
    std::filesystem::path folder;
    bool made_folder = false;
    bool made_lock = false;
    bool wanted = false;
  };

  void Take();
  const OverlayFile* Entry(const OverlayUnit& unit) const;
  void CheckNothingElseIsThere() const;
  void RemoveHalfWritten() const;

  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;
  Traces traces_;  // while the lock is held
  OverlayRecord record_;
};

}  // namespace kimi_k3
