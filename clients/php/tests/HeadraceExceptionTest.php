<?php

declare(strict_types=1);

use Google\Protobuf\Any;
use Google\Protobuf\Duration;
use Google\Rpc\BadRequest;
use Google\Rpc\BadRequest\FieldViolation;
use Google\Rpc\ErrorInfo;
use Google\Rpc\RetryInfo;
use Headrace\CommandLine;
use Headrace\HeadraceException;
use Headrace\Status;
use PHPUnit\Framework\TestCase;

final class HeadraceExceptionTest extends TestCase
{
    public function testTellsReasonAndDelay(): void
    {
        $delay = new Duration(['seconds' => 1, 'nanos' => 500_000_000]);
        $error = self::error(
            self::packed('ErrorInfo', new ErrorInfo(['reason' => 'OVERLOADED', 'domain' => 'headrace'])),
            self::packed('RetryInfo', new RetryInfo(['retry_delay' => $delay])),
        );
        self::assertSame(
            ['Later.', 'RESOURCE_EXHAUSTED', 'OVERLOADED', null, 1.5],
            [$error->getMessage(), $error->status->code, $error->reason, $error->field, $error->retryDelay],
        );
        self::assertSame('r1', $error->requestId);
        self::assertSame('error: OVERLOADED: Later.; retry in 1.5 s', CommandLine::describe($error));
    }

    public function testTellsTheField(): void
    {
        $violation = new FieldViolation(['field' => 'sampling.top_p']);
        $error = self::error(self::packed('BadRequest', new BadRequest(['field_violations' => [$violation]])));
        self::assertSame(['sampling.top_p', null, null], [$error->field, $error->reason, $error->retryDelay]);
        self::assertSame('error: RESOURCE_EXHAUSTED: Later.', CommandLine::describe($error));
    }

    public function testPassesOverDetailsThatCannotBeRead(): void
    {
        $malformed = self::packed('RetryInfo', new ErrorInfo());
        $malformed->setValue('no protobuf');
        $error = self::error($malformed, self::packed('ErrorInfo', new ErrorInfo(['reason' => 'OVERLOADED'])));
        self::assertSame(['OVERLOADED', null], [$error->reason, $error->retryDelay]);
        $noStatus = new Status('UNKNOWN', '', ['grpc-status-details-bin' => 'no']);
        self::assertNull((new HeadraceException($noStatus))->reason);
    }

    private static function packed(string $name, \Google\Protobuf\Internal\Message $message): Any
    {
        $type = "type.googleapis.com/google.rpc.$name";

        return new Any(['type_url' => $type, 'value' => $message->serializeToString()]);
    }

    private static function error(Any ...$details): HeadraceException
    {
        $status = new \Google\Rpc\Status(['code' => 8, 'message' => 'Later.', 'details' => $details]);
        $trailers = ['grpc-status-details-bin' => $status->serializeToString(), 'x-request-id' => 'r1'];

        return new HeadraceException(new Status('RESOURCE_EXHAUSTED', 'Later.', $trailers));
    }
}
