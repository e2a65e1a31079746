package headrace.interop;

import com.google.protobuf.Message;
import headrace.v1.InferenceServiceGrpc;
import headrace.v1.ModelServiceGrpc;
import io.grpc.MethodDescriptor;
import io.grpc.health.v1.HealthGrpc;
import java.util.Map;

/** A method that a scenario can name, with an empty request of it. */
record Method(MethodDescriptor<Message, Message> descriptor, Message emptyRequest) {
  private static final Map<String, MethodDescriptor<?, ?>> METHODS =
      Map.of(
          "Generate", InferenceServiceGrpc.getGenerateMethod(),
          "Tokenize", InferenceServiceGrpc.getTokenizeMethod(),
          "Detokenize", InferenceServiceGrpc.getDetokenizeMethod(),
          "GetModel", ModelServiceGrpc.getGetModelMethod(),
          "ListModels", ModelServiceGrpc.getListModelsMethod(),
          "HealthCheck", HealthGrpc.getCheckMethod(),
          "HealthWatch", HealthGrpc.getWatchMethod());

  static Method of(String name) {
    MethodDescriptor<?, ?> descriptor = METHODS.get(name);
    if (descriptor == null) {
      throw new IllegalArgumentException("there is no method " + name);
    }
    return of(descriptor);
  }

  // The generated marshallers are of messages, which the types of the table do not say.
  @SuppressWarnings("unchecked")
  private static Method of(MethodDescriptor<?, ?> descriptor) {
    MethodDescriptor<Message, Message> method = (MethodDescriptor<Message, Message>) descriptor;
    MethodDescriptor.PrototypeMarshaller<Message> requests =
        (MethodDescriptor.PrototypeMarshaller<Message>) method.getRequestMarshaller();
    return new Method(method, requests.getMessagePrototype());
  }
}
