/// A presenter in Python, for scripts. `present NAME DEVICE PATH [MODE]` presents a path of the device's
/// documents, until `left NAME`; `heard NAME` is what it was asked and told, one after the other, each followed
/// by `;`, paths from the documents on. `hears NAME TEXT` waits until TEXT is among it, `count NAME TEXT` says how
/// often. With `silent` it answers nothing; it answers when `$ROOT/answer` is there with `slow`; with `deaf` it
/// reads nothing until `$ROOT/listen` is there.
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
    while mode == 'deaf' and not os.path.exists(root + '/listen'): time.sleep(0.02)
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
        while mode == 'slow' and not os.path.exists(root + '/answer'): time.sleep(0.02)
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
    hears() { until_true 20 grep -qxF -- "$2" "$ROOT/heard-$1"; }
    count() { grep -cxF -- "$2" "$ROOT/heard-$1" || true; }
    left() { kill ${presenting[$1]}; wait ${presenting[$1]} 2>/dev/null || true; }

    """#
}
