"""Works on a state database as the reference does.

Reads a JSON list of [method, argument] from standard input, carries them out
on the file that is its argument, and prints what the reference then shows.
"""

import json
import sys
from pathlib import Path

from comfygit_studio import state

SCOPE = "alice"
store = state.SQLiteServeStateStore(Path(sys.argv[1]))
owner = {"session_id": SCOPE, "scope_key": SCOPE, "workflow": "solid", "contract": "default"}
for method, argument in json.load(sys.stdin):
    if method == "run":
        store.record_run(state.ServeRunRecord(**owner, **argument))
    elif method == "item":
        store.record_gallery_items([state.ServeGalleryItem(**owner, **argument)])
    elif method == "slot":
        store.record_output_slots([state.ServeRunOutputSlot(**owner, **argument)])
    elif method == "delete_item":
        assert store.delete_gallery_item(SCOPE, argument), argument
    elif method == "end":
        record = store.get_run_record(argument["run_id"])
        store.record_run(state.ServeRunRecord(**{**record.__dict__, **argument}))
    elif method == "session":
        store.ensure_session(argument, scope_key=SCOPE)
    else:
        raise SystemExit(f"unknown: {method}")
runs = store.list_runs(SCOPE)
print(json.dumps({
    "runs": runs,
    "items": store.list_gallery_items(SCOPE),
    "slots": {run["run_id"]: store.list_output_slots(SCOPE, run["run_id"]) for run in runs},
}))
store.close()
