"""Renders with Python's Jinja2, set up the way transformers does for chat templates.

    python3 reference.py < expressions.golden.jsonl > new && mv new expressions.golden.jsonl
    python3 make_chats.py | python3 reference.py > chats.golden.jsonl

Each case is {"template": TEXT, "vars": OBJECT}; each answer repeats it with "out" or with
"error": "syntax" | "raised" | "runtime". Needs Debian's python3-jinja2.
"""
import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Raised(jinja2.exceptions.TemplateError):
    pass


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark", []), [], [], body).set_lineno(line)

    def _mark(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime(2026, 11, 5, 9, 3, 7).strftime(f)


def answer(case):
    case = {k: case[k] for k in ("template", "vars")}
    try:
        template = env.from_string(case["template"])
    except jinja2.exceptions.TemplateSyntaxError as e:
        return dict(case, error="syntax", message=str(e))
    except Exception as e:  # constant folding runs parts of a template while it compiles
        return dict(case, error="runtime", message=str(e))
    try:
        return dict(case, out=template.render(**case["vars"]))
    except Raised as e:
        return dict(case, error="raised", message=str(e))
    except RecursionError:
        return dict(case, error="runtime")
    except Exception as e:
        return dict(case, error="runtime", message=type(e).__name__ + ": " + str(e))


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line)), ensure_ascii=False))
