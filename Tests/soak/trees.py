"""Trees: git, rsync, and names that are made, renamed and removed."""

import os
import shutil
import subprocess

GIT = dict(
    os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", LC_ALL="C",
    GIT_AUTHOR_NAME="S", GIT_AUTHOR_EMAIL="s@example.org",
    GIT_COMMITTER_NAME="S", GIT_COMMITTER_EMAIL="s@example.org")


def run(*words, environment=None):
    result = subprocess.run(
        words, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise AssertionError(
            f"`{' '.join(words)}` ended with {result.returncode}: {result.stderr}{result.stdout}")
    return result.stdout


def git(job, documents):
    """Commits, branches, clones, garbage collection; nothing missing, nothing changed by itself."""
    top = os.path.join(documents, "git")
    origin, clone = os.path.join(top, "origin"), os.path.join(top, "clone")
    os.mkdir(top)

    def at(path, *words):
        return run("git", "-C", path, *words, environment=GIT)

    run("git", "init", "--quiet", "--initial-branch=main", origin, environment=GIT)
    # By itself it would go on in the background, in a process that nobody waits for.
    at(origin, "config", "gc.auto", "0")
    at(origin, "config", "maintenance.auto", "false")
    while job.goes_on():
        for _ in range(job.random.randrange(1, 15)):
            path = os.path.join(origin, f"module-{job.random.randrange(8)}")
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, f"source-{job.random.randrange(20)}"), "w") as file:
                file.write("\n".join(str(job.random.random()) for _ in range(300)))
        at(origin, "add", "-A")
        at(origin, "commit", "--quiet", "--allow-empty", "-m", "Change")
        job.must(at(origin, "status", "--porcelain") == "", "git status shows changes of nobody")
        if job.random.random() < 0.5:
            run("git", "clone", "--quiet", "--local", "--no-hardlinks", origin, clone,
                environment=GIT)
            job.must(at(clone, "status", "--porcelain") == "", "a clone shows changes")
            at(clone, "fsck", "--full", "--strict")
            job.must(at(clone, "rev-parse", "HEAD") == at(origin, "rev-parse", "HEAD"),
                     "a clone has another commit")
            shutil.rmtree(clone)
        if job.random.random() < 0.2:
            at(origin, "gc", "--quiet", "--prune=now")
        commits = int(at(origin, "rev-list", "--count", "HEAD"))
        if commits > 1 and job.random.random() < 0.2:
            at(origin, "checkout", "--quiet", "HEAD~1")
            at(origin, "checkout", "--quiet", "main")
        at(origin, "fsck", "--full", "--strict")
        if commits > 60:
            shutil.rmtree(origin)
            run("git", "init", "--quiet", "--initial-branch=main", origin, environment=GIT)
            at(origin, "config", "gc.auto", "0")
            at(origin, "config", "maintenance.auto", "false")
        job.pause(2)


def rsync(job, documents, native):
    """A native tree that changes, mirrored into the mount."""
    source, target = os.path.join(native, "source"), os.path.join(documents, "mirror")
    os.mkdir(source)
    while job.goes_on():
        for _ in range(30):
            path = os.path.join(source, f"d{job.random.randrange(10)}")
            os.makedirs(path, exist_ok=True)
            path = os.path.join(path, f"f{job.random.randrange(15)}")
            if os.path.lexists(path) and job.random.random() < 0.4:
                os.unlink(path)
            elif job.random.random() < 0.1:
                if not os.path.lexists(path):
                    os.symlink("../" + os.path.basename(path), path)
            elif not os.path.islink(path):
                with open(path, "wb") as file:
                    file.write(job.random.randbytes(job.random.randrange(20_000)))
                os.chmod(path, job.random.choice([0o600, 0o644, 0o755]))
        run("rsync", "-a", "--delete", source + "/", target + "/")
        different = run("rsync", "-anci", "--delete", source + "/", target + "/")
        job.must(different == "", f"the mirror differs:\n{different}")
        job.pause(2)


def changes(job, documents):
    """Names are made, renamed, linked and removed at random; a model knows what has to be there."""
    top = os.path.join(documents, "tree")
    os.mkdir(top)
    files, directories, number = {}, [""], 0

    def below(path):
        return os.path.join(top, path)

    while job.goes_on():
        for _ in range(25):
            number += 1
            parent = job.random.choice(directories)
            new = os.path.join(parent, f"n{number}")
            action = job.random.random()
            if action < 0.4 or not files:
                content = job.random.randbytes(job.random.randrange(3000))
                with open(below(new), "xb") as file:
                    file.write(content)
                files[new] = content
            elif action < 0.5 and len(directories) < 40:
                os.mkdir(below(new))
                directories.append(new)
            elif action < 0.7:
                old = job.random.choice(list(files))
                os.rename(below(old), below(new))
                files[new] = files.pop(old)
            elif action < 0.75 and len(directories) > 1:
                old = job.random.choice(directories[1:])
                if parent == old or parent.startswith(old + "/"):
                    continue
                os.rename(below(old), below(new))

                def moved(path, old=old, new=new):
                    inside = path == old or path.startswith(old + "/")
                    return new + path[len(old):] if inside else path

                files = {moved(path): content for path, content in files.items()}
                directories = [moved(path) for path in directories]
            elif action < 0.8:
                old = job.random.choice(list(files))
                with open(below(old), "ab") as file:
                    file.write(b"more")
                files[old] += b"more"
            else:
                old = job.random.choice(list(files))
                os.unlink(below(old))
                del files[old]
        if len(files) > 600 or len(directories) > 35:
            victim = job.random.choice(directories[1:])
            shutil.rmtree(below(victim))
            files = {path: content for path, content in files.items()
                     if not path.startswith(victim + "/")}
            directories = [path for path in directories
                           if path != victim and not path.startswith(victim + "/")]
        seen = {}
        for directory, _, names in os.walk(top):
            for name in names:
                path = os.path.join(directory, name)
                with open(path, "rb") as file:
                    seen[os.path.relpath(path, top)] = file.read()
        job.must(seen == files, f"different: {sorted(set(seen) ^ set(files))[:10]}")
        job.pause(1)
