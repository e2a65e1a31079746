#include "headrace/stream.h"

#include <utility>

#include "headrace/error.h"
#include "headrace/v1/inference_service.grpc.pb.h"

namespace headrace {
namespace {

Metadata copy(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  Metadata copied;
  for (const auto& [key, value] : metadata) {
    copied.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  return copied;
}

}  // namespace

// The members are destroyed from the last to the first: the reader before its context.
struct Stream::Call {
  std::unique_ptr<v1::InferenceService::Stub> stub;
  std::shared_ptr<grpc::ClientContext> context;
  v1::GenerateRequest request;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  bool has_headers = false;            // gRPC must be asked for them once, or read before
  std::optional<grpc::Status> status;  // once the call has ended

  ~Call() {
    if (!reader || status) return;
    context->TryCancel();
    reader->Finish();  // gRPC asks for it, whatever it says
  }
};

Stream::Stream(const std::shared_ptr<grpc::Channel>& channel,
               std::shared_ptr<grpc::ClientContext> context, v1::GenerateRequest request)
    : call_(new Call{v1::InferenceService::NewStub(channel), std::move(context),
                     std::move(request), nullptr, false, {}}) {}

Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

std::optional<v1::GenerateResponse> Stream::next() {
  begin_call();
  if (!call_->status) {
    call_->has_headers = true;
    v1::GenerateResponse response;
    if (call_->reader->Read(&response)) return response;
    call_->status = call_->reader->Finish();
  }
  if (!call_->status->ok()) throw Error(*call_->status);
  return std::nullopt;
}

Canceller Stream::canceller() const { return Canceller(call_->context); }

Metadata Stream::headers() {
  begin_call();
  if (!call_->has_headers) call_->reader->WaitForInitialMetadata();
  call_->has_headers = true;
  return copy(call_->context->GetServerInitialMetadata());
}

Metadata Stream::trailers() const {
  return call_->status ? copy(call_->context->GetServerTrailingMetadata()) : Metadata();
}

void Stream::begin_call() {
  if (!call_->reader) call_->reader = call_->stub->Generate(call_->context.get(), call_->request);
}

}  // namespace headrace
