#pragma once

#include <string>

namespace orrery::cudnn {

/// The version of libcudnn that is loaded (91900: 9.19.0), and the name of the file. It is loaded when it is first
/// asked for and stays: libcudnn.so.9, found as the system finds libraries, which tools/gpu-libraries prepares.
struct Library {
  int version = 0;
  std::string text{};  ///< "9.19.0"
};

/// Null where it cannot be used, with the reason in `why`.
[[nodiscard]] const Library* library(std::string& why);

/// Owns a handle of the loaded library on the device in use. Throws Error.
class OwnedHandle {
 public:
  explicit OwnedHandle(void* stream);
  ~OwnedHandle();
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;
  [[nodiscard]] void* get() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace orrery::cudnn
