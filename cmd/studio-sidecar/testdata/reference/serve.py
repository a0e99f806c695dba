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
if "artifact_dir" in config:
    config["artifact_dir"] = Path(config["artifact_dir"])
environment = Workspace.open(Path(workspace)).get_environment(name, auto_sync=False)
try:
    runtime.serve_environment(environment, runtime.ServeConfig(**config))
except KeyboardInterrupt:
    pass
