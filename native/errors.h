// SPDX-License-Identifier: Apache-2.0
//
// errors.h: how does a failure become a JavaScript Error?
// Every error carries code, errno, syscall, object and log, as NativeError in
// src/ebpf/native.ts says. They are thrown as C++ exceptions, so a second one can never
// be raised while the first is pending (that ends the process).
#pragma once

#include <napi.h>

#include <string>

namespace waggle {

// Collects libbpf's warnings (the verifier's log among them) that this thread causes
// while the object lives. The innermost of nested ones gets the text.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // What was printed so far; of a very long log its end, where the verifier says why.
  const std::string& text() const { return text_; }
  void Append(const char* text, size_t length) noexcept;

 private:
  std::string text_;
  LogCapture* outer_;
};

// Sends libbpf's messages to the innermost LogCapture instead of stderr.
void RouteLibbpfMessages();

// `error` is a positive errno, libbpf's own numbers (4000 and up) included.
Napi::Error SystemError(Napi::Env env, int error, const char* syscall, const std::string& object,
                        const std::string& log = std::string());

// The argument itself was at fault: errno 0, nothing was changed.
Napi::Error WrongType(Napi::Env env, const char* function, const std::string& message);
Napi::Error OutOfRange(Napi::Env env, const char* function, const std::string& message);
Napi::Error Closed(Napi::Env env, const char* function, const std::string& object);

}  // namespace waggle
