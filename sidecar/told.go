package sidecar

import (
	"bytes"
	"encoding/json"
	"slices"
)

// MarshalJSON writes an artifact that another sidecar told of in its words,
// with our copy's place in them.
func (a artifactDoc) MarshalJSON() ([]byte, error) {
	type plain artifactDoc
	if a.told == nil {
		return mustJSON(plain(a)), nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(a.told, &doc); err != nil {
		return nil, err
	}
	// An address in those words holds for the other sidecar alone.
	delete(doc, "url")
	delete(doc, "serve_artifact")
	if a.Ref != "" {
		delete(doc, "upload_field")
		doc["url"], doc["serve_artifact"] = mustJSON(a.URL), mustJSON(a.Ref)
		doc["content_type"] = mustJSON(a.ContentType)
	}
	return mustJSON(doc), nil
}

// document is an output as it is stored and shown: in another sidecar's words,
// where it told of it.
func (res *Result) document() json.RawMessage {
	var doc map[string]json.RawMessage
	if res.Told == nil || json.Unmarshal(res.Told, &doc) != nil {
		return mustJSON(outputOf(res))
	}
	var artifacts []json.RawMessage
	if json.Unmarshal(doc["artifacts"], &artifacts) != nil || artifacts == nil {
		return mustJSON(doc)
	}
	at := 0
	for i, raw := range artifacts {
		if isObject(raw) && at < len(res.Artifacts) {
			artifacts[i] = mustJSON(res.artifact(at))
			at++
		}
	}
	doc["artifacts"] = mustJSON(artifacts)
	return mustJSON(doc)
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// toldResult is the result of a run whose end another sidecar reported.
func toldResult(r *Run, told json.RawMessage) json.RawMessage {
	var doc map[string]json.RawMessage
	if json.Unmarshal(told, &doc) != nil || doc == nil {
		doc = map[string]json.RawMessage{}
	}
	doc["run_id"] = mustJSON(r.ID)
	if r.PromptID != "" {
		doc["prompt_id"] = mustJSON(r.PromptID)
	}
	return mustJSON(doc)
}

// withIssues adds what another sidecar remarked to a run's issues. What is no
// object, or was remarked before, is left out.
func withIssues(issues, more json.RawMessage) json.RawMessage {
	all, added := objectsOf(issues), false
	for _, issue := range objectsOf(more) {
		if !slices.ContainsFunc(all, func(known json.RawMessage) bool { return bytes.Equal(known, issue) }) {
			all, added = append(all, issue), true
		}
	}
	if !added {
		return issues
	}
	return mustJSON(all)
}

func objectsOf(list json.RawMessage) []json.RawMessage {
	var all, kept []json.RawMessage
	if json.Unmarshal(list, &all) != nil {
		return nil
	}
	for _, one := range all {
		if isObject(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// CopiesOf are the references of our own copies in results.
func CopiesOf(results []Result) []string {
	var refs []string
	for _, res := range results {
		for _, file := range res.Files {
			if file.Ref != "" && !slices.Contains(refs, file.Ref) {
				refs = append(refs, file.Ref)
			}
		}
	}
	return refs
}
