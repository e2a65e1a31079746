<?php

declare(strict_types=1);

namespace Headrace\Interop;

use Grpc\Health\V1\HealthCheckRequest;
use Grpc\Health\V1\HealthCheckResponse;
use Headrace\Call;
use Headrace\Channel;
use Headrace\HeadraceException;
use Headrace\V1;
use InvalidArgumentException;

/** One call of a scenario, and what was seen of it. */
final class SeenCall
{
    private const METHODS = [
        'Generate' => ['headrace.v1.InferenceService/Generate', V1\GenerateRequest::class, V1\GenerateResponse::class],
        'Tokenize' => ['headrace.v1.InferenceService/Tokenize', V1\TokenizeRequest::class, V1\TokenizeResponse::class],
        'Detokenize' => [
            'headrace.v1.InferenceService/Detokenize', V1\DetokenizeRequest::class, V1\DetokenizeResponse::class,
        ],
        'GetModel' => ['headrace.v1.ModelService/GetModel', V1\GetModelRequest::class, V1\GetModelResponse::class],
        'ListModels' => [
            'headrace.v1.ModelService/ListModels', V1\ListModelsRequest::class, V1\ListModelsResponse::class,
        ],
        'HealthCheck' => ['grpc.health.v1.Health/Check', HealthCheckRequest::class, HealthCheckResponse::class],
        'HealthWatch' => ['grpc.health.v1.Health/Watch', HealthCheckRequest::class, HealthCheckResponse::class],
    ];

    private readonly Call $call;
    private readonly string $responseClass;
    private readonly string $cancel;
    private readonly int $pauseMicroseconds;
    private readonly float $start;
    /** @var list<mixed> */
    private array $responses = [];
    private ?float $seconds = null;

    public function __construct(Channel $channel, object $scenario, object $fields, ?string $apiKey)
    {
        [$path, $requestClass, $this->responseClass] = self::METHODS[$scenario->method]
            ?? throw new InvalidArgumentException("there is no method $scenario->method");
        if (property_exists($scenario, 'api_key')) {
            throw new InvalidArgumentException(
                'A call that is refused by its headers may be made twice, as curl can lose its status.',
            );
        }
        $this->cancel = $scenario->cancel ?? '';
        $this->pauseMicroseconds = 1000 * ($scenario->read_pause_ms ?? 0);
        $this->start = microtime(true);
        $request = new $requestClass();
        $request->mergeFromJsonString(json_encode($fields, JSON_THROW_ON_ERROR));
        $metadata = (array) ($scenario->metadata ?? []);
        $this->call = $channel->call(
            $path,
            $request->serializeToString(),
            $metadata + ($apiKey === null ? [] : ['authorization' => "Bearer $apiKey"]),
            isset($scenario->timeout_ms) ? $scenario->timeout_ms / 1000 : null,
            isset($scenario->compression),
        );
    }

    /**
     * Reads the calls together to their ends, and tells what was seen of each.
     *
     * @param list<self> $calls
     * @return list<array<string, mixed>>
     */
    public static function finish(Channel $channel, array $calls): array
    {
        $open = $calls;
        while ($open !== []) {
            $hasRead = false;
            foreach ($open as $call) {
                $hasRead = $call->advance() || $hasRead;
            }
            $open = array_filter($open, fn (self $call) => $call->seconds === null);
            if (!$hasRead && $open !== []) {
                $channel->wait();
            }
        }

        return array_map(fn (self $call) => $call->told(), $calls);
    }

    /** Reads what is there, one message at most, and tells whether there was something. */
    private function advance(): bool
    {
        if ($this->cancel === 'after_headers') {
            $this->call->headers();
            $this->call->cancel();
        }
        if (!$this->call->isReady()) {
            return false;
        }
        $bytes = $this->call->read();
        if ($bytes === null) {
            $this->seconds = microtime(true) - $this->start;

            return true;
        }
        $response = new $this->responseClass();
        $response->mergeFromString($bytes);
        $this->responses[] = json_decode($response->serializeToJsonString());
        if ($this->cancel === 'after_first_message') {
            $this->call->cancel();
        }
        usleep($this->pauseMicroseconds);

        return true;
    }

    /** @return array<string, mixed> */
    private function told(): array
    {
        $status = $this->call->status();
        $error = new HeadraceException($status);

        return [
            'code' => $status->code,
            'message' => $status->message,
            'reason' => $error->reason,
            'field' => $error->field,
            'retry_delay_ms' => $error->retryDelay === null ? null : (int) round($error->retryDelay * 1000),
            'headers' => self::texts($this->call->headers()),
            'trailers' => self::texts($status->trailers),
            'responses' => $this->responses,
            'elapsed_ms' => $this->seconds * 1000,
        ];
    }

    /** @param array<string, string> $metadata */
    private static function texts(array $metadata): object
    {
        $isText = fn (string $name) => !str_ends_with($name, '-bin');

        return (object) array_filter($metadata, $isText, ARRAY_FILTER_USE_KEY);
    }
}
