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
		if bytes.HasPrefix(bytes.TrimSpace(one), []byte("{")) {
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
