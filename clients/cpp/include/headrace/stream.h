// One answer as it is made.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "headrace/v1/inference_service.pb.h"

namespace headrace {

class Client;

// Metadata by lower-case keys.
using Metadata = std::multimap<std::string, std::string>;

// Cancels a call from any thread, also before it begins and after it has ended.
class Canceller {
 public:
  explicit Canceller(std::shared_ptr<grpc::ClientContext> context) : context_(std::move(context)) {}
  void cancel() const { context_->TryCancel(); }

 private:
  std::shared_ptr<grpc::ClientContext> context_;
};

// One answer as it is made, read by one thread:
//
//     for (const headrace::v1::GenerateResponse& response : stream) { … }
//
// Leaving it before its end cancels the call, so that the server stops at once; that waits for
// gRPC on this side, not for the server. One that was moved from can only be assigned or destroyed.
class Stream {
 public:
  class Iterator;
  struct End {};

  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Waits for the next response; nothing at the end of a complete answer. Throws Error, and the
  // same one if called again.
  std::optional<v1::GenerateResponse> next();

  // The responses that are still to come. Throws Error when one is waited for.
  Iterator begin();
  End end() { return {}; }

  // A handle that other threads can keep.
  Canceller canceller() const;

  // Waits until the server has taken the request, and returns the headers of the answer:
  // x-request-id names the request in the server's log. Empty where the server refused it.
  Metadata headers();
  // The trailers, once the answer is read to its end or has failed.
  Metadata trailers() const;

 private:
  friend class Client;
  struct Call;

  Stream(const std::shared_ptr<grpc::Channel>& channel,
         std::shared_ptr<grpc::ClientContext> context, v1::GenerateRequest request);
  void begin_call();

  std::unique_ptr<Call> call_;
};

// Reads a stream for a range-based loop.
class Stream::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = v1::GenerateResponse;
  using difference_type = std::ptrdiff_t;
  using pointer = const value_type*;
  using reference = const value_type&;

  explicit Iterator(Stream* stream) : stream_(stream), response_(stream->next()) {}
  reference operator*() const { return *response_; }
  pointer operator->() const { return &*response_; }
  Iterator& operator++() {
    response_ = stream_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(End) const { return !response_; }
  bool operator!=(End) const { return response_.has_value(); }

 private:
  Stream* stream_;
  std::optional<v1::GenerateResponse> response_;
};

inline Stream::Iterator Stream::begin() { return Iterator(this); }

}  // namespace headrace
