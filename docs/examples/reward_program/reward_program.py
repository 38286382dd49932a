#!/usr/bin/env python3
"""A reward program for hermes-env in Python, standard library only: the reference implementation of protocol 1.

Write a function that takes a request and returns a score, and pass it to serve():

    from reward_program import serve

    def score(request):
        answer = request["answer"]                  # text of the last message
        expected = request["item"]["row"]["answer"]  # the dataset row
        return {"score": 1.0 if answer.strip() == expected else 0.0, "parts": {"length": len(answer)}}

    serve(score, threads=4)

score may return a number, or an object with "score" and optionally "parts" (numbers by name) and "details" (anything).
An exception becomes an error of that one rollout, never a score. What the function prints goes to standard error.
Run as a program this file is an example: it rewards answers that contain the row's reference and are short.
"""

import json
import math
import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

PROTOCOL = 1


def serve(score, threads=1, name="python"):
    """Answers requests until standard input ends, `threads` of them at a time."""
    # Keep the real standard output for answers alone, also from what libraries and child processes print.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    lock = threading.Lock()
    waiting = set()

    def send(message):
        line = json.dumps(message, ensure_ascii=False, allow_nan=False)
        with lock:
            out.write(line + "\n")
            out.flush()

    def answer(request):
        with lock:
            if request["id"] not in waiting:  # nobody waits any more
                return
            waiting.discard(request["id"])
        try:
            result = score(request)
            if not isinstance(result, dict):
                result = {"score": result}
            value = float(result["score"])
            if not math.isfinite(value):
                raise ValueError("the score is %r" % value)
            reply = {"id": request["id"], "score": value}
            for key in ("parts", "details"):
                if result.get(key) is not None:
                    reply[key] = result[key]
            send(reply)
        except Exception as error:  # of this request only
            traceback.print_exc()
            send({"id": request["id"], "error": "%s: %s" % (type(error).__name__, error)})

    with ThreadPoolExecutor(max_workers=threads) as pool:
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            message = json.loads(line)
            kind = message.get("type")
            if kind == "hello":
                if message.get("protocol") != PROTOCOL:
                    sys.exit("this program speaks protocol %d, not %r" % (PROTOCOL, message.get("protocol")))
                send({"type": "hello", "protocol": PROTOCOL, "name": name, "max_in_flight": threads})
            elif kind == "score":
                with lock:
                    waiting.add(message["id"])
                pool.submit(answer, message)
            elif kind == "cancel":
                with lock:
                    waiting.discard(message["id"])
            # Lines of other types are from a newer harness: ignore them.


def example(request):
    answer = request["answer"].lower()
    reference = str(request["item"]["row"].get("answer", "")).lower()
    right = 1.0 if reference and reference in answer else 0.0
    short = 1.0 if len(answer) <= 200 else 200.0 / len(answer)
    return {"score": right * (0.5 + 0.5 * short), "parts": {"right": right, "short": short}}


if __name__ == "__main__":
    serve(example, threads=4, name="example")
