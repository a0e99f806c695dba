package comfyfake

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/google/uuid"
)

func (p *process) handleExecInfo(w http.ResponseWriter, _ *http.Request, _ string) {
	writeJSON(w, http.StatusOK, p.execInfo())
}

func (p *process) handlePrompt(w http.ResponseWriter, r *http.Request, _ string) {
	v, err := parseBody(r)
	if tooLarge(err) {
		writeTooLarge(w, p.s.opts.MaxUpload)
		return
	}
	body, isObject := v.(*object)
	_, isList := v.([]any)
	_, isText := v.(string)
	if err != nil || (!isObject && !isList && !isText) {
		writeTrouble(w)
		return
	}
	number, order, ok := p.takeNumber(body)
	switch {
	case !ok:
		writeTrouble(w)
	case body == nil || !body.has("prompt"):
		writeJSON(w, http.StatusBadRequest, refusal("no_prompt", "No prompt provided", "No prompt provided", nil))
	default:
		p.submit(w, r, body, &item{number: number, order: order, created: p.millis()})
	}
}

// takeNumber gives the item its place in line; the counter moves even for a
// prompt that is refused later.
func (p *process) takeNumber(body *object) (any, float64, bool) {
	if body != nil && body.has("number") {
		f, ok := toFloat(body.at["number"])
		return f, f, ok
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.number
	p.number++
	if body != nil && truthy(body.at["front"]) {
		n = -n
	}
	return n, float64(n), true
}

// submit validates the graph and puts it in line.
func (p *process) submit(w http.ResponseWriter, r *http.Request, body *object, it *item) {
	id, ok := p.promptID(body)
	if !ok {
		writeJSON(w, http.StatusBadRequest, refusal("invalid_prompt_id", "prompt_id must be a valid UUID",
			"prompt_id must be a UUID string in canonical lowercase hyphenated form; omit it to let the server generate one", nil))
		return
	}
	it.id = id
	v := &validation{s: p.s}
	switch status := v.judge(body); status {
	case verdictTrouble:
		writeTrouble(w)
		return
	case verdictRefused:
		writeJSON(w, http.StatusBadRequest, obj("error", v.fault, "node_errors", v.nodeErrors))
		return
	}
	if it.extra, ok = p.extraData(body, r, it.created); !ok {
		writeTrouble(w)
		return
	}
	it.prompt, it.outputs = v.prompt, v.good
	if err := p.enqueue(it); err != nil {
		writeTrouble(w)
		return
	}
	writeJSON(w, http.StatusOK, obj("prompt_id", it.id, "number", it.number, "node_errors", v.nodeErrors))
}

// canonical says whether id is a UUID in lower case with hyphens.
func canonical(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id
}

// promptID is the id to use. The older generation takes anything as text, even
// null; the newer one takes canonical UUIDs only.
func (p *process) promptID(body *object) (string, bool) {
	given := body.at["prompt_id"]
	if p.s.opts.Generation < V0_33_0 {
		if !body.has("prompt_id") {
			return uuid.NewString(), true
		}
		return str(given), true
	}
	if given == nil {
		return uuid.NewString(), true
	}
	id, ok := given.(string)
	return id, ok && canonical(id)
}

// extraData builds what is stored beside the prompt.
func (p *process) extraData(body *object, r *http.Request, created int64) (any, bool) {
	var extra any = obj()
	if body.has("extra_data") {
		extra = body.at["extra_data"]
	}
	o, isObject := extra.(*object)
	newer := p.s.opts.Generation >= V0_33_0
	if !isObject {
		_, isText := extra.(string)
		return extra, isText && !newer && !body.has("client_id")
	}
	o = o.clone()
	if body.has("client_id") {
		o.set("client_id", body.at["client_id"])
	}
	if newer {
		o.drop("auth_token_comfy_org")
		o.drop("api_key_comfy_org")
		if source := r.Header.Get("Comfy-Usage-Source"); source != "" && !o.has("comfy_usage_source") {
			o.set("comfy_usage_source", source)
		}
		o.set("create_time", created)
	}
	return o, true
}

// refusal is the body of a 400.
func refusal(kind, message, details string, extra *object) *object {
	return obj("error", problem(kind, message, details, extra), "node_errors", obj())
}

func problem(kind, message, details string, extra *object) *object {
	if extra == nil {
		extra = obj()
	}
	return obj("type", kind, "message", message, "details", details, "extra_info", extra)
}

// toFloat is Python's float(v).
func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
