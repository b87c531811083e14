/// A presenter in Python, for scripts. `present NAME DEVICE PATH [MODE]` presents a path of the
/// device's documents, until `left NAME`; `heard NAME` is what it was asked and told, one after the
/// other, each followed by `;`, paths from the documents on. `hears NAME TEXT` waits until TEXT is
/// among it, `count NAME TEXT` says how often. With `silent` it answers nothing; it answers when
/// `$ROOT/answer` is there with `slow`; with `deaf` it reads nothing until `$ROOT/listen` is there.
enum Presenter {
  static let script = #"""
    cat > "$ROOT/watch.py" <<'END'
    json, os, socket, sys, time = map(__import__, ('json', 'os', 'socket', 'sys', 'time'))
    root, state, documents, path, mode = sys.argv[1:6]
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
    def short(path): return path[len(documents) + 1:] if path.startswith(documents + '/') else path
    call('hello', protocolVersion=1, version='test', pid=0)
    mountpoint = os.path.dirname(documents)
    item = {'mountpoint': mountpoint, 'path': ('Documents/' + path).rstrip('/'), 'shown': path}
    presenter = call('presenters.add', item=item)['result']['presenter']
    print('presenting', presenter, flush=True)
    while mode == 'deaf' and os.path.exists(root) and not os.path.exists(root + '/listen'):
        time.sleep(0.02)
    while True:
        message = waiting.pop(0) if waiting else json.loads(lines.readline())
        if 'method' not in message: continue
        params = message['params']; text = message['method'].split('.')[1]
        if text == 'request': text = params['request']
        if text == 'event':
            text = params['event']
            if text.startswith('subitem'): text += ' ' + short(params['path'])
            if text == 'didMove': text += ' to ' + short(params['path'])
            if 'oldPath' in params: text += ' from ' + short(params['oldPath'])
            if 'version' in params: text += ' ' + params['version']
        print(text, flush=True)
        if message['method'] != 'presenter.request' or mode == 'silent': continue
        while mode == 'slow' and os.path.exists(root) and not os.path.exists(root + '/answer'):
            time.sleep(0.02)
        call('presenters.answer', question=params['question'])
    END
    declare -A presenting
    present() { # NAME DEVICE PATH [MODE]
      local documents=$A; [ "$2" = b ] && documents=$B
      rm -f "$ROOT/heard-$1"
      python3 "$ROOT/watch.py" "$ROOT" "$ROOT/$2" "$documents" "$3" "${4:-answers}" > "$ROOT/heard-$1" &
      presenting[$1]=$!
      until_true 20 grep -qs presenting "$ROOT/heard-$1"
    }
    heard() { tail -n +2 "$ROOT/heard-$1" | tr '\n' ';'; }
    hears() { until_true 20 grep -qxF -- "$2" "$ROOT/heard-$1" || { echo "$1 heard: $(heard "$1")" >&2; return 1; }; }
    count() { grep -cxF -- "$2" "$ROOT/heard-$1" || true; }
    left() { kill ${presenting[$1]}; wait ${presenting[$1]} 2>/dev/null || true; }

    """#

  /// `$ROOT/client.py`: a client of the control socket, for Python with `PYTHONPATH=$ROOT`.
  /// `python` runs a script with it; what is asked of presenters is answered while it waits for
  /// answers, and kept in `heard`.
  static let client = #"""
    cat > "$ROOT/client.py" <<'END'
    json, os, socket, sys, time = map(__import__, ('json', 'os', 'socket', 'sys', 'time'))
    class Refused(Exception):
        def __init__(self, error):
            super().__init__(error['message']); self.status = error['data']['exitCode']
    class Client:
        def __init__(self, state, documents):
            self.socket = socket.socket(socket.AF_UNIX); self.socket.connect(state + '/control.sock')
            self.lines = self.socket.makefile('rb'); self.last = 0
            self.answers = {}; self.heard = []; self.documents = documents; self.isDeaf = False
            self.call('hello', protocolVersion=1, version='test', pid=0)
        def item(self, path):
            return {'mountpoint': os.path.dirname(self.documents), 'path': 'Documents/' + path, 'shown': path}
        def send(self, method, **params):
            self.last += 1
            self.socket.sendall(json.dumps({'jsonrpc': '2.0', 'id': self.last, 'method': method, 'params': params}).encode() + b'\n')
            return self.last
        def read(self):
            message = json.loads(self.lines.readline())
            if 'method' not in message: self.answers[message['id']] = message; return
            params = message['params']
            self.heard.append(params.get('request') or params.get('event') or message['method'].split('.')[1])
            if message['method'] == 'presenter.request' and not self.isDeaf:
                self.send('presenters.answer', question=params['question'])
        def answer(self, number):
            while number not in self.answers: self.read()
            message = self.answers.pop(number)
            if 'error' in message: raise Refused(message['error'])
            return message['result']
        def call(self, method, **params): return self.answer(self.send(method, **params))
        def access(self, path, intent, *options):
            return {'item': self.item(path), 'intent': intent, 'options': list(options)}
        def taking(self, path, intent, *options, **more):
            return self.send('claims.take', accesses=[self.access(path, intent, *options)], **more)
        def take(self, path, intent, *options, **more):
            return self.answer(self.taking(path, intent, *options, **more))
        def release(self, claim): self.call('claims.release', claim=claim['claim'])
        def present(self, path): return self.call('presenters.add', item=self.item(path))['presenter']
        def refused(self, status, number):
            try: self.answer(number)
            except Refused as refusal:
                assert refusal.status == status, (refusal.status, str(refusal)); return str(refusal)
            raise AssertionError('it was not refused')
        def has(self, number):
            self.call('account.status'); return number in self.answers
        def until(self, condition):
            end = time.time() + 20
            while not condition():
                assert time.time() < end, self.heard
                self.call('account.status'); time.sleep(0.01)
    END
    python() { PYTHONPATH=$ROOT python3 - "$ROOT/a" "$A" "$@"; }

    """#
}
