"""Serves an environment with comfygit-studio, as the tests need it.

usage: serve.py CONFIG, a JSON object: workspace, environment, and the fields
of ServeConfig
"""
import json
import sys
from pathlib import Path

from comfygit_core.core.workspace import Workspace
from comfygit_studio import runtime

config = json.loads(sys.argv[1])
workspace, name = config.pop("workspace"), config.pop("environment")
for path in ("artifact_dir", "state_db"):
    if path in config:
        config[path] = Path(config[path])
environment = Workspace.open(Path(workspace)).get_environment(name, auto_sync=False)
try:
    runtime.serve_environment(environment, runtime.ServeConfig(**config))
except KeyboardInterrupt:
    pass
