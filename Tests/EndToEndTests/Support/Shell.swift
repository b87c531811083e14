import Foundation
import Subprocess
import SystemPackage
import Testing

/// What a command left behind.
struct CommandResult: Sendable {
  var status: Int32
  var output: String
  var errors: String
}

struct CommandFailure: Error, CustomStringConvertible {
  var command: String
  var result: CommandResult
  /// What the devices' daemons said last.
  var logs: String

  /// The first line is what a summary shows: the status, and the end of what was said.
  var description: String {
    let said = result.errors.split(separator: "\n").suffix(3).joined(separator: " | ")
    return """
      exit \(result.status): \(said.suffix(300))
      --- script
      \(command)
      --- output
      \(result.output.suffix(4000))
      --- errors
      \(result.errors.suffix(4000))
      --- logs
      \(logs.suffix(4000))
      """
  }
}

/// Runs programs in child processes that a watchdog ends: nothing here touches a mount from within
/// the test process, so a mount that hangs fails a test and no more.
enum Shell {
  /// Runs `arguments` to its end. A child that outlives `timeout` is killed and gives status 124 or
  /// 137. Output goes through files: a daemon that wrongly kept the descriptors would not be
  ///      noticed as a hang here; `CommandLineTests.startingTheDaemonFreesThePipe` is there for
  ///      that.
  static func run(
    _ arguments: [String], environment: [String: String], directory: String, timeout: Int = 120
  ) async throws -> CommandResult {
    // Not in `directory`: the caller may have no right to write there.
    let base = NSTemporaryDirectory() + "command-" + UUID().uuidString
    let outputPath = FilePath(base + ".out")
    let errorPath = FilePath(base + ".err")
    defer {
      unlink(outputPath.string)
      unlink(errorPath.string)
    }
    let output = try FileDescriptor.open(
      outputPath, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
    let errors = try FileDescriptor.open(
      errorPath, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
    let changes = Dictionary(
      uniqueKeysWithValues: environment.map { (Environment.Key(stringLiteral: $0.key), $0.value) })
    let result = try await Subprocess.run(
      .name("timeout"),
      arguments: Arguments(["-k", "5", String(timeout)] + arguments),
      environment: .inherit.updating(changes.mapValues { Optional($0) }),
      workingDirectory: FilePath(directory),
      input: .none,
      output: .fileDescriptor(output, closeAfterSpawningProcess: true),
      error: .fileDescriptor(errors, closeAfterSpawningProcess: true))
    let status: Int32
    switch result.terminationStatus {
    case .exited(let code): status = Int32(code)
    case .signaled(let signal): status = 128 + Int32(signal)
    }
    return CommandResult(
      status: status, output: text(outputPath.string), errors: text(errorPath.string))
  }

  private static func text(_ path: String) -> String {
    String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
  }

  /// What scripts find defined: each stops the script at the first command that fails, and says
  /// where: the line counts from the script's own first one.
  static let prelude = """
    set -Eeuo pipefail
    trap 'lines=($LINENO "${BASH_LINENO[@]}"); echo "line $((lines[-1] - prelude_end)): $BASH_COMMAND" >&2' ERR

    # on DEVICE ARGUMENT...: the program, as that device
    on() { local device=$1; shift; UBIQUITYFS_STATE=$ROOT/$device ubiquityfs "$@"; }

    # synced DEVICE...: each in turn, so that the last has what the first wrote
    synced() { local device; for device; do on "$device" sync --wait --timeout 120 >&2; done; }

    # attribute NAME PATH
    attribute() { getfattr --absolute-names --only-values -n "user.ubiquity.$1" -- "$2"; }

    # downloads_of DEVICE: each download that a program caused on it; its traffic also has the
    # cursors of other devices, which it reads after a minute
    downloads_of() { on "$1" log --downloads; }

    # same ACTUAL EXPECTED
    same() { [ "$1" = "$2" ] || { echo "is '$1', expected '$2'" >&2; return 1; }; }

    # exits STATUS COMMAND...: what it printed goes to standard error
    exits() {
      local expected=$1 actual=0; shift
      "$@" >&2 || actual=$?
      [ "$actual" = "$expected" ] || { echo "exit $actual, expected $expected, of: $*" >&2; return 1; }
    }

    # not COMMAND...: it fails; bash does not stop at a failing `! COMMAND`
    not() { if "$@" >&2; then echo "did not fail: $*" >&2; return 1; fi; }

    # refused PATTERN COMMAND...: it fails, and says so in words that match
    refused() {
      local pattern=$1 message; shift
      if message=$("$@" 2>&1 >/dev/null); then echo "did not fail: $*" >&2; return 1; fi
      echo "$message" >&2
      grep -Eiq -- "$pattern" <<<"$message" || { echo "no '$pattern' in that" >&2; return 1; }
    }

    # until_true SECONDS COMMAND...: waits for what happens in the background
    until_true() {
      local end=$((SECONDS + $1)); shift
      until "$@"; do
        [ $SECONDS -lt $end ] || { echo "never became true: $*" >&2; return 1; }
        sleep 0.1
      done
    }

    # evicts PATH: the kernel tells of a close after close(2) returned, so what was just read may be
    # open for a moment yet: for until_true
    evicts() { setfattr -n user.ubiquity.evict -v 1 "$1" 2>/dev/null; }

    # listing DIRECTORY: everything that devices agree on about a tree
    listing() { (cd "$1" && find . -printf '%p %s %m %T@ %l\\n' | LC_ALL=C sort); }

    # source_tree DIRECTORY: a tree as of a program's sources, of about 20 MiB in 1,100 files, with
    # links, programs, empty files and directories, odd names, and something that cc builds
    source_tree() {
      mkdir "$1"
      (
        cd "$1"
        head -c 15000000 /dev/urandom | base64 | split -a 4 -d -b 19000 - part.
        local n=0 file
        for file in part.*; do
          n=$((n + 1))
          [ $((n % 25)) = 1 ] && mkdir -p "module$((n / 25))/sources"
          mv "$file" "module$((n / 25))/sources/$file.txt" 2>/dev/null ||
            { mkdir -p "module$((n / 25))/sources"; mv "$file" "module$((n / 25))/sources/$file.txt"; }
        done
        mkdir -p empty/one src tools 'odd names' deep/a/b/c/d/e/f/g/h
        : > empty/file
        echo deep > deep/a/b/c/d/e/f/g/h/file
        echo 1 > 'odd names/with  spaces'; echo 2 > 'odd names/grün ☂.txt'; echo 3 > 'odd names/-n'
        echo 4 > 'odd names/back\\slash'
        ln -s ../src/main.c tools/main; ln -s nowhere tools/dangling; ln -s /etc/passwd tools/absolute
        for n in $(seq 40); do
          printf 'int part%d(void) { return %d; }\\n' "$n" "$n" > "src/part$n.c"
        done
        {
          for n in $(seq 40); do echo "int part$n(void);"; done
          echo '#include <stdio.h>'; echo 'int main(void) { int sum = 0;'
          for n in $(seq 40); do echo "sum += part$n();"; done
          echo 'printf("%d\\n", sum); return 0; }'
        } > src/main.c
        printf '#!/bin/sh\\ncd "$(dirname "$0")/../src" && cc -c *.c && cc -o ../program *.o\\n' > tools/build
        chmod 755 tools/build; chmod 600 src/part1.c; chmod 444 src/part2.c
        touch -d '2001-02-03 04:05:06.789012345' src/part3.c
        find . -type f -exec sha256sum {} + > ../sums && mv ../sums SHA256SUMS
      )
    }

    prelude_end=$LINENO

    """
}
