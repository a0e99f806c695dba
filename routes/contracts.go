package routes

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

func (c *call) listContracts() error {
	if err := c.settled(); err != nil {
		return err
	}
	snap := c.studio.Catalog().Snapshot()
	if err := snap.Usable(); err != nil {
		return manifestFault(err)
	}
	ref, err := snap.Ref(c.r.Context()).MarshalJSON()
	if err != nil {
		return err
	}
	key := pageKey{route: "contracts", snapshot: snap, query: string(ref)}
	return c.shared(key, func() ([]byte, error) { return withProvenance(snap.JSON(), snap, ref), nil })
}

// withProvenance says of which manifest and environment contracts are.
func withProvenance(doc []byte, snap *manifest.Snapshot, ref []byte) []byte {
	t := text{}
	t.open('{')
	t.members(doc)
	t.optStr("manifest_revision", snap.Revision)
	t.optRaw("environment_ref", ref)
	t.close('}')
	return t.b
}

// shared answers with a page that is the same for everybody.
func (c *call) shared(key pageKey, render func() ([]byte, error)) error {
	return c.cached(visitor{}, key, render)
}

func (c *call) showContract() error {
	if err := c.settled(); err != nil {
		return err
	}
	snap := c.studio.Catalog().Snapshot()
	workflow, name := c.contractNames()
	contract, err := snap.Contract(workflow, name)
	if f := manifestFault(err); f != nil {
		return f
	}
	if err != nil {
		return &fault{
			code: sidecar.CodeBadRequest, message: err.Error(),
			hint: "Look at /contracts for what there is.", cause: err,
		}
	}
	ref, err := snap.Ref(c.r.Context()).MarshalJSON()
	if err != nil {
		return err
	}
	key := pageKey{route: "contract", snapshot: snap, query: contract.Workflow + "\x00" + contract.Name + "\x00" + string(ref)}
	return c.shared(key, func() ([]byte, error) { return withProvenance(contract.JSON(), snap, ref), nil })
}

// contractNames are the names in the path. Where slashes of a name came
// unescaped, the catalog tells where one name ends.
func (c *call) contractNames() (workflow, contract string) {
	whole, ok := c.vars["path"]
	if !ok {
		return c.path("workflow"), c.path("contract")
	}
	plain, err := url.PathUnescape(whole)
	if err != nil {
		plain = whole
	}
	if workflow, contract, ok = c.studio.Catalog().Snapshot().Match(plain); ok {
		return workflow, contract
	}
	return splitLast(plain)
}

func splitLast(path string) (before, last string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return path, ""
}

func (c *call) health() error {
	snap := c.studio.Catalog().Snapshot()
	present, faults := snap.Examine(c.r.Context())
	ref, err := present.MarshalJSON()
	if err != nil {
		return err
	}
	remote := c.opts.ExecutorName == "proxy"
	state := c.studio.LastHealth()
	if !remote || c.checksProxy() {
		state = c.studio.Health(c.r.Context())
	}
	t := text{}
	t.open('{')
	t.bool("ok", true)
	t.str("environment", snap.Environment)
	t.raw("environment_ref", ref)
	if c.direct {
		t.str("comfy_url", c.opts.ComfyURL)
	}
	t.str("executor", c.opts.ExecutorName)
	switch {
	case !remote:
		backend(&t, state)
	case c.checksProxy():
		c.proxyBackend(&t, state, ref)
	default:
		deferredBackend(&t, state)
	}
	t.optStr("version", c.opts.Version)
	manifestState(&t, snap, faults)
	t.key("queue")
	t.open('{')
	queueState(&t, state.Queue)
	t.int("leaving", int64(state.Leaving))
	t.close('}')
	c.storage(&t, state.Storage)
	t.close('}')
	if state.Storage != nil {
		c.log.Warn("the state database does not take writes", "err", state.Storage, "request_id", c.id)
	}
	c.json(http.StatusOK, t.b)
	return nil
}

func backend(t *text, state sidecar.Condition) {
	t.key("comfyui")
	t.open('{')
	t.bool("available", state.Available)
	t.optStr("version", state.Version)
	if !state.Available {
		t.str("error", state.Error)
	}
	t.optStr("hint", state.Doubt)
	if state.Busy {
		t.bool("busy", true)
	}
	t.close('}')
}

func manifestState(t *text, snap *manifest.Snapshot, faults []manifest.Fault) {
	t.key("manifest")
	t.open('{')
	t.bool("ok", len(faults) == 0)
	t.optStr("revision", snap.Revision)
	t.key("faults")
	t.open('[')
	for i := range faults {
		manifestPlace(t, &faults[i])
	}
	t.close(']')
	t.close('}')
}

func manifestPlace(t *text, f *manifest.Fault) {
	t.open('{')
	t.str("file", f.File)
	t.optInt("line", f.Line)
	t.optStr("key", f.Key)
	t.optStr("workflow", f.Workflow)
	t.optStr("contract", f.Contract)
	t.str("message", f.Message)
	t.optStr("hint", f.Hint)
	t.close('}')
}

// storage tells whether the store takes writes. What is wrong with which file
// is for those who may know where things are.
func (c *call) storage(t *text, trouble error) {
	t.key("storage")
	t.open('{')
	t.bool("ok", trouble == nil)
	var told *sidecar.Error
	switch {
	case trouble == nil:
	case c.direct && errors.As(trouble, &told):
		t.str("error", told.Message)
		t.optStr("hint", told.Hint)
	default:
		t.str("error", "The state database does not take writes just now.")
		t.str("hint", "Look at the log, and at the space on its disk.")
	}
	t.close('}')
}

// livez tells that the process answers at all.
func (c *call) livez() error {
	c.json(http.StatusOK, []byte(`{"ok":true}`))
	return nil
}

// readyz tells whether runs can be accepted: the store takes writes and there
// is something to run. A backend that is away does not count, it comes back.
func (c *call) readyz() error {
	snap := c.studio.Catalog().Snapshot()
	usable := snap.Usable() == nil
	trouble := c.studio.Trouble()
	t := text{}
	t.open('{')
	t.bool("ok", usable && trouble == nil)
	if c.authorized() == nil {
		manifestState(&t, snap, snap.Faults)
		c.storage(&t, trouble)
	}
	t.close('}')
	status := http.StatusOK
	if !usable || trouble != nil {
		status = http.StatusServiceUnavailable
	}
	c.json(status, t.b)
	return nil
}
