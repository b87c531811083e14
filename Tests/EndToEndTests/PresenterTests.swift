import Foundation
import Testing

/// The control socket from outside: the page's own example, and presenters. Source:
/// `docs/control-protocol.md`; Apple's documentation of `NSFilePresenter`.
extension EndToEnd {
  @Suite struct ControlProtocolExampleTests {
    private static var example: String {
      get throws {
        let page = URL(fileURLWithPath: TestAccount.sourceRoot + "/docs/control-protocol.md")
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
              # Nothing tells when the claim waits. The order of the lines is the same before that.
              sleep 0.3; echo before >&7; exec 7>&-
              wait $holder
              same "$(tail -n 2 "$A/file")" "$(printf 'before\nwritten under a claim')"
            """#)
      }
    }

    /// A presenter in Python: says what it is asked, saves when it is asked to, and answers.
    private static let presenter = #"""
      cat > "$ROOT/presenter.py" <<'END'
      json, socket, sys, time = map(__import__, ('json', 'socket', 'sys', 'time'))
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
          if 'method' not in message or message['method'] == 'presenter.event': continue
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
              on a offline on; echo 1 > "$A/file"
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
              on a coordinate write "$A/dir/inner" --for deleting --no-wait -- rm "$A/dir/inner"
              until_true 10 grep -q Subitem "$ROOT/heard"
              same "$(heard)" 'request accommodateSubitemDeletion;'
              left
              # What is evicted is let go of first, and is not evicted while somebody claims it.
            echo 2 > "$A/dir/other"; presenting dir/other answers
            exits 5 on a coordinate read "$A/dir/other" -- ubiquityfs evict "$A/dir/other"
            on a offline off; on a sync --wait
            same "$(setfattr -n user.ubiquity.evict -v 1 "$A/dir/other" 2>&1 | grep -c busy)" 1
            until_true 10 on a evict "$A/dir/other"
            same "$(attribute downloadingStatus "$A/dir/other")" notDownloaded
            grep -q accommodateEviction "$ROOT/heard"
            left
            # Gone with its connection: nobody is asked.
              on a coordinate write "$A/dir" --timeout 10 -- true
            """#)
      }
    }

    /// Messages of right and wrong shapes, with members missing, twisted and of any size, and
    /// connections that end in the middle: whatever comes, the others go on.
    @Test func hostileMessagesHarmNobody() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          #"""
            echo 1 > "$A/file"
            cat > "$ROOT/fuzz.py" <<'END'
            json, random, socket, sys = map(__import__, ('json', 'random', 'socket', 'sys'))
            state, mountpoint, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
            random.seed(seed)
            def connect():
                connection = socket.socket(socket.AF_UNIX); connection.connect(state + '/control.sock')
                connection.settimeout(20)
                return connection, connection.makefile('rb')
            def odd():
                return random.choice([None, True, -1, 0, 2**63, 2**64, 1e300, -0.5, '', 'x' * random.randint(1, 5000),
                    '\x00', '../..', [], {}, [[[]]], {'hex': 'zz'}, {'hex': '2e2e2f'}, 'read', 'write', 'nan'])
            def item():
                return {'mountpoint': random.choice([mountpoint, '/', '', odd()]), 'shown': 'x',
                    'path': random.choice(['Documents/file', '', 'Documents', '../x', 'Documents//file/', 'a/b/c', odd()])}
            def access():
                return {'item': random.choice([item(), odd()]), 'intent': random.choice(['read', 'write', odd()]),
                    'options': random.choice([[], ['forDeleting'], ['none'], odd()])}
            def message(number):
                method = random.choice(['claims.take', 'claims.take', 'claims.release', 'presenters.add',
                    'presenters.remove', 'presenters.answer', 'items.status', 'items.evict'])
                params = {'accesses': random.choice([[access() for _ in range(random.randint(0, 4))], odd()]),
                    'timeout': random.choice([0, 0.01, odd()]), 'purpose': random.choice([None, 'p', odd()]),
                    'presenter': random.choice([1, odd()]), 'claim': random.choice([1, 7, odd()]),
                    'question': random.choice([1, odd()]), 'item': item(), 'items': random.choice([[item()], odd()])}
                for key in list(params):
                    if random.random() < 0.2: del params[key]
                if 'timeout' not in params or params['timeout'] is None: params['timeout'] = 0
                text = json.dumps({'jsonrpc': '2.0', 'id': number, 'method': method, 'params': params}).encode()
                if random.random() < 0.1:
                    at = random.randrange(len(text)); text = text[:at] + bytes([random.randrange(256)]) + text[at + 1:]
                return text.replace(b'\n', b' ')
            answered = 0
            for round in range(60):
                connection, lines = connect()
                for number in range(40): connection.sendall(message(number) + b'\n')
                if random.random() < 0.3: connection.close(); continue
                connection.sendall(b'{"jsonrpc":"2.0","id":"end","method":"account.status"}\n')
                for line in lines:
                    answered += 1
                    if json.loads(line).get('id') == 'end': break
                else: sys.exit('a connection was cut')
                connection.close()
            print(answered)
            END
            pid() { on a status --json | grep -o '"pid":[0-9]*'; }
            before=$(pid)
            for seed in 1 2 3 4; do python3 "$ROOT/fuzz.py" "$ROOT/a" "$(dirname "$A")" $seed; done
            same "$(pid)" "$before"
            until_true 20 on a coordinate write "$A/file" --no-wait -- true
            same "$(cat "$A/file")" 1
          """#, timeout: 200)
      }
    }

    /// One that does not answer is passed over, and told so.
    @Test func oneThatIsSilentIsPassedOver() async throws {
      try await withAccount { account in
        try await account.device("a")
        try await account.script(
          Self.presenter + #"""
              on a offline on # the sync would ask as well, to read what it sends
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
