package comfyfake

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var errPoisoned = errors.New("a job's workflow is not an object")

// job states as /api/jobs names them.
const (
	jobPending    = "pending"
	jobInProgress = "in_progress"
	jobCompleted  = "completed"
	jobFailed     = "failed"
	jobCancelled  = "cancelled"
)

func jobStates() []string {
	return []string{jobPending, jobInProgress, jobCompleted, jobFailed, jobCancelled}
}

// jobView is one job of the list.
type jobView struct {
	it     *item
	rec    *record // nil while it is not ended
	status string
}

// jobViews lists pending, running and ended jobs; the caller holds mu.
func (p *process) jobViews() []jobView {
	var list []jobView
	for _, it := range p.pending {
		list = append(list, jobView{it: it, status: jobPending})
	}
	if p.running != nil {
		list = append(list, jobView{it: p.running.it, status: jobInProgress})
	}
	for _, id := range p.past.order {
		rec := p.past.entries[id]
		list = append(list, jobView{it: rec.it, rec: rec, status: rec.jobStatus()})
	}
	return list
}

// jobStatus tells cancelled from failed by the last message.
func (rec *record) jobStatus() string {
	if rec.status == "success" {
		return jobCompleted
	}
	if rec.message("execution_interrupted") != nil {
		return jobCancelled
	}
	return jobFailed
}

// message is the data of the record's message of that type, or nil.
func (rec *record) message(kind string) *object {
	for _, m := range rec.messages {
		pair, ok := m.([]any)
		if ok && len(pair) == 2 && pair[0] == kind {
			data, _ := pair[1].(*object)
			return data
		}
	}
	return nil
}

// duration is the time a job ran in ms; 0 if it has not ended.
func (v jobView) duration() int64 {
	if v.rec == nil {
		return 0
	}
	start, end := v.rec.times()
	return end - start
}

func (rec *record) times() (start, end int64) {
	for i, m := range rec.messages {
		pair, ok := m.([]any)
		if !ok || len(pair) != 2 {
			continue
		}
		data, ok := pair[1].(*object)
		if !ok {
			continue
		}
		at, _ := intOf(data.at["timestamp"])
		if i == 0 {
			start = at
		}
		end = at
	}
	return start, end
}

// workflow is extra_pnginfo.workflow. A value that is no object breaks every
// answer the job would be in, as in the real server.
func (v jobView) workflow() (*object, error) {
	extra, _ := v.it.extra.(*object)
	if extra == nil || !extra.has("extra_pnginfo") {
		return nil, nil
	}
	info := extra.object("extra_pnginfo")
	if info == nil {
		return nil, errPoisoned
	}
	if !info.has("workflow") {
		return nil, nil
	}
	flow := info.object("workflow")
	if flow == nil {
		return nil, errPoisoned
	}
	return flow, nil
}

// object is the job's entry in the list; absent values are left out.
func (v jobView) object() (*object, error) {
	flow, err := v.workflow()
	if err != nil {
		return nil, err
	}
	o := obj("id", v.it.id, "status", v.status, "priority", v.it.number, "create_time", v.it.created)
	count := 0
	if v.rec != nil {
		start, end := v.rec.times()
		o.set("execution_start_time", start)
		o.set("execution_end_time", end)
		if e := v.rec.message("execution_error"); v.status == jobFailed && e != nil {
			o.set("execution_error", e)
		}
		count = countItems(v.rec.outputs)
	}
	o.set("outputs_count", count)
	o.set("previewable_outputs_count", count)
	if v.rec != nil {
		if best := bestPreview(v.rec.outputs); best != nil {
			o.set("preview_output", best)
		}
	}
	if flow != nil && flow.at["id"] != nil {
		o.set("workflow_id", flow.at["id"])
	}
	return o, nil
}

// outputItems calls f for each file item of the outputs.
func outputItems(outputs *object, f func(node, key string, it *object)) {
	for _, node := range outputs.keys {
		ui := outputs.object(node)
		for _, key := range ui.keys {
			list, _ := ui.at[key].([]any)
			for _, v := range list {
				if it, ok := v.(*object); ok && it.has("filename") {
					f(node, key, it)
				}
			}
		}
	}
}

func countItems(outputs *object) int {
	n := 0
	outputItems(outputs, func(string, string, *object) { n++ })
	return n
}

// bestPreview is the first saved file, else the first temporary one, else the
// first text.
func bestPreview(outputs *object) *object {
	var saved, temp *object
	outputItems(outputs, func(node, key string, it *object) {
		shown := it.clone()
		shown.set("nodeId", node)
		shown.set("mediaType", key)
		if saved == nil && it.text("type") == "output" {
			saved = shown
		}
		if temp == nil {
			temp = shown
		}
	})
	if saved != nil {
		return saved
	}
	if temp != nil {
		return temp
	}
	return textPreview(outputs)
}

func textPreview(outputs *object) *object {
	const most = 1024
	for _, node := range outputs.keys {
		list, _ := outputs.object(node).at["text"].([]any)
		if len(list) == 0 {
			continue
		}
		text := []rune(str(list[0]))
		o := obj("content", string(text[:min(len(text), most)]))
		if len(text) > most {
			o.set("truncated", true)
		}
		o.set("nodeId", node)
		o.set("mediaType", "text")
		return o
	}
	return nil
}

// jobQuery is the query of GET /api/jobs.
type jobQuery struct {
	states        []string // nil: all
	flow          string
	byFlow        bool
	byDuration    bool
	ascending     bool
	limit, offset int
	limited       bool
}

// readJobQuery returns what the 400 says if the query is bad.
func readJobQuery(q url.Values) (jobQuery, string) {
	out := jobQuery{flow: q.Get("workflow_id"), byFlow: q.Has("workflow_id")}
	if text := q.Get("status"); text != "" {
		var bad string
		if out.states, bad = readStates(text); bad != "" {
			return out, bad
		}
	}
	switch strings.ToLower(cmp.Or(q.Get("sort_by"), "created_at")) {
	case "created_at":
	case "execution_duration":
		out.byDuration = true
	default:
		return out, "sort_by must be 'created_at' or 'execution_duration'"
	}
	switch strings.ToLower(cmp.Or(q.Get("sort_order"), "desc")) {
	case "asc":
		out.ascending = true
	case "desc":
	default:
		return out, "sort_order must be 'asc' or 'desc'"
	}
	return out, out.readPage(q)
}

func readStates(text string) ([]string, string) {
	states, bad := []string{}, []string{}
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		word = strings.TrimSpace(word)
		switch {
		case slices.Contains(jobStates(), word):
			states = append(states, word)
		case word != "":
			bad = append(bad, word)
		}
	}
	if len(bad) > 0 {
		return nil, "Invalid status value(s): " + strings.Join(bad, ", ") + ". Valid values: " + strings.Join(jobStates(), ", ")
	}
	return states, ""
}

func (q *jobQuery) readPage(v url.Values) string {
	var err error
	if v.Has("limit") {
		q.limited = true
		if q.limit, err = strconv.Atoi(v.Get("limit")); err != nil {
			return "limit must be an integer"
		}
		if q.limit < 1 {
			return "limit must be a positive integer"
		}
	}
	if v.Has("offset") {
		if q.offset, err = strconv.Atoi(v.Get("offset")); err != nil {
			return "offset must be an integer"
		}
		q.offset = max(0, q.offset)
	}
	return ""
}

// keep filters by state; only what it keeps can poison the list.
func (q jobQuery) keep(v jobView) bool {
	if q.states == nil {
		return true
	}
	if v.rec != nil {
		return slices.ContainsFunc(q.states, func(s string) bool { return s != jobPending && s != jobInProgress })
	}
	return slices.Contains(q.states, v.status)
}

func (q jobQuery) compare(a, b jobView) int {
	c := cmp.Compare(a.it.created, b.it.created)
	if q.byDuration {
		c = cmp.Compare(a.duration(), b.duration())
	}
	if q.ascending {
		return c
	}
	return -c
}

func (p *process) handleJobs(w http.ResponseWriter, r *http.Request, _ string) {
	q, bad := readJobQuery(r.URL.Query())
	if bad != "" {
		writeJSON(w, http.StatusBadRequest, obj("error", bad))
		return
	}
	p.mu.Lock()
	jobs, err := q.answer(p.jobViews())
	p.mu.Unlock()
	if err != nil {
		writeTrouble(w)
		return
	}
	writeJSON(w, http.StatusOK, jobs)
}

func (q jobQuery) answer(views []jobView) (*object, error) {
	slices.SortStableFunc(views, q.compare)
	jobs := []any{}
	for _, v := range views {
		if !q.keep(v) {
			continue
		}
		o, err := v.object()
		if err != nil {
			return nil, err
		}
		if q.states != nil && !slices.Contains(q.states, v.status) {
			continue
		}
		if q.byFlow && o.at["workflow_id"] != any(q.flow) {
			continue
		}
		jobs = append(jobs, o)
	}
	total, limit := len(jobs), any(nil)
	jobs = jobs[min(q.offset, total):]
	more := false
	if q.limited {
		limit = q.limit
		more = len(jobs) > q.limit
		jobs = jobs[:min(q.limit, len(jobs))]
	}
	return obj("jobs", jobs, "pagination", obj("offset", q.offset, "limit", limit, "total", total, "has_more", more)), nil
}
