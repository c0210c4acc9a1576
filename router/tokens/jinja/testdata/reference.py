#!/usr/bin/env python3
"""Writes reference.json: what Jinja 2 (3.1.6), set up as transformers does it, makes of the templates in cases.json.

Run it in this folder after a change to cases.json: python3 reference.py
"""
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

with open("cases.json", encoding="utf-8") as f:
    file = json.load(f)
out = []
for template in file["templates"]:
    try:
        out.append({"template": template, "text": env.from_string(template).render(**file["vars"])})
    except Exception as e:  # whatever it is, the engine would refuse the request
        out.append({"template": template, "error": type(e).__name__ + ": " + str(e)})
with open("reference.json", "w", encoding="utf-8") as f:
    json.dump({"vars": file["vars"], "cases": out}, f, ensure_ascii=False, indent=0)
    f.write("\n")
