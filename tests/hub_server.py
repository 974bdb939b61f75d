"""A small server that speaks as much of the hub's protocol as downloads and uploads need."""

import base64
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer:
    """Data sets and models in memory; ``log`` holds method, path and range of each request.

    :ivar lies: The checksums that are told instead of the right ones, by file.
    :ivar stops_after: After so many bytes nothing more is sent.
    :ivar hangs: Whether the connection is then held, or lost.
    :ivar created: Who made which repository: the token, and whether it is private.
    """

    def __init__(self):
        self.files = {}  # (repository, name): (content, large)
        self.log, self.lies, self.stops_after, self.hangs = [], {}, None, True
        self.created, self.blobs = {}, {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                hub.answer(self)

            do_GET = do_HEAD

            def do_POST(self):
                hub.take(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

            do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add(self, repository, name, content, *, large):
        self.files[repository, name] = (content, large)

    def add_folder(self, repository, folder):
        """Serve the files of a model; weights are large."""
        for path in folder.iterdir():
            self.add(repository, path.name, path.read_bytes(), large=path.suffix == ".safetensors")

    def downloads(self):
        """The files whose content was asked for."""
        return [path.rpartition("/")[2] for path, _ in self.contents()]

    def contents(self):
        """The path and the range of each request for a file's content."""
        return [(path, asked) for method, path, asked in self.log if method == "GET" and "/api/" not in path]

    def checksum(self, name, content, large):
        if name in self.lies:
            return self.lies[name]
        if large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def answer(self, request):
        self.log.append((request.command, request.path, request.headers.get("Range")))
        path = request.path.partition("?")[0]
        if found := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/revision/([^/]+)", path):
            about = {"id": found[1], "sha": found[2], "siblings": self.siblings(found[1])}
            return self.send(request, json.dumps(about).encode(), {})
        if found := re.fullmatch(r"/api/(?:datasets|models)/([^/]+(?:/[^/]+)?)/tree/[^/]+", path):
            return self.send(request, json.dumps(self.tree(found[1])).encode(), {})
        if found := re.fullmatch(r"/api/models/([^/]+(?:/[^/]+)?)(?:/revision/[^/]+)?", path):
            about = {"id": found[1], "sha": COMMIT, "siblings": self.siblings(found[1])}
            return self.send(request, json.dumps(about).encode(), {})
        found = re.fullmatch(r"/(?:datasets/)?([^/]+(?:/[^/]+)?)/resolve/[^/]+/(.+)", path)
        cdn = re.fullmatch(r"/cdn/([^/]+(?:/[^/]+)?)/(.+)", path)
        key = (found or cdn) and (found or cdn).groups()
        if key not in self.files:
            return self.send(request, b"", {"X-Error-Code": "EntryNotFound"}, 404)
        content, large = self.files[key]
        headers = {"ETag": f'"{self.checksum(key[1], content, large)}"', "X-Repo-Commit": COMMIT}
        if commit := re.search(r"/resolve/([0-9a-f]{40})/", path):
            headers["X-Repo-Commit"] = commit[1]
        if found and large:
            headers |= {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(content))}
            headers |= {"Location": f"{self.url}/cdn/{key[0]}/{key[1]}", "ETag": '"of-the-pointer"'}
            return self.send(request, b"", headers, 302)
        return self.send(request, content, headers)

    def take(self, request, body):
        """Answer the requests of an upload: make a repository, take large files, then the commit."""
        self.log.append((request.command, request.path, None))
        path, token = request.path.partition("?")[0], request.headers.get("Authorization")
        if found := re.fullmatch(r"/lfs/([0-9a-f]{64})", path):
            assert hashlib.sha256(body).hexdigest() == found[1]
            self.blobs[found[1]] = body
            return self.send(request, b"", {})
        if token != "Bearer hf_right":
            headers = {"X-Error-Message": "Invalid username or password."}
            return self.send(request, b'{"error": "Invalid username or password."}', headers, 401)
        if path == "/api/validate-yaml":
            return self.send(request, b'{"errors": [], "warnings": []}', {})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            status = 409 if name in self.created else 200
            self.created.setdefault(
                name,
                {
                    "token": token,
                    "private": "private" in (asked.get("visibility"), asked.get("private") and "private"),
                },
            )
            return self.send(request, json.dumps({"url": f"{self.url}/{name}"}).encode(), {}, status)
        if re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", path):
            names = [file["path"] for file in json.loads(body)["files"]]
            modes = [
                {"path": name, "uploadMode": "lfs" if name.endswith(".safetensors") else "regular"}
                for name in names
            ]
            modes = [{**mode, "shouldIgnore": False, "oid": None} for mode in modes]
            return self.send(request, json.dumps({"files": modes}).encode(), {})
        if path.endswith(".git/info/lfs/objects/batch"):
            wanted = [
                {**one, "actions": {"upload": {"href": f"{self.url}/lfs/{one['oid']}"}}}
                for one in json.loads(body)["objects"]
            ]
            return self.send(request, json.dumps({"transfer": "basic", "objects": wanted}).encode(), {})
        repository = re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path)[1]
        for row in map(json.loads, body.splitlines()):
            if row["key"] == "file":
                content = base64.b64decode(row["value"]["content"])
                self.add(repository, row["value"]["path"], content, large=False)
            elif row["key"] == "lfsFile":
                self.add(repository, row["value"]["path"], self.blobs[row["value"]["oid"]], large=True)
        about = {"commitUrl": f"{self.url}/{repository}/commit/{COMMIT}", "commitOid": COMMIT}
        return self.send(request, json.dumps(about).encode(), {})

    def tree(self, repository):
        rows = []
        for (owner, name), (content, large) in self.files.items():
            if owner == repository:
                size = len(content)
                digest = self.checksum(name, content, large)
                rows.append({"type": "file", "path": name, "size": size, "oid": digest})
                if large:
                    rows[-1]["lfs"] = {"oid": digest, "size": size, "pointerSize": 130}
        return rows

    def siblings(self, repository):
        return [{"rfilename": name} for owner, name in self.files if owner == repository]

    def send(self, request, content, headers, status=200):
        if status == 200 and (asked := re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or "")):
            start, status = int(asked[1]), 206
            headers = {**headers, "Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            content = content[start:]
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        try:
            request.wfile.write(content[: self.stops_after])
            if self.stops_after is not None and len(content) > self.stops_after:
                request.wfile.flush()
                time.sleep(60 if self.hangs else 0)
                request.close_connection = True
        except OSError:
            pass  # the client is gone
