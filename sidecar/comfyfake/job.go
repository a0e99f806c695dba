package comfyfake

import "net/http"

func (p *process) handleJob(w http.ResponseWriter, _ *http.Request, id string) {
	p.mu.Lock()
	view, ok := p.findJob(id)
	var answer *object
	var err error
	if ok {
		answer, err = view.detail()
	}
	p.mu.Unlock()
	switch {
	case !ok:
		writeJSON(w, http.StatusNotFound, obj("error", "Job not found"))
	case err != nil:
		writeTrouble(w)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// handleCancelNamed answers GET /api/jobs/cancel, which asks for a job of that
// name.
func (p *process) handleCancelNamed(w http.ResponseWriter, r *http.Request, _ string) {
	p.handleJob(w, r, "cancel")
}

// findJob prefers the ended run of an id that is also in line.
func (p *process) findJob(id string) (jobView, bool) {
	if rec := p.past.entries[id]; rec != nil {
		return jobView{it: rec.it, rec: rec, status: rec.jobStatus()}, true
	}
	for _, v := range p.jobViews() {
		if v.it.id == id {
			return v, true
		}
	}
	return jobView{}, false
}

// detail is the list entry and, for an ended job, what it made.
func (v jobView) detail() (*object, error) {
	o, err := v.object()
	if err != nil || v.rec == nil {
		return o, err
	}
	o.set("outputs", v.rec.outputs)
	o.set("execution_status", v.rec.statusObject())
	o.set("workflow", obj("prompt", v.it.prompt, "extra_data", v.it.extra))
	return o, nil
}

// cancel removes a pending job or interrupts the running one; of duplicates it
// hits the running one.
func (p *process) cancelJob(id string) bool {
	return p.interruptRun(id) || p.removePending(id)
}

func (p *process) handleCancelJob(w http.ResponseWriter, _ *http.Request, id string) {
	writeJSON(w, http.StatusOK, obj("cancelled", p.cancelJob(id)))
}

func (p *process) handleCancelJobs(w http.ResponseWriter, r *http.Request, _ string) {
	v, err := parseBody(r)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, obj("error", "Request body must be valid JSON"))
		return
	}
	body, _ := v.(*object)
	if body == nil {
		writeJSON(w, http.StatusBadRequest, obj("error", "job_ids must be a list"))
		return
	}
	list, ok := body.at["job_ids"].([]any)
	if !ok {
		writeJSON(w, http.StatusBadRequest, obj("error", "job_ids must be a list"))
		return
	}
	bad := []any{}
	for _, id := range list {
		if text, ok := id.(string); !ok || !canonical(text) {
			bad = append(bad, str(id))
		}
	}
	if len(bad) > 0 {
		writeJSON(w, http.StatusBadRequest, obj("error", "job_ids contains invalid id(s)", "invalid_ids", bad))
		return
	}
	hit := false
	for _, id := range list {
		hit = p.cancelJob(str(id)) || hit
	}
	writeJSON(w, http.StatusOK, obj("cancelled", hit))
}
