<?php

declare(strict_types=1);

namespace Headrace;

use Google\Rpc\BadRequest;
use Google\Rpc\ErrorInfo;
use Google\Rpc\RetryInfo;
use RuntimeException;

/** A call that failed. The message says in one sentence what happened. */
final class HeadraceException extends RuntimeException
{
    /** The server's reason, such as OVERLOADED; null where something else failed. */
    public readonly ?string $reason;
    /** The field at fault, such as sampling.temperature; null where there is none. */
    public readonly ?string $field;
    /** The seconds to wait before another try, as the server wishes; null where it does not say. */
    public readonly ?float $retryDelay;
    /** The id of the request in the server's log; null where it did not say. */
    public readonly ?string $requestId;

    public function __construct(public readonly Status $status)
    {
        parent::__construct($status->message === '' ? $status->code : $status->message);
        $details = self::details($status);
        $delay = self::find($details, RetryInfo::class)?->getRetryDelay();
        $violations = self::find($details, BadRequest::class)?->getFieldViolations();
        $this->reason = self::find($details, ErrorInfo::class)?->getReason();
        $this->field = $violations === null || count($violations) === 0 ? null : $violations[0]->getField();
        $this->retryDelay = $delay === null ? null : $delay->getSeconds() + $delay->getNanos() / 1e9;
        $this->requestId = $status->trailers['x-request-id'] ?? null;
    }

    /** @return iterable<\Google\Protobuf\Any> */
    private static function details(Status $status): iterable
    {
        try {
            $details = new \Google\Rpc\Status();
            $details->mergeFromString($status->trailers['grpc-status-details-bin'] ?? '');

            return $details->getDetails();
        } catch (\Exception) { // not google.rpc.Status: a proxy may put anything there
            return [];
        }
    }

    /**
     * @template T of \Google\Protobuf\Internal\Message
     * @param iterable<\Google\Protobuf\Any> $details
     * @param class-string<T> $class
     * @return ?T
     */
    private static function find(iterable $details, string $class): ?object
    {
        $found = new $class(); // makes its name known
        foreach ($details as $detail) {
            $name = substr(strrchr($detail->getTypeUrl(), '/') ?: '/', 1);
            if ($name === strtr($class, ['Google\\Rpc\\' => 'google.rpc.'])) {
                try {
                    $found->mergeFromString($detail->getValue());

                    return $found;
                } catch (\Exception) {
                    return null;
                }
            }
        }

        return null;
    }
}
