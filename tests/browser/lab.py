"""A JupyterLab on loopback for one folder, and the few things that the browser tests do in it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
IN_PAGE = {"windowingMode": "none"}  # every cell in the page, also those out of sight


def write_notebook(path: Path, cells: list[str]) -> Path:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, path)
    return path


class Lab:
    """The server; a context manager. `private` is a folder for its settings, `root` holds the notebooks."""

    def __init__(self, root: Path, private: Path):
        for name, values in {"apputils-extension/notification": QUIET, "notebook-extension/tracker": IN_PAGE}.items():
            file = private / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        self._token = secrets.token_hex(16)
        self._runtime, self._log = private / "runtime", private / "server.log"
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_TOKEN": self._token,
            "JUPYTER_CONFIG_DIR": str(private / "config"), "IPYTHONDIR": str(private / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(self._runtime), "JUPYTER_DATA_DIR": str(private / "data")}
        # Port 0: the system chooses a free one.
        options = {
            "ServerApp.ip": "127.0.0.1", "ServerApp.port": "0", "ServerApp.root_dir": str(root),
            "LabApp.news_url": "None", "LabApp.extension_manager": "readonly",
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "LabApp.user_settings_dir": str(private / "settings"), "LabApp.workspaces_dir": str(private / "workspaces")}
        arguments = [f"--{name}={value}" for name, value in options.items()]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *arguments],
                env=environment, stdout=log, stderr=log)

    def __enter__(self) -> Lab:
        deadline = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < deadline:
            for file in self._runtime.glob("jpserver-*.json"):
                try:
                    self.url = json.loads(file.read_text())["url"]
                    self.api("status")
                    return self
                except (ValueError, OSError):
                    pass  # half written, or not listening yet
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError(f"JupyterLab did not start:\n{self._log.read_text()[-3000:]}")

    def __exit__(self, *_) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def api(self, path: str, method: str = "GET"):
        allowed = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(f"{self.url}api/{path}", headers=allowed, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or "null")

    def end_kernels(self) -> None:
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")

    def open(self, page, notebook: Path) -> None:
        """Show the notebook alone in the page."""
        page.goto(f"{self.url}doc/tree/{notebook.name}?token={self._token}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=60_000)


def run_cells(page) -> None:
    """Run all cells as a person does, with Shift+Enter, once the kernel is there."""
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    cells = page.locator(".jp-CodeCell")
    cells.first.locator(".jp-InputArea-editor").click()
    for _ in range(cells.count()):
        page.keyboard.press("Shift+Enter")


def save(page) -> None:
    page.keyboard.press("Control+s")
    page.locator(".jp-mod-dirty").wait_for(state="detached", timeout=20_000)
