"""Serves WORKSPACE's environment ENV with comfygit-studio, and ends when standard input ends.

usage: reference.py WORKSPACE ENV PORT COMFY_URL STATE STATE_DB
"""
import os
import signal
import sys
import threading
from pathlib import Path

from comfygit_core.core.workspace import Workspace
from comfygit_studio.runtime import ServeConfig, serve_environment

workspace, name, port, comfy_url, state, state_db = sys.argv[1:]


def end_with_stdin():
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=end_with_stdin, daemon=True).start()
environment = Workspace.open(Path(workspace)).get_environment(name, auto_sync=False)
try:
    serve_environment(environment, ServeConfig(
        host="127.0.0.1", port=int(port), comfy_url=comfy_url, state=state, state_db=Path(state_db)))
except KeyboardInterrupt:
    pass
