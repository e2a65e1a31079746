<?php

// Loads the classes where there is no Composer: those of this folder, those that build.sh has
// generated, and those of protobuf from the include path, where Debian puts them.

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    $own = str_starts_with($path, 'Headrace/') ? __DIR__ . '/src/' . substr($path, strlen('Headrace/')) : false;
    foreach ([$own, __DIR__ . "/generated/$path", stream_resolve_include_path($path)] as $file) {
        if ($file !== false && is_file($file)) {
            require $file;

            return;
        }
    }
});
