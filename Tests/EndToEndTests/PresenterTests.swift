import Foundation
import Testing

/// The control socket from outside: the page's own example, and presenters. Source: `docs/control-protocol.md`;
/// Apple's documentation of `NSFilePresenter`.
extension EndToEnd {
  @Suite struct ControlProtocolExampleTests {
    private static var example: String {
      get throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
          .appendingPathComponent("../../docs/control-protocol.md").standardized
        let text = try String(contentsOf: page, encoding: .utf8)
        let start = try #require(text.range(of: "```python\n"))
        let end = try #require(text.range(of: "```", range: start.upperBound..<text.endIndex))
        return String(text[start.upperBound..<end.lowerBound])
      }
    }

    @Test func theExampleHoldsAClaim() async throws {
      let example = try Self.example
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          "cat > \"$ROOT/hold.py\" <<'END'\n\(example)END\n" + #"""
              mountpoint=$(dirname "$A"); echo 1 > "$A/file"
              python3 "$ROOT/hold.py" "$ROOT/a" "$mountpoint" Documents/file
              same "$(tail -n 1 "$A/file")" 'written under a claim'
              # A claim of somebody else is waited for, and the daemon's words are shown.
              refused 'no such file' python3 "$ROOT/hold.py" "$ROOT/a" "$mountpoint" Documents/missing/file
              exec 7>> "$A/file"
              python3 "$ROOT/hold.py" "$ROOT/a" "$mountpoint" Documents/file 7>&- & holder=$!
              sleep 0.3; echo before >&7; exec 7>&-
              wait $holder
              same "$(tail -n 2 "$A/file")" "$(printf 'before\nwritten under a claim')"
            """#)
      }
    }

    /// A presenter in Python: says what it is asked, saves when it is asked to, and answers.
    private static let presenter = #"""
      cat > "$ROOT/presenter.py" <<'END'
      import json, socket, sys, time
      state, mountpoint, path, mode = sys.argv[1:5]
      connection = socket.socket(socket.AF_UNIX); connection.connect(state + '/control.sock')
      lines = connection.makefile('r'); last = 0; waiting = []
      def send(method, **params):
          global last; last += 1
          connection.sendall(json.dumps({'jsonrpc': '2.0', 'id': last, 'method': method, 'params': params}).encode() + b'\n')
          return last
      def answer(number):
          while True:
              message = json.loads(lines.readline())
              if message.get('id') == number: return message
              if 'method' in message: waiting.append(message)
      def call(method, **params): return answer(send(method, **params))
      def say(text): print(text, flush=True)
      call('hello', protocolVersion=1, version='test', pid=0)
      item = {'mountpoint': mountpoint, 'path': path, 'shown': path}
      presenter = call('presenters.add', item=item)['result']['presenter']
      say('presenting')
      while True:
          message = waiting.pop(0) if waiting else json.loads(lines.readline())
          if 'method' not in message: continue
          params = message['params']
          say(message['method'].split('.')[1] + ' ' + params.get('request', ''))
          if message['method'] != 'presenter.request' or mode == 'silent': continue
          if params['request'] == 'saveChanges':
              given = call('claims.take', accesses=[{'item': item, 'intent': 'write'}], presenter=presenter, timeout=3)
              with open(given['result']['paths'][0], 'a') as file: file.write('saved\n')
              call('claims.release', claim=given['result']['claim'])
          call('presenters.answer', question=params['question'])
      END
      presenting() { # PATH MODE
        rm -f "$ROOT/heard"
        python3 "$ROOT/presenter.py" "$ROOT/a" "$(dirname "$A")" "Documents/$1" "$2" > "$ROOT/heard" &
        presenter=$!
        until_true 20 grep -qs presenting "$ROOT/heard"
      }
      heard() { tail -n +2 "$ROOT/heard" | tr '\n' ';'; }
      left() { kill $presenter; wait $presenter 2>/dev/null || true; }

      """#

    /// Reader: let go, save, and take up again when it is over; the reader sees what was saved.
    @Test func presentersLetGoAndSave() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.presenter + #"""
              echo 1 > "$A/file"
              presenting file answers
              same "$(on a coordinate read "$A/file" --timeout 20 -- cat "$A/file")" "$(printf '1\nsaved')"
              until_true 10 grep -q reacquire "$ROOT/heard"
              same "$(heard)" 'request relinquishToReader;request saveChanges;reacquire ;'
              left
              presenting file answers
              on a coordinate write "$A/file" --for deleting --timeout 20 -- rm "$A/file"
              until_true 10 grep -q reacquire "$ROOT/heard"
              same "$(heard)" 'request relinquishToWriter;request accommodateDeletion;reacquire ;'
              left
              mkdir "$A/dir"; echo 1 > "$A/dir/inner"
              presenting dir answers
              on a coordinate write "$A/dir/inner" --for deleting --timeout 20 -- rm "$A/dir/inner"
              until_true 10 grep -q Subitem "$ROOT/heard"
              same "$(heard)" 'request accommodateSubitemDeletion;'
              left
              # What is evicted is let go of first, and is not evicted while somebody claims it.
            echo 2 > "$A/dir/other"; presenting dir/other answers
            exits 5 on a coordinate read "$A/dir/other" -- ubiquityfs evict "$A/dir/other"
            on a sync --wait
            same "$(setfattr -n user.ubiquity.evict -v 1 "$A/dir/other" 2>&1 | grep -c busy)" 1
            until_true 10 on a evict "$A/dir/other"
            same "$(attribute downloadingStatus "$A/dir/other")" notDownloaded
            grep -q accommodateEviction "$ROOT/heard"
            left
            # Gone with its connection: nobody is asked.
              on a coordinate write "$A/dir" --no-wait -- true
            """#)
      }
    }

    /// One that does not answer is passed over, and told so.
    @Test func oneThatIsSilentIsPassedOver() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.presenter + #"""
              echo 1 > "$A/file"
              presenting file silent
              on a coordinate read "$A/file" --timeout 60 -- true
              until_true 10 grep -q reacquire "$ROOT/heard"
              same "$(heard)" 'request relinquishToReader;passedOver relinquishToReader;request saveChanges;passedOver saveChanges;reacquire ;'
              left
            """#)
      }
    }

    /// The sync asks before it changes what is presented.
    @Test func theSyncAsksPresenters() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.device("b")
        try await account.script(
          Self.presenter + #"""
              echo 1 > "$A/file"; synced a b
              presenting file answers
              echo 2 > "$B/file"; synced b a
              same "$(cat "$A/file")" 2
              until_true 10 grep -q reacquire "$ROOT/heard"
              same "$(heard)" 'request relinquishToWriter;reacquire ;'
              rm "$B/file"; synced b a
              not test -e "$A/file"
              until_true 10 grep -q accommodateDeletion "$ROOT/heard"
              left
            """#)
      }
    }
  }
}
