package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// remote is a sidecar that is spoken to over HTTP.
type remote struct {
	base    string
	session string
	token   tokenFlag
	pause   time.Duration // before what was not answered is asked again
}

// refusal is a sidecar's error answer.
type refusal struct {
	Status  int    `json:"http_status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Issues  []struct {
		Message string `json:"message"`
		Input   string `json:"input_name"`
	} `json:"issues,omitempty"`
}

func (r *refusal) Error() string { return r.Message }

// exit is the code that a process ends with for the refusal.
func (r *refusal) exit() int {
	switch r.Code {
	case codeSilent, "comfyui_unavailable", "proxy_unavailable":
		return exitUnavailable
	case codeUnreadable:
		if r.Status >= http.StatusBadGateway { // of a proxy before the sidecar
			return exitUnavailable
		}
	}
	if r.Status == http.StatusBadRequest || r.Status == http.StatusRequestEntityTooLarge {
		return exitInvalid
	}
	return exitFailed
}

func (r *remote) url(parts ...string) string {
	path := ""
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return r.base + path
}

// do sends a request; any answer but 2xx is a *refusal. The caller closes the
// body.
func (r *remote) do(ctx context.Context, method, url string, body io.Reader, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, misuse("--url (STUDIO_SIDECAR_URL): %v", err)
	}
	req.Header.Set("X-ComfyGit-Studio-Session", r.session)
	r.token.show(req)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if f, ok := body.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			req.ContentLength = info.Size()
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, r.silent(errors.Unwrap(err))
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readRefusal(resp)
}

func readRefusal(resp *http.Response) error {
	var doc struct {
		Code    string          `json:"error"`
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Hint    string          `json:"hint"`
		Issues  json.RawMessage `json:"issues"`
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, healthMax))
	if err != nil || json.Unmarshal(raw, &doc) != nil {
		return &refusal{Status: resp.StatusCode, Code: codeUnreadable, Message: fmt.Sprintf("the sidecar answered HTTP %d", resp.StatusCode)}
	}
	out := &refusal{Status: resp.StatusCode, Code: doc.Code, Message: doc.Message, Hint: doc.Hint}
	if out.Status == http.StatusUnauthorized {
		out.Hint = tokenAdvice
	}
	if out.Code == "" {
		out.Code = doc.Status
	}
	if len(doc.Issues) > 0 && json.Unmarshal(doc.Issues, &out.Issues) != nil {
		out.Issues = nil // an answer of another shape still has its message
	}
	return out
}

const (
	// codeSilent is the code of a request that was not answered, or not to the end.
	codeSilent   = "sidecar_unavailable"
	silentAdvice = "Look whether it runs, and at the address in --url."
	// codeUnreadable is that of an answer that no sidecar gives.
	codeUnreadable = "unreadable"
)

func (r *remote) silent(cause error) *refusal {
	return &refusal{Status: http.StatusBadGateway, Code: codeSilent, Message: fmt.Sprintf("no sidecar answers at %s: %v", r.base, cause), Hint: silentAdvice}
}

// get reads JSON.
func (r *remote) get(ctx context.Context, url string, answer any) error {
	return r.call(ctx, http.MethodGet, url, nil, nil, answer)
}

// keyHeader names a request, so that it can be sent again.
const keyHeader = "Idempotency-Key"

// post sends JSON and reads JSON. What is not answered is sent again under the
// same key: it is done once.
func (r *remote) post(ctx context.Context, url string, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	header := map[string]string{"Content-Type": "application/json", keyHeader: rand.Text()}
	for tries := 0; ; tries++ {
		err := r.call(ctx, http.MethodPost, url, raw, header, answer)
		var refused *refusal
		if !errors.As(err, &refused) || refused.Code != codeSilent || tries >= followTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(r.pause):
		}
	}
}

func (r *remote) call(ctx context.Context, method, url string, body []byte, header map[string]string, answer any) error {
	resp, err := r.do(ctx, method, url, bytes.NewReader(body), header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return r.silent(err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, url, err)
	}
	return nil
}

// contractForm is the part of a contract that the command line needs.
type contractForm struct {
	Inputs []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"inputs"`
}

func (f *contractForm) typeOf(name string) string {
	for _, in := range f.Inputs {
		if in.Name == name {
			return strings.ToLower(in.Type)
		}
	}
	return ""
}

func (r *remote) form(ctx context.Context, workflow, contract string) (*contractForm, error) {
	var form contractForm
	err := r.get(ctx, r.url("contracts", workflow, contract), &form)
	return &form, err
}

// upload sends a file and returns the reference to give as its input's value.
func (r *remote) upload(ctx context.Context, path string) (json.RawMessage, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, misuse("%v", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, misuse("%v", err)
	}
	if info.IsDir() {
		return nil, misuse("%s is a folder; name a file", path)
	}
	var slot struct {
		URL     string            `json:"upload_url"`
		Headers map[string]string `json:"headers"`
		Ref     json.RawMessage   `json:"file_ref"`
	}
	ask := map[string]any{"filename": filepath.Base(path), "mime_type": mime.TypeByExtension(filepath.Ext(path)), "size": info.Size()}
	if err := r.post(ctx, r.url("uploads", "prepare"), ask, &slot); err != nil {
		return nil, err
	}
	target, err := r.resolve(slot.URL)
	if err != nil {
		return nil, err
	}
	resp, err := r.do(ctx, http.MethodPut, target, file, slot.Headers)
	if err != nil {
		return nil, err
	}
	return slot.Ref, resp.Body.Close()
}

// resolve makes an address of an answer absolute.
func (r *remote) resolve(ref string) (string, error) {
	base, err := url.Parse(r.base + "/")
	if err != nil {
		return "", fmt.Errorf("read address %s: %w", r.base, err)
	}
	u, err := base.Parse(ref)
	if err != nil {
		return "", fmt.Errorf("read address %s: %w", ref, err)
	}
	return u.String(), nil
}

// receipt is the answer to a run that was launched.
type receipt struct {
	ID     string          `json:"run_id"`
	Issues json.RawMessage `json:"issues"` // warnings, a JSON array
}

// warnings are the sentences of the receipt's issues.
func (r *receipt) warnings() []string {
	var issues []struct {
		Message string `json:"message"`
	}
	var said []string
	if json.Unmarshal(r.Issues, &issues) != nil {
		return nil // of another shape: it stands in the JSON report
	}
	for _, issue := range issues {
		said = append(said, issue.Message)
	}
	return said
}

// launch starts a run.
func (r *remote) launch(ctx context.Context, workflow, contract string, inputs map[string]json.RawMessage) (receipt, error) {
	var answer receipt
	err := r.post(ctx, r.url("contracts", workflow, contract, "run"), map[string]any{"inputs": inputs}, &answer)
	return answer, err
}

func (r *remote) cancel(ctx context.Context, id string) error {
	var ignored map[string]any
	return r.post(ctx, r.url("runs", id, "cancel"), struct{}{}, &ignored)
}

type galleryItem struct {
	Name     string `json:"outputName"`
	Type     string `json:"type"`
	Filename string `json:"filename"`
	URL      string `json:"url"`
	Artifact struct {
		Text string `json:"text"`
	} `json:"artifact"`
}

// state reads the run as it is.
func (r *remote) state(ctx context.Context, id string) (*outcome, error) {
	var doc struct {
		Run struct {
			Status  string `json:"status"`
			Outcome string `json:"outcome"`
			Error   string `json:"error"`
		} `json:"run"`
		Items []galleryItem `json:"gallery_items"`
	}
	if err := r.get(ctx, r.url("runs", id), &doc); err != nil {
		return nil, err
	}
	return &outcome{RunID: id, Status: doc.Run.Status, Outcome: doc.Run.Outcome, Message: doc.Run.Error, items: doc.Items}, nil
}

// ended reports whether there is nothing more to wait for.
func (o *outcome) ended() bool {
	return o.Status == "completed" || o.Status == "error" || o.Status == "cancelled"
}

const (
	// followPause is how long a lost stream waits before it is opened again.
	followPause = 500 * time.Millisecond
	// followTries is how often a sidecar that does not answer is asked again:
	// enough for its restart. The run goes on without us.
	followTries = 60
)

// follow reads the run's events until it has ended, and shows its progress. A
// stream that ends is not the run's end: it is opened again where it was lost.
func (r *remote) follow(ctx context.Context, id string, show func(progressEvent)) (*outcome, error) {
	after := "0"
	for tries := 0; ; tries++ {
		heard := r.listen(ctx, id, &after, show)
		end, err := r.state(ctx, id)
		switch {
		case err == nil && end.ended() || ctx.Err() != nil:
			return end, err
		case err == nil || heard:
			tries = 0
		case tries >= followTries:
			return &outcome{RunID: id}, fmt.Errorf("follow run %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.pause):
		}
	}
}

// listen reads the stream until it says that the run has ended, or breaks; it
// keeps the number of the last event and reports whether any came.
func (r *remote) listen(ctx context.Context, id string, after *string, show func(progressEvent)) (heard bool) {
	resp, err := r.do(ctx, http.MethodGet, r.url("runs", id, "events")+"?after="+*after, nil, nil)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	name := ""
	for {
		line, err := lines.ReadString('\n')
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch {
		case field == "id":
			*after, heard = value, true
		case field == "event":
			name = value
		case field == "data" && name == "progress":
			var p progressEvent
			if json.Unmarshal([]byte(value), &p) == nil {
				show(p)
			}
		case field == "data" && (name == "run_completed" || name == "run_failed" || name == "run_cancelled" || name == "reset"):
			return true
		}
		if err != nil {
			return heard
		}
	}
}

// download writes the run's files into dir.
func (r *remote) download(ctx context.Context, end *outcome, dir string) ([]outputFile, error) {
	files := []outputFile{}
	for _, item := range end.items {
		file := outputFile{Name: item.Name, Type: item.Type, Text: item.Artifact.Text}
		if item.URL != "" {
			target, err := r.resolve(item.URL)
			if err != nil {
				return files, err
			}
			resp, err := r.do(ctx, http.MethodGet, target, nil, nil)
			if err != nil {
				return files, fmt.Errorf("fetch %s: %w", item.Filename, err)
			}
			file.Path, err = save(resp.Body, dir, item.Filename)
			if err := errors.Join(err, resp.Body.Close()); err != nil {
				return files, err
			}
		}
		files = append(files, file)
	}
	return files, nil
}
