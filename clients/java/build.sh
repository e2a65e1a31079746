#!/bin/sh
# Builds and tests the client, and the runner of tests/interop, from Debian's own packages, for
# machines that reach no Maven repository. Everywhere else use pom.xml.
#
# It needs: libgrpc-java protobuf-compiler protobuf-compiler-grpc-java-plugin libprotobuf-java
# libnetty-java libnetty-tcnative-java libperfmark-java libguava-java libgoogle-gson-java
# liberror-prone-java libjsr305-java openjdk-17-jdk-headless, and junit5 for the tests.
set -eu
cd "$(dirname "$0")"
out=$PWD/target
sources="build.sh src interop third_party ../../protos/headrace"

# shellcheck disable=SC2086 # they are words
if [ -e "$out/built" ] && [ -z "$(find $sources -newer "$out/built" -print -quit)" ]; then
  exit 0
fi

class_path() { for name; do printf '/usr/share/java/%s.jar:' "$name"; done; }

compile() { # FOLDER_OF_CLASSES CLASS_PATH OPTIONS… -- FOLDER_OF_SOURCES…
  classes=$1 path=$2
  shift 2
  options=
  while [ "$1" != -- ]; do options="$options $1"; shift; done
  shift
  find "$@" -name '*.java' >"$out/sources"
  # shellcheck disable=SC2086 # the options are words
  javac --release 17 -encoding UTF-8 -proc:none $options -d "$classes" -cp "$path" "@$out/sources"
}

launcher() { # NAME MAIN_CLASS
  cat >"$out/$1" <<END
#!/bin/sh
# Java reads its arguments by the locale, and the plain one has no letters beyond ASCII.
case "\${LC_ALL:-\${LC_CTYPE:-\${LANG:-}}}" in "" | C | POSIX) export LC_ALL=C.UTF-8 ;; esac
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xlog:disable -Xlog:all=off \\
  -XX:SharedArchiveFile='$out/classes.jsa' -Djava.library.path='$out/native' \\
  -cp '$out/headrace.jar:${libraries%:}' $2 "\$@"
END
  chmod +x "$out/$1"
}

libraries=$(class_path grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite \
  grpc-stub protobuf protobuf-util guava gson error-prone-annotations jsr305 perfmark-api \
  netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler \
  netty-resolver netty-tcnative netty-transport)
junit=$(class_path junit-jupiter-api junit-jupiter-engine junit-jupiter-params junit-platform-commons \
  junit-platform-console junit-platform-engine junit-platform-launcher junit-platform-reporting \
  opentest4j opentest4j-reporting-events opentest4j-reporting-schema apiguardian-api picocli univocity-parsers)

rm -rf "$out"
mkdir -p "$out/generated" "$out/native"
touch "$out/begun"

# Debian's netty has no HTTP/2 over Java's own TLS, only over OpenSSL, whose library it looks for
# by another name than Debian's.
cp /usr/lib/*/jni/libnetty-tcnative.so "$out/native/libnetty_tcnative.so"

# Debian has no classes of google.rpc, and its plugin writes an annotation that Java has no more.
protoc -I../../protos -Ithird_party -Iinterop/proto --java_out="$out/generated" \
  --plugin=protoc-gen-grpc-java="$(command -v grpc_java_plugin)" \
  --grpc-java_out="$out/generated" \
  ../../protos/headrace/v1/*.proto third_party/google/rpc/*.proto \
  interop/proto/grpc/health/v1/*.proto
find "$out/generated" -name '*Grpc.java' -exec sed -i '/^@javax.annotation.Generated(/,/)$/d' {} +

compile "$out/classes" "$libraries" -nowarn -- "$out/generated"
compile "$out/classes" "$out/classes:$libraries" -Xlint:all,-classfile,-path -Werror -- \
  src/main/java interop/java
jar --create --file "$out/headrace.jar" -C "$out/classes" .
# The classes of a call as an archive, so that a program starts in half the time. Nothing answers.
java -XX:+UseSerialGC -XX:ArchiveClassesAtExit="$out/classes.jsa" -Xlog:disable -Xlog:all=off \
  -Djava.library.path="$out/native" -cp "$out/headrace.jar:${libraries%:}" \
  headrace.Main --target localhost:1 --tls x 2>"$out/log" || [ -e "$out/classes.jsa" ]
launcher headrace headrace.Main
launcher interop headrace.interop.Runner

if [ -e /usr/share/java/junit-platform-console.jar ]; then
  path=$out/test-classes:$out/classes:$libraries$junit
  compile "$out/test-classes" "$path" -Xlint:all,-classfile,-path -Werror -- src/test/java
  java -XX:+UseSerialGC -Djava.library.path="$out/native" -cp "$path" org.junit.platform.console.ConsoleLauncher \
    --disable-banner --disable-ansi-colors --details=tree --scan-classpath "$out/test-classes"
else
  echo "junit5 is not installed: the tests were left out"
fi
mv "$out/begun" "$out/built"
