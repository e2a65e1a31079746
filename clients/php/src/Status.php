<?php

declare(strict_types=1);

namespace Headrace;

/** How a call ended. */
final class Status
{
    /** The names of gRPC's codes, by their numbers. */
    private const NAMES = [
        'OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS',
        'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED',
        'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED',
    ];

    /** What gRPC makes of a response of HTTP that is none of its own. */
    private const NAMES_OF_HTTP = [
        400 => 'INTERNAL', 401 => 'UNAUTHENTICATED', 403 => 'PERMISSION_DENIED', 404 => 'UNIMPLEMENTED',
        429 => 'UNAVAILABLE', 502 => 'UNAVAILABLE', 503 => 'UNAVAILABLE', 504 => 'UNAVAILABLE',
    ];

    /** What gRPC makes of the reasons for which an HTTP/2 stream is reset. */
    private const NAMES_OF_RESET = [
        7 => 'UNAVAILABLE', 8 => 'CANCELLED', 11 => 'RESOURCE_EXHAUSTED', 12 => 'PERMISSION_DENIED',
    ];

    /** @param array<string, string> $trailers the trailing metadata, those named -bin decoded */
    public function __construct(
        public readonly string $code,
        public readonly string $message,
        public readonly array $trailers = [],
    ) {
    }

    /** @param array<string, string> $trailers with `grpc-status` */
    public static function ofTrailers(array $trailers): self
    {
        $code = self::NAMES[(int) $trailers['grpc-status']] ?? 'UNKNOWN';
        $message = rawurldecode($trailers['grpc-message'] ?? '');
        unset($trailers['grpc-status'], $trailers['grpc-message']);

        return new self($code, $message, $trailers);
    }

    public static function ofHttp(int $code): self
    {
        return new self(self::NAMES_OF_HTTP[$code] ?? 'UNKNOWN', "The server answered with HTTP status $code.");
    }

    /** Tells what an error of curl is to gRPC. */
    public static function ofCurl(int $error, string $text): self
    {
        if ($error === CURLE_OPERATION_TIMEDOUT) {
            return new self('DEADLINE_EXCEEDED', 'The call took longer than its timeout.');
        }
        $code = 'UNAVAILABLE';
        if (preg_match('/stream \d+ was (?:not closed cleanly|reset).*err (\d+)/', $text, $found) === 1) {
            $code = self::NAMES_OF_RESET[(int) $found[1]] ?? 'INTERNAL';
        }

        return new self($code, $text);
    }
}
