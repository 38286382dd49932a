#!/usr/bin/env python3
"""A toy trainer for the trajectory API server in Python 3.9+, standard library only.

It does everything a trainer does but the gradients: registers, takes batches, checks every number in them, computes advantages
and a loss, acknowledges, and goes on. It is meant to be read, and to be run against a server whose data you want to trust:

    hermes-env api                                             # one terminal
    hermes-env serve --config configs/serve-quickstart.yaml    # another
    python3 docs/examples/toytrainer/toy_trainer.py --steps 5  # a third

Each batch is used exactly once, whatever is killed and when: the name of a batch (X-Batch-Id) is written to the --state file
together with what was learned from it, before the server is told (X-Ack-Batch) that it need not be delivered again.

Exit status: 0 all steps done, 1 the data is wrong, 2 the server refuses the trainer or the arguments are wrong,
3 the server was away for longer than --give-up, 130 interrupted.
"""

import argparse
import gzip
import hashlib
import json
import math
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from http.client import HTTPException

MASKED = -100            # in masks: not trained on
PLACEHOLDER = 1.0        # in log-probabilities: not sampled
ROUNDING = 1e-6          # log-probabilities may be this much above zero
REMEMBERED = 1000        # names of batches that are kept in the state file
GROUP_KEYS = ["tokens", "masks", "scores", "advantages", "ref_logprobs", "messages", "generation_params", "inference_logprobs",
              "overrides", "group_overrides", "images", "env_id", "distill_token_ids", "distill_logprobs"]


class Fault(Exception):
    """What the server delivered breaks a promise of the protocol."""


class Refused(Exception):
    """The server doesn't want this trainer, and asking again will not help."""


class Away(Exception):
    """The server can't be reached, or can't answer now."""


# --- checks -------------------------------------------------------------------------------------------------------------------


def require(condition, message, *values):
    if not condition:
        raise Fault(message % values)


def is_number(value):
    return type(value) in (int, float) and math.isfinite(value)


def check_rows(name, rows, tokens, kind):
    """A list with one list per sequence, and in that one value per token."""
    require(isinstance(rows, list) and len(rows) == len(tokens), "%s has not one list per sequence", name)
    for s, row in enumerate(rows):
        require(isinstance(row, list), "sequence %d: %s is not a list", s, name)
        require(len(row) == len(tokens[s]), "sequence %d: %s has %d values for %d tokens", s, name, len(row), len(tokens[s]))
        for p, value in enumerate(row):
            require(kind(value), "sequence %d: %s[%d] is %r", s, name, p, value)


def check_group(group, options):
    """Checks all of one group and returns how many of its tokens are trained on."""
    require(isinstance(group, dict), "it is not an object")
    require(list(group) == GROUP_KEYS, "its keys are %s", ", ".join(group))
    tokens, masks, scores = group["tokens"], group["masks"], group["scores"]
    require(isinstance(tokens, list) and tokens, "it has no sequences")
    for s, row in enumerate(tokens):
        require(isinstance(row, list) and row, "sequence %d has no tokens", s)
        require(options.max_token_len <= 0 or len(row) <= options.max_token_len,
                "sequence %d has %d tokens, and this trainer registered for %d at most", s, len(row), options.max_token_len)
        for p, token in enumerate(row):
            require(type(token) is int and token >= 0, "sequence %d: tokens[%d] is %r, which is no token id", s, p, token)
            require(options.vocab_size <= 0 or token < options.vocab_size,
                    "sequence %d: tokens[%d] is %d, and the vocabulary has %d", s, p, token, options.vocab_size)

    check_rows("masks", masks, tokens, lambda value: type(value) is int)
    trained = 0
    for s, row in enumerate(masks):
        for p, mask in enumerate(row):
            require(mask in (MASKED, tokens[s][p]), "sequence %d: masks[%d] is %d, neither %d nor the token %d", s, p, mask, MASKED, tokens[s][p])
            trained += mask != MASKED

    require(isinstance(scores, list) and len(scores) == len(tokens), "it has not one score per sequence")
    for s, score in enumerate(scores):
        require(is_number(score), "the score of sequence %d is %r", s, score)

    logprobs = group["inference_logprobs"]
    if logprobs:
        check_rows("inference_logprobs", logprobs, tokens, is_number)
        for s, row in enumerate(logprobs):
            for p, value in enumerate(row):
                if masks[s][p] == MASKED:
                    require(value == PLACEHOLDER, "sequence %d: inference_logprobs[%d] is %r where the mask is %d: want %r", s, p, value, MASKED, PLACEHOLDER)
                else:
                    require(value <= ROUNDING, "sequence %d: inference_logprobs[%d] is %r, which is no log-probability of the token %d", s, p, value, tokens[s][p])
    else:
        require(options.allow_missing_logprobs, "it has no inference_logprobs: the worker's model server gave none "
                "(--allow-missing-logprobs accepts that)")

    # Lists that nobody filled in are null or empty.
    for name in ("advantages", "ref_logprobs"):
        if group[name]:
            check_rows(name, group[name], tokens, is_number)
    check_distillation(group, tokens)
    check_texts(group, tokens)
    return trained


def check_distillation(group, tokens):
    ids, logprobs = group["distill_token_ids"], group["distill_logprobs"]
    require(bool(ids) == bool(logprobs), "it has only one of distill_token_ids and distill_logprobs")
    if not ids:
        return
    for name, rows, kind in (("distill_token_ids", ids, lambda v: type(v) is int and v >= 0), ("distill_logprobs", logprobs, is_number)):
        check_rows(name, rows, tokens, lambda values: isinstance(values, list) and all(kind(v) for v in values))
    for s, row in enumerate(ids):
        for p, values in enumerate(row):
            require(len(values) == len(logprobs[s][p]), "sequence %d: position %d has %d distilled ids and %d log-probabilities",
                    s, p, len(values), len(logprobs[s][p]))


def check_texts(group, tokens):
    """Checks messages, overrides, and who sent the group."""
    if group["messages"]:
        require(len(group["messages"]) == len(tokens), "it has not one conversation per sequence")
        for s, turns in enumerate(group["messages"]):
            require(isinstance(turns, list), "sequence %d: its messages are no list", s)
            for t, turn in enumerate(turns):
                require(isinstance(turn, dict) and "role" in turn and "content" in turn, "sequence %d: message %d has no role or content", s, t)
    overrides = group["overrides"]
    if overrides:
        require(isinstance(overrides, list) and len(overrides) == len(tokens), "it has not one element of overrides per sequence")
        for s, override in enumerate(overrides):
            require(isinstance(override, dict), "sequence %d: its overrides are no object", s)
    whole = group["group_overrides"] or {}
    require(isinstance(whole, dict), "its group_overrides are no object")
    size = whole.get("group_size")
    require(size is None or size == len(tokens), "group_overrides.group_size is %r and it has %d sequences", size, len(tokens))
    require(not whole.get("placeholder_tokens"), "its tokens are counting numbers (env.allow_placeholder_tokens): this trainer needs those that were sampled")
    require(group["env_id"] is None or type(group["env_id"]) is int, "its env_id is %r", group["env_id"])


def check_batch(groups, options):
    """Checks a batch and returns how many of its tokens are trained on."""
    require(isinstance(groups, list) and groups, "the batch is %r", groups)
    trained = 0
    for g, group in enumerate(groups):
        try:
            trained += check_group(group, options)
        except Fault as fault:
            sender = group.get("env_id") if isinstance(group, dict) else None
            raise Fault("group %d of %d (env_id %s): %s" % (g + 1, len(groups), sender, fault)) from None
    total = sum(len(group["tokens"]) for group in groups)
    require(total == options.batch_size, "the batch has %d sequences, and this trainer registered for %d", total, options.batch_size)
    return trained


# --- training -----------------------------------------------------------------------------------------------------------------


def advantages_of(group):
    """One advantage per token: the group's own where it has some, else its normalised scores."""
    scores = group["scores"]
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    rows = []
    for s, tokens in enumerate(group["tokens"]):
        override = group["overrides"][s] if group["overrides"] else {}
        if override.get("set_advantage_to_zero"):
            rows.append([0.0] * len(tokens))
        elif group["advantages"]:
            rows.append(group["advantages"][s])
        else:
            rows.append([(scores[s] - mean) / max(deviation, 1e-8)] * len(tokens))
    return rows


def train(groups):
    """What a real trainer would take gradients of. A real one asks its own model for log-probabilities; here those of the
    sampling model stand in for them, as if no step had been made since."""
    loss, trained, flat = 0.0, 0, 0
    for group in groups:
        rows = advantages_of(group)
        flat += all(value == 0 for row in rows for value in row)
        for s, row in enumerate(group["masks"]):
            for p, mask in enumerate(row):
                if mask != MASKED:
                    logprob = group["inference_logprobs"][s][p] if group["inference_logprobs"] else 0.0
                    loss -= rows[s][p] * logprob
                    trained += 1
    scores = [score for group in groups for score in group["scores"]]
    return {"loss": loss / max(1, trained), "mean_score": sum(scores) / len(scores), "groups_without_signal": flat}


# --- the server ---------------------------------------------------------------------------------------------------------------


class Server:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token
        here = urllib.parse.urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        self.opener = urllib.request.build_opener(*[urllib.request.ProxyHandler({})] if here else [])

    def request(self, method, path, message=None, headers=None):
        """Returns the body of a reply, unpacked, and its headers."""
        request = urllib.request.Request(self.url + path, method=method, headers={"Accept-Encoding": "gzip", **(headers or {})})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        if message is not None:
            request.data = json.dumps(message).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=60) as reply:
                body, headers = reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            detail = error.read(2000).decode("utf-8", "replace").strip()
            text = "%s %s: status %d: %s" % (method, path, error.code, detail)
            if error.code in (408, 429) or error.code >= 500:
                raise Away(text) from None
            if error.code == 401:
                text += " (name the variable that holds the token with --token-env)"
            if error.code == 404:
                text += " (is %s a trajectory API server?)" % self.url
            raise Refused(text) from None
        except (OSError, HTTPException) as error:  # no connection, or one that broke
            reason = getattr(error, "reason", None) or error
            raise Away(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__) from None
        if headers.get("Content-Encoding") == "gzip":
            try:
                body = gzip.decompress(body)
            except (OSError, EOFError, zlib.error) as error:
                raise Fault("the reply to %s is no gzip: %s" % (path, error)) from None
        return body, headers

    def json(self, method, path, message=None, headers=None):
        body, headers = self.request(method, path, message, headers)
        return decode(body, path), headers


def decode(body, path):
    def not_a_number(word):
        raise ValueError("it holds the word %s" % word)
    try:
        return json.loads(body, parse_constant=not_a_number)
    except ValueError as error:
        raise Fault("the reply to %s is no JSON: %s" % (path, error)) from None


# --- what survives a kill of the trainer --------------------------------------------------------------------------------------


class Progress:
    """The trainer's own checkpoint: in a real one the weights are in it too."""

    def __init__(self, path, record):
        self.path, self.file = path, None
        self.data = {"step": 0, "starting_step": 0, "used": [], "recorded_bytes": 0,
                     "sequences": 0, "tokens": 0, "trained_tokens": 0}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.data.update(json.load(file))
        if record:
            self.file = open(record, "ab")
            size, counted = self.file.tell(), self.data["recorded_bytes"]
            if size < counted or size and not path:
                raise ValueError("%s has %d bytes, and the state knows of %d: name another file with --record" % (record, size, counted))
            self.file.truncate(counted)  # off with what a killed trainer had not counted yet

    def used(self, name):
        return next((digest for known, digest in self.data["used"] if known == name), None)

    def save(self, groups):
        """Writes down all that a step did, at once: it has happened entirely or not at all."""
        if self.file:
            for group in groups:
                self.file.write(json.dumps(group, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
            self.data["recorded_bytes"] = self.file.tell()
        if self.path:
            temporary = self.path + ".new"
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(self.data, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)


# --- the loop -----------------------------------------------------------------------------------------------------------------


class Trainer:
    def __init__(self, options, server, progress, out):
        self.options, self.server, self.progress, self.out = options, server, progress, out
        self.last = progress.data["used"][-1][0] if progress.data["used"] else ""
        self.away_since, self.idle_since, self.told_at, self.pause = None, None, None, 0.1
        self.registered, self.warned, self.again = False, False, 0

    def register(self):
        info, _ = self.server.json("GET", "/info")
        data = self.progress.data
        if info.get("batch_size") == -1:
            # The server knows no trainer: it is new, or was reset. Otherwise it counts our steps, and must be told the
            # starting step it knows: another one would set its count.
            data["starting_step"] = data["step"]
        reply, _ = self.server.json("POST", "/register", {
            "wandb_group": self.options.group, "wandb_project": self.options.project, "batch_size": self.options.batch_size,
            "max_token_len": self.options.max_token_len, "checkpoint_dir": self.options.checkpoint_dir,
            "save_checkpoint_interval": self.options.save_interval, "starting_step": data["starting_step"],
            "num_steps": self.options.steps})
        require(type(reply.get("uuid")) is int, "the reply to /register has no integer uuid: %r", reply)
        info, _ = self.server.json("GET", "/info")
        require(info == {"batch_size": self.options.batch_size, "max_token_len": self.options.max_token_len},
                "the server says it has %r after this trainer registered: is another one there, or does it ignore registrations?", info)
        self.registered = True
        self.out.say("registered at %s: batches of %d sequences, at most %d tokens each" %
                     (self.server.url, self.options.batch_size, self.options.max_token_len))

    def turn(self):
        """Asks for a batch and uses it. Returns false when there was none."""
        if not self.registered:
            self.register()
        asked = time.monotonic()
        body, headers = self.server.request("GET", "/batch", headers={"X-Ack-Batch": self.last})
        if self.away_since is not None:
            self.out.say("the server is back after %.1f s" % (time.monotonic() - self.away_since))
            self.away_since = None
        reply = decode(body, "/batch")
        require(isinstance(reply, dict) and "batch" in reply, "the reply to /batch has no batch")
        if reply.get("status") == "error":
            self.registered = False  # it was reset, or lost its state
            self.out.say("the server has forgotten this trainer: registering again")
            return True
        if reply["batch"] is None:
            return False
        name = headers.get("X-Batch-Id") or ""
        if not name and not self.warned:
            self.warned = True
            self.out.say("this server names no batches: what breaks on the way is lost")
        digest = hashlib.sha256(body).hexdigest()
        known = self.progress.used(name) if name else None
        if known:
            require(known == digest, "batch %s came again with other content", name)
            self.again += 1
            self.last = name
            return True
        self.use(name, digest, reply["batch"], time.monotonic() - asked)
        return True

    def use(self, name, digest, groups, seconds):
        try:
            trained = check_batch(groups, self.options)
        except Fault as fault:
            raise Fault("batch %s: %s" % (name or "without a name", fault)) from None
        learned = train(groups)
        time.sleep(self.options.pace)
        data = self.progress.data
        tokens = sum(len(row) for group in groups for row in group["tokens"])
        sequences = sum(len(group["tokens"]) for group in groups)
        data["step"] += 1
        data["sequences"] += sequences
        data["tokens"] += tokens
        data["trained_tokens"] += trained
        if name:
            data["used"] = (data["used"] + [[name, digest]])[-REMEMBERED:]
        self.progress.save(groups)
        self.last = name
        self.out.step({"step": data["step"], "batch": name, "groups": len(groups), "sequences": sequences, "tokens": tokens,
                       "trained_tokens": trained, **learned, "seconds": round(seconds, 3)})
        self.check_step()

    def check_step(self):
        """The server counts the batches it handed out."""
        status, _ = self.server.json("GET", "/status")
        step = status.get("current_step")
        if step is None or step < self.progress.data["step"]:
            info, _ = self.server.json("GET", "/info")
            if info.get("batch_size") == -1:
                self.registered = False
                return
            raise Fault("the server is at step %s, and this trainer has used %d batches" % (step, self.progress.data["step"]))

    def run(self):
        while self.progress.data["step"] < self.options.steps:
            try:
                got = self.turn()
                if got:
                    self.pause, self.idle_since = 0.05, None
                else:
                    self.tell_what_is_missing()
                    self.pause = min(self.options.poll, self.pause * 1.5)
            except Away as error:
                self.wait_for_server(error)
            time.sleep(0 if self.pause <= 0.05 else self.pause)
        while True:  # the last batch is acknowledged too
            try:
                if self.last:
                    self.server.json("POST", "/ack_batch", {"batch_id": self.last})
                return
            except Refused:
                return  # a server that has no /ack_batch has nothing to be told
            except Away as error:
                self.wait_for_server(error)
                time.sleep(self.pause)

    def wait_for_server(self, error):
        now = time.monotonic()
        if self.away_since is None:
            self.away_since, self.pause = now, 0.1
            self.out.say("%s does not answer (%s): waiting for it" % (self.server.url, error))
        if self.options.give_up and now - self.away_since > self.options.give_up:
            raise Away("%s was away for %.0f s (--give-up): %s" % (self.server.url, now - self.away_since, error))
        self.pause = min(2.0, self.pause * 1.5)

    def tell_what_is_missing(self):
        """Says what there is, at once and later every ten seconds that go by without a batch."""
        now = time.monotonic()
        self.idle_since = self.idle_since or now
        if self.told_at is not None and min(now - self.idle_since, now - self.told_at) < 10:
            return
        self.told_at = now
        text = "no batch yet"
        try:
            status, _ = self.server.json("GET", "/overview")
            workers = sum(worker["alive"] for worker in status["workers"])
            text += ": %d of %d sequences are there, %d worker%s" % (status["queue"]["sequences"], self.options.batch_size, workers, "" if workers == 1 else "s")
            if status.get("stuck"):
                text += "; " + status["stuck"]
            if status["problem"]:
                text += "; the server has a problem: " + status["problem"]
        except Refused:
            pass  # the original server has no overview
        self.out.say(text)


# --- output -------------------------------------------------------------------------------------------------------------------


class Output:
    COLUMNS = (("step", 5), ("batch", 18), ("groups", 7), ("sequences", 10), ("tokens", 8), ("trained", 8), ("score", 7), ("loss", 9), ("seconds", 8))

    def __init__(self, as_json):
        self.as_json, self.head = as_json, False

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def step(self, row):
        if self.as_json:
            print(json.dumps(row), flush=True)
            return
        if not self.head:
            self.head = True
            print("".join(name.rjust(width) for name, width in self.COLUMNS), flush=True)
        values = (row["step"], row["batch"] or "-", row["groups"], row["sequences"], row["tokens"], row["trained_tokens"],
                  "%.3f" % row["mean_score"], "%.4f" % row["loss"], "%.3f" % row["seconds"])
        print("".join(str(value).rjust(width) for value, (_, width) in zip(values, self.COLUMNS)), flush=True)

    def summary(self, data, again, seconds):
        if self.as_json:
            print(json.dumps({"summary": {"steps": data["step"], "sequences": data["sequences"], "tokens": data["tokens"],
                                          "trained_tokens": data["trained_tokens"], "delivered_again": again, "seconds": round(seconds, 3)}}), flush=True)
            return
        print("%d steps, the last after %.1f s: %d sequences, %d tokens, %d of them trained on" %
              (data["step"], seconds, data["sequences"], data["tokens"], data["trained_tokens"]))
        if again:
            print("%d deliveries were repetitions, and not used again" % again)
        print("ids, masks, log-probabilities, scores, shapes and batch sizes are right")


def arguments():
    parser = argparse.ArgumentParser(description="A toy trainer: takes batches from a trajectory API server and checks all that is in them.")
    parser.add_argument("--server", default="http://localhost:8000", metavar="URL", help="the API server (default %(default)s)")
    parser.add_argument("--token-env", metavar="VARIABLE", help="environment variable with the token of the server")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="batches to train on, those of an earlier --state included (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="sequences per batch (default %(default)s)")
    parser.add_argument("--max-token-len", type=int, default=4096, metavar="N", help="tokens of the longest sequence (default %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=0, metavar="N", help="token ids must be below this; 0 (default) means any")
    parser.add_argument("--allow-missing-logprobs", action="store_true", help="accept groups without inference_logprobs")
    parser.add_argument("--state", metavar="FILE", help="keep the progress here: a trainer that is killed goes on where it was")
    parser.add_argument("--record", metavar="FILE", help="write the groups that were trained on here, one JSON object per line")
    parser.add_argument("--give-up", type=float, default=0, metavar="SECONDS", help="end when the server is away for so long; 0 (default) waits for ever")
    parser.add_argument("--poll", type=float, default=1.0, metavar="SECONDS", help="longest pause between two questions for a batch (default %(default)s)")
    parser.add_argument("--pace", type=float, default=0, metavar="SECONDS", help="time that a step of training takes (default %(default)s)")
    parser.add_argument("--group", default="toy", help="wandb group to register (default %(default)s)")
    parser.add_argument("--project", default="toy-trainer", help="wandb project to register (default %(default)s)")
    parser.add_argument("--checkpoint-dir", default="", help="checkpoint directory to register")
    parser.add_argument("--save-interval", type=int, default=100, help="checkpoint interval in steps to register (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per step, and a summary")
    options = parser.parse_args()
    if options.steps < 1 or options.batch_size < 1 or options.poll <= 0 or options.pace < 0:
        parser.error("--steps, --batch-size and --poll must be positive, and --pace not negative")
    if not options.server.startswith(("http://", "https://")):
        parser.error("--server %s: want something like http://localhost:8000" % options.server)
    if options.token_env and not os.environ.get(options.token_env):
        parser.error("--token-env %s: the environment variable is not set" % options.token_env)
    return options


def main():
    options = arguments()
    out = Output(options.json)
    begun = time.monotonic()
    try:
        progress = Progress(options.state, options.record)
    except (OSError, ValueError) as error:
        out.say("can't go on from the state: %s" % error)
        return 2
    if progress.data["step"]:
        out.say("going on after step %d, from %s" % (progress.data["step"], options.state))
    trainer = Trainer(options, Server(options.server, os.environ.get(options.token_env or "", "")), progress, out)
    try:
        trainer.run()
    except Fault as fault:
        out.say("WRONG DATA: %s" % fault)
        return 1
    except Refused as error:
        out.say("the server refuses: %s" % error)
        return 2
    except Away as error:
        out.say("gave up: %s" % error)
        return 3
    except KeyboardInterrupt:
        out.say("interrupted after step %d" % progress.data["step"])
        return 130
    out.summary(progress.data, trainer.again, time.monotonic() - begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
