<?php

declare(strict_types=1);

use Headrace\Call;
use Headrace\Channel;
use PHPUnit\Framework\TestCase;

/** What curl brings, in all the pieces that it may bring it in, becomes messages and a status. */
final class CallTest extends TestCase
{
    private Call $call;

    protected function setUp(): void
    {
        $this->call = new Call(new Channel('localhost:1'), curl_init(), null);
    }

    public function testJoinsMessagesThatComeInPieces(): void
    {
        foreach (str_split(Call::frame('one') . Call::frame('') . Call::frame('three', true)) as $byte) {
            self::assertSame(1, $this->call->takeData($byte));
        }
        self::assertSame(['one', '', 'three'], [$this->call->read(), $this->call->read(), $this->call->read()]);
    }

    public function testTakesSeveralMessagesOfOnePiece(): void
    {
        $this->call->takeData(Call::frame('one') . Call::frame('two') . substr(Call::frame('three'), 0, 6));
        self::assertSame(['one', 'two'], [$this->call->read(), $this->call->read()]);
        self::assertFalse($this->call->isReady());
    }

    public function testTellsHeadersFromTrailers(): void
    {
        $this->take('HTTP/2 200', 'x-request-id: r1', 'x-two: a', 'x-two: b', '');
        $this->take('grpc-status: 5', 'grpc-message: no%20%E6%97%A5');
        $this->call->end(CURLE_OK, '');
        self::assertSame(['x-request-id' => 'r1', 'x-two' => 'a, b'], $this->call->headers());
        self::assertSame(['NOT_FOUND', 'no 日'], [$this->call->status()->code, $this->call->status()->message]);
    }

    public function testTakesTheHeadersOfAResponseWithoutMessagesForTrailers(): void
    {
        $this->take('HTTP/2 200', 'grpc-status: 8', 'x-request-id: r1', 'grpc-status-details-bin: AAE', '');
        $this->call->end(CURLE_OK, '');
        self::assertSame([], $this->call->headers());
        self::assertSame(
            ['x-request-id' => 'r1', 'grpc-status-details-bin' => "\0\1"],
            $this->call->status()->trailers,
        );
    }

    public function testMakesAStatusOfWhatIsNotOfGrpc(): void
    {
        $text = 'HTTP/2 stream 1 was not closed cleanly: CANCEL (err 8)';
        foreach (
            [
                [CURLE_OPERATION_TIMEDOUT, '', 'DEADLINE_EXCEEDED'], [CURLE_COULDNT_CONNECT, 'refused', 'UNAVAILABLE'],
                [92, $text, 'CANCELLED'], [92, strtr($text, '8', '2'), 'INTERNAL'], [CURLE_OK, '', 'UNKNOWN'],
            ] as [$error, $told, $code]
        ) {
            $this->setUp();
            $this->call->end($error, $told);
            self::assertSame($code, $this->call->status()->code, $told);
        }
    }

    public function testEndsAtAResponseThatCannotBeUsed(): void
    {
        $bomb = gzencode(str_repeat('x', 4 * 1024 * 1024 + 1));
        foreach (
            [
                [pack('CN', 0, 4 * 1024 * 1024 + 1), 'RESOURCE_EXHAUSTED'],
                [pack('CN', 1, 4) . 'junk', 'INTERNAL'],
                [pack('CN', 1, strlen($bomb)) . $bomb, 'INTERNAL'],
            ] as [$piece, $code]
        ) {
            $this->setUp();
            self::assertSame(0, $this->call->takeData($piece));
            $this->call->end(CURLE_WRITE_ERROR, 'as curl says then');
            self::assertSame([null, $code], [$this->call->read(), $this->call->status()->code]);
        }
    }

    public function testRefusesWhatIsTooLarge(): void
    {
        $call = (new Channel('localhost:1'))->call('a/b', str_repeat('x', 4 * 1024 * 1024 + 1));
        self::assertSame('RESOURCE_EXHAUSTED', $call->status()->code);
    }

    private function take(string ...$lines): void
    {
        foreach ($lines as $line) {
            $this->call->takeHeader("$line\r\n");
        }
    }
}
