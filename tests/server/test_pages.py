"""The files of the web pages, without a browser: how they are served, and what they contain."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from omnigraph.cli.app import make_command
from omnigraph.graph.merge.conflicts import ConflictKind
from omnigraph.query.checks.functions import _COUNTS
from omnigraph.query.plan.functions import DURATIONS
from omnigraph.server.pages import STATIC
from tests.server.process import READ, ServerProcess, serve

FILES: Final = sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())
OWN: Final = [name for name in FILES if not name.startswith("vendor/")]
TYPES: Final = {
    "css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml", "toml": "text/plain",
    "txt": "text/plain",
}  # fmt: skip
POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


def read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def test_files_have_their_type_a_hash_and_headers(server: ServerProcess) -> None:
    assert len(FILES) > 20
    for name in FILES:
        answer = server.send("GET", f"/ui/{name}")
        assert answer.status == 200
        assert answer.body == (STATIC / name).read_bytes()
        assert answer.headers["content-type"].split(";")[0] == TYPES[name.rpartition(".")[2]]
        again = server.send("GET", f"/ui/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert server.send("GET", "/").body == (STATIC / "index.html").read_bytes()
    assert server.send("HEAD", "/").status == 200


def test_files_are_compressed(server: ServerProcess) -> None:
    url = f"http://{server.address}/ui/vendor/cytoscape.js"
    answer = server.pool.request("GET", url, headers={"Accept-Encoding": "gzip"}, decode_content=False)
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.data) < 200_000
    assert gzip.decompress(answer.data) == (STATIC / "vendor/cytoscape.js").read_bytes()


@pytest.mark.parametrize(
    "name", ["../pages.py", "%2e%2e/pages.py", "app/../../pages.py", "/etc/hosts", "app", "no.js", ""]
)
def test_no_other_file_is_served(server: ServerProcess, name: str) -> None:
    answer = server.send("GET", f"/ui/{name}")
    assert answer.status == 404
    assert answer.document["error_code"] == "address_unknown"


def test_every_response_has_the_security_headers(graph_path: Path, tmp_path: Path) -> None:
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKEN": READ, "OMNIGRAPH_SERVER_CORS_ORIGIN": "https://a.example"}
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    with serve(graph_path, tmp_path, environment=environment) as server:
        answers = [
            server.send("GET", "/"),
            server.send("GET", "/ui/app/main.js"),
            server.send("GET", "/ui/no"),
            server.send("GET", "/whoami"),
            server.send("GET", "branches", token=READ),
            server.send("POST", "query", {"query": "{"}, token=READ),
            server.send("POST", "export", {}, token=READ),
            server.send("PUT", "/graphs"),
            server.send("OPTIONS", "query", headers=preflight),
        ]
    assert {answer.headers["content-security-policy"] for answer in answers} == {POLICY}
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}
    assert {answer.headers["referrer-policy"] for answer in answers} == {"no-referrer"}
    assert [answer.status for answer in answers] == [200, 200, 404, 401, 200, 400, 200, 405, 200]


def test_a_server_without_pages(graph_path: Path, tmp_path: Path) -> None:
    with serve(graph_path, tmp_path, "--no-ui") as server:
        assert server.send("GET", "/").status == 404
        assert server.send("GET", "/ui/app/main.js").status == 404
        assert server.query().status == 200


def test_own_files_contain_no_external_address_and_no_markup_sink() -> None:
    namespace = "http://www.w3.org/2000/svg"
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")
    for name in OWN:
        text = read(name).replace(namespace, "")
        assert "://" not in text, name
        assert [sink for sink in sinks if sink in text] == [], name


def test_own_files_use_relative_addresses() -> None:
    absolute = re.compile(r"""(?:from|import|src=|href=|fetch|send)\s*\(?\s*["'`$]*(?:"GET", |"POST", )?["'`]/""")
    assert [name for name in OWN if absolute.search(read(name))] == []
    imports = re.compile(r'from "(\.{1,2}/[^"]+)"')
    for name in OWN:
        for target in imports.findall(read(name)):
            assert (STATIC / name).parent.joinpath(target).resolve().is_file(), f"{name}: {target}"


def test_own_files_are_short() -> None:
    assert [name for name in OWN if name.endswith(".js") and len(read(name).splitlines()) >= 300] == []


def test_commands_of_empty_states_are_commands() -> None:
    commands = {command for name in OWN for command in re.findall(r'"omnigraph ([^"]+)"', read(name))}
    assert len(commands) >= 4
    for command in commands:
        name, *arguments = shlex.split(command)
        parser: Any = make_command()
        while hasattr(parser, "commands"):
            parser = parser.commands[name]
            if hasattr(parser, "commands"):
                name, *arguments = arguments
        parser.make_context(name, arguments)  # raises if an option does not exist


def test_every_kind_of_conflict_has_a_text() -> None:
    kinds = re.search(r"const KINDS = \{(.*?)\}", read("app/parts/merge.js"), re.DOTALL)
    assert kinds is not None
    assert set(re.findall(r"(\w+): \"", kinds[1])) == set(ConflictKind)


def test_the_editor_highlights_the_words_of_both_languages() -> None:
    keywords, functions = (
        set(" ".join(re.findall(r'"([a-z_0-9 ]+)"', part)).split())
        for part in re.findall(
            r"const (?:KEYWORDS|FUNCTIONS) = new Set\((.*?)\);", read("app/parts/tokens.js"), re.DOTALL
        )
    )
    grammars = [
        STATIC.parents[1].joinpath(name).read_text(encoding="utf-8")
        for name in ("query/query.lark", "schema/schema.lark")
    ]
    terminals = re.findall(
        r"^_?[A-Z_]+(?:\.\d)?: /(?:\(\?:)?([a-z_]+(?:\|[a-z_]+)*)", "\n".join(grammars), re.MULTILINE
    )
    words = {word for terminal in terminals for word in terminal.split("|")} - {"date", "datetime"}
    assert len(words) > 25
    assert words <= keywords
    assert functions == {*_COUNTS, *DURATIONS, "date", "datetime"}


def test_requests_use_only_documented_routes(server: ServerProcess) -> None:
    text = read("app/api.js")
    calls = re.findall(r'send\("(\w+)", (?:"([^"]+)"|`([^`]+)`)', text)
    assert len(calls) == text.count("export const") - 1
    routes = server.send("GET", "/openapi.json").document["paths"]
    documented = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)) for path, methods in routes.items() for method in methods
    }
    used = {
        (method, "/" + re.sub(r"\$\{.*?\}", "{}", (plain or template).replace("${of(graph)}", "graphs/{}")))
        for method, plain, template in calls
    }
    assert used - documented == set()
    assert [name for name in OWN if "fetch(" in read(name)] == ["app/api.js"]


def test_vendored_files_are_the_listed_ones() -> None:
    listed = tomllib.loads(read("vendor/VENDOR.toml"))
    names = {name for package in listed["package"] for name in package["files"].values()}
    assert names == set(listed["sha512"])
    assert {f"vendor/{name}" for name in names} == set(FILES) - set(OWN) - {"vendor/VENDOR.toml"}
    for name, digest in listed["sha512"].items():
        assert hashlib.sha512((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest
    for package in listed["package"]:
        assert package["licence"] in {"MIT", "Apache-2.0"}
        assert [name for name in package["files"].values() if name.startswith("LICENSE")]


def test_text_has_enough_contrast_in_both_modes() -> None:
    light, dark = colours()
    dark = {**light, **dark}
    soft = {"accent": "accent-soft", "success": "success-soft", "warning": "warning-soft", "error": "error-soft"}
    for palette in (light, dark):
        words = ["text", "muted", *soft, *(name for name in palette if name.startswith("t-"))]
        pairs = [(word, ground) for word in words for ground in ("bg", "panel")]
        pairs += [
            ("text", "raised"),
            ("text", "accent-soft"),
            ("muted", "accent-soft"),
            ("on-accent", "accent"),
            ("bg", "error"),
            *soft.items(),
        ]
        pairs += [("text", f"{kind}-soft") for kind in ("success", "warning", "error")]
        low = {pair: contrast(palette[pair[0]], palette[pair[1]]) for pair in pairs}
        assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}
        dots = {name: contrast(palette[name], palette["bg"]) for name in palette if name.startswith("type-")}
        assert len(dots) == 8
        assert {name: ratio for name, ratio in dots.items() if ratio < 3} == {}


def colours() -> tuple[dict[str, str], dict[str, str]]:
    """Return the custom properties of the light and of the dark mode."""
    blocks = re.findall(r":root \{(.*?)\}", read("app/style.css"), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks)
    assert len(light) > len(dark) > 15
    return light, dark


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast_of_known_pairs() -> None:
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    assert json.dumps(round(contrast("#777777", "#ffffff"), 2)) == "4.48"
