#include "methods.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.pb.h"
#include "headrace/v1/model_service.pb.h"
#include "json.h"

namespace headrace::interop {
namespace {

using google::protobuf::Message;

struct Method {
  const char* path;
  const Message& request;
  const Message& response;
};

const std::map<std::string, Method>& methods() {
  using grpc::health::v1::HealthCheckRequest, grpc::health::v1::HealthCheckResponse;
  static const std::map<std::string, Method> all = {
      {"Tokenize",
       {"/headrace.v1.InferenceService/Tokenize", v1::TokenizeRequest::default_instance(),
        v1::TokenizeResponse::default_instance()}},
      {"Detokenize",
       {"/headrace.v1.InferenceService/Detokenize", v1::DetokenizeRequest::default_instance(),
        v1::DetokenizeResponse::default_instance()}},
      {"GetModel",
       {"/headrace.v1.ModelService/GetModel", v1::GetModelRequest::default_instance(),
        v1::GetModelResponse::default_instance()}},
      {"ListModels",
       {"/headrace.v1.ModelService/ListModels", v1::ListModelsRequest::default_instance(),
        v1::ListModelsResponse::default_instance()}},
      {"HealthCheck",
       {"/grpc.health.v1.Health/Check", HealthCheckRequest::default_instance(),
        HealthCheckResponse::default_instance()}},
      {"HealthWatch",
       {"/grpc.health.v1.Health/Watch", HealthCheckRequest::default_instance(),
        HealthCheckResponse::default_instance()}},
  };
  return all;
}

class Generation : public Running {
 public:
  explicit Generation(Stream stream) : stream_(std::move(stream)) {}
  Metadata headers() override { return stream_.headers(); }
  Metadata trailers() const override { return stream_.trailers(); }
  void cancel() override { stream_.canceller().cancel(); }
  std::unique_ptr<Message> next() override {
    auto response = stream_.next();
    return response ? std::make_unique<v1::GenerateResponse>(*std::move(response)) : nullptr;
  }

 private:
  Stream stream_;
};

// Calls any method as if it streamed, which is the same on the wire, so that it can be cancelled
// anywhere. One step is made at a time and waited for.
class GenericCall : public Running {
 public:
  GenericCall(const std::shared_ptr<grpc::Channel>& channel, const Method& method,
              const Message& request, const PrepareCall& prepare)
      : response_(method.response) {
    prepare(context_);
    call_ = grpc::GenericStub(channel).PrepareCall(&context_, method.path, &queue_);
    call_->StartCall(this);
    wait();
    grpc::Slice slice(request.SerializeAsString());
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), {}, this);
    wait();
  }

  ~GenericCall() override {
    if (!has_ended_) {
      cancel();
      end();
    }
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Metadata headers() override {
    call_->ReadInitialMetadata(this);
    wait();
    return copy(context_.GetServerInitialMetadata());
  }

  Metadata trailers() const override { return copy(context_.GetServerTrailingMetadata()); }
  void cancel() override { context_.TryCancel(); }

  std::unique_ptr<Message> next() override {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, this);
    if (!wait()) {
      const grpc::Status status = end();
      if (!status.ok()) throw Error(status);
      return nullptr;
    }
    std::unique_ptr<Message> response(response_.New());
    if (!response->ParseFromString(text_of_buffer(buffer))) {
      throw Error({grpc::StatusCode::INTERNAL, "The response cannot be read."});
    }
    return response;
  }

 private:
  // Waits for the step that has been asked for, and says whether it was made.
  bool wait() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::Status end() {
    grpc::Status status;
    call_->Finish(&status, this);
    wait();
    has_ended_ = true;
    return status;
  }

  static std::string text_of_buffer(const grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    std::string text;
    if (!buffer.Dump(&slices).ok()) return text;
    for (const grpc::Slice& slice : slices) {
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return text;
  }

  static Metadata copy(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
    Metadata copied;
    for (const auto& [key, value] : metadata) {
      copied.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
    }
    return copied;
  }

  const Message& response_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<Running> begin(const Client& client, const std::string& method,
                               const std::string& request_json, const PrepareCall& prepare) {
  if (method == "Generate") {
    v1::GenerateRequest request;
    from_json(request_json, &request);
    return std::make_unique<Generation>(client.stream(std::move(request), prepare));
  }
  const auto found = methods().find(method);
  if (found == methods().end()) throw std::invalid_argument("there is no method " + method);
  const std::unique_ptr<Message> request(found->second.request.New());
  from_json(request_json, request.get());
  return std::make_unique<GenericCall>(client.channel(), found->second, *request, prepare);
}

}  // namespace headrace::interop
