<?php

declare(strict_types=1);

use Headrace\Channel;
use Headrace\Client;
use Headrace\HeadraceException;
use Headrace\V1\GenerateRequest;
use PHPUnit\Framework\TestCase;

/** What a client does before it connects; there is no server at port 1. */
final class ClientTest extends TestCase
{
    /**
     * @dataProvider unusableKeys
     */
    public function testRefusesAKeyThatNoHeaderCanHoldWithoutTellingIt(string $key): void
    {
        $this->expectExceptionObject(
            new InvalidArgumentException('the API key is not of visible ASCII characters'),
        );
        new Client('localhost:1', apiKey: $key);
    }

    /** @return list<array{string}> */
    public static function unusableKeys(): array
    {
        return [[''], ["secret\n"], ['se cret'], ['sécret']];
    }

    public function testShowsNoKey(): void
    {
        $client = new Client('localhost:1', apiKey: 'k1-secret');
        $stream = $client->generate(new GenerateRequest(['text' => 'Hi']));
        self::assertStringNotContainsString('k1-secret', print_r([$client, $stream], true));
    }

    public function testRefusesHalfAPair(): void
    {
        $this->expectExceptionObject(new InvalidArgumentException('certfile and keyfile belong together'));
        new Client('localhost:1', certfile: __FILE__);
    }

    public function testRefusesMetadataThatWouldEndItsHeader(): void
    {
        $this->expectExceptionObject(new InvalidArgumentException('a value of metadata is more than one line'));
        (new Channel('localhost:1'))->call('a/b', '', ['x-one' => "1\r\nx-two: 2"]);
    }

    public function testMakesNoCallThatWasCancelledBeforeItIsRead(): void
    {
        $stream = (new Client('localhost:1'))->generate(new GenerateRequest(['text' => 'Hi']));
        $stream->cancel();
        self::assertSame('CANCELLED', self::codeOf(fn () => $stream->text()));
    }

    public function testTellsThatThereIsNoServerAlsoAfterItWasClosed(): void
    {
        $client = new Client('localhost:1');
        self::assertSame('UNAVAILABLE', self::codeOf(fn () => $client->model()));
        $client->close();
        self::assertSame('UNAVAILABLE', self::codeOf(fn () => $client->model()));
    }

    private static function codeOf(Closure $call): string
    {
        try {
            $call();
        } catch (HeadraceException $error) {
            return $error->status->code;
        }
        self::fail('the call did not fail');
    }
}
