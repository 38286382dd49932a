#!/usr/bin/env python3
"""Times a trajectory API server over HTTP, whichever it is. Python 3.9+, standard library only.

    hermes-env api --port 8001 --state-dir /tmp/bench -q &
    python3 docs/examples/apibench/api_bench.py http://localhost:8001

posts 16 groups of 16 sequences of 4,096 tokens with masks and log-probabilities, takes them as one batch of 256, packed and not,
and asks for /status all the while, as workers do. Replies are read and not decoded. It forgets what the server held.

    python3 docs/examples/apibench/api_bench.py --serve 8002 &

runs something to compare with: the least server that does this, with json and http.server of the standard library, which keeps
everything in memory, checks nothing but JSON and forms a batch of whatever comes.
"""

import argparse
import gzip
import http.client
import http.server
import json
import random
import threading
import time
import urllib.parse

GROUPS, SEQUENCES = 16, 16


class PlainServer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    groups, lock = [], threading.Lock()

    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        if len(body) >= 1000 and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/batch":
            with self.lock:
                batch, self.groups[:] = list(self.groups), []
            return self.reply({"batch": batch or None})
        self.reply({"current_step": 0, "queue_size": len(self.groups)})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        value = json.loads(body)
        if self.path == "/scored_data":
            with self.lock:
                self.groups.append(value)
        self.reply({"status": "received"})

    def log_message(self, *args):
        pass


def connect(url):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=300)


def request(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    reply = connection.getresponse()
    content = reply.read()
    if reply.status != 200:
        raise SystemExit("%s %s: status %d: %s" % (method, path, reply.status, content[:300]))
    return content


def make_group(length):
    random.seed(1)
    tokens = [[random.randrange(128000) for _ in range(length)] for _ in range(SEQUENCES)]
    prompt = length // 4
    return json.dumps({
        "tokens": tokens, "masks": [[-100] * prompt + row[prompt:] for row in tokens], "scores": [random.random() for _ in tokens],
        "inference_logprobs": [[1.0] * prompt + [-random.expovariate(1) for _ in row[prompt:]] for row in tokens]}).encode()


class Asker(threading.Thread):
    """Asks for /status again and again, and notes how long the longest answer took."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.longest, self.stopped = url, 0.0, False

    def run(self):
        connection = connect(self.url)
        while not self.stopped:
            begun = time.perf_counter()
            request(connection, "GET", "/status")
            self.longest = max(self.longest, time.perf_counter() - begun)
            time.sleep(0.005)


def round_of(url, packed, encoding):
    """Posts a batch and takes it. Returns the seconds of a post, of the batch, and of the longest /status beside the batch."""
    connection = connect(url)
    begun = time.perf_counter()
    for _ in range(GROUPS):
        request(connection, "POST", "/scored_data", packed, {"Content-Type": "application/json", "Content-Encoding": "gzip"})
    posts = (time.perf_counter() - begun) / GROUPS
    asker = Asker(url)
    asker.start()
    time.sleep(0.02)
    begun = time.perf_counter()
    content = request(connection, "GET", "/batch", headers={"Accept-Encoding": encoding})
    batch = time.perf_counter() - begun
    asker.stopped = True
    asker.join()
    if content.startswith(b'{"batch":null') or b'"status":"error"' in content[:100]:
        raise SystemExit("/batch gave no batch: %s" % content[:300])
    return posts, batch, asker.longest


def measure(url, rounds, length):
    connection = connect(url)
    request(connection, "GET", "/reset_data")
    settings = {"wandb_group": "", "wandb_project": "", "batch_size": GROUPS * SEQUENCES, "max_token_len": length, "checkpoint_dir": "",
                "save_checkpoint_interval": 0, "starting_step": 0, "num_steps": 0}
    request(connection, "POST", "/register", json.dumps(settings), {"Content-Type": "application/json"})
    group = make_group(length)
    packed = gzip.compress(group, 1)
    print("%s: groups of %d x %d, %.1f MB of JSON, %.1f MB packed; medians of %d" %
          (url, SEQUENCES, length, len(group) / 1e6, len(packed) / 1e6, rounds))
    for name, encoding in (("packed", "gzip"), ("not packed", "identity")):
        times = [round_of(url, packed, encoding) for _ in range(rounds)]
        post, batch, status = (sorted(values)[rounds // 2] for values in zip(*times))
        print("  a post %.3f s · a batch of %d, %s, %.3f s · the longest /status beside it %.3f s" %
              (post, GROUPS * SEQUENCES, name, batch, status))


def main():
    parser = argparse.ArgumentParser(description="Times a trajectory API server.")
    parser.add_argument("url", nargs="?", help="the server, for example http://localhost:8000; what it holds is forgotten")
    parser.add_argument("--serve", type=int, metavar="PORT", help="be the plain server instead")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=4096, metavar="N", help="tokens of a sequence (default %(default)s)")
    options = parser.parse_args()
    if options.serve:
        http.server.ThreadingHTTPServer(("127.0.0.1", options.serve), PlainServer).serve_forever()
    if not options.url or options.rounds < 1 or options.tokens < 1:
        parser.error("name a server, and positive numbers")
    measure(options.url, options.rounds, options.tokens)


if __name__ == "__main__":
    main()
