package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
	"github.com/comfygit-ai/studio-sidecar/sidecar/backend"
)

const (
	// streamPause is the first pause before a stream is opened again; it
	// doubles up to streamPauseMax.
	streamPause    = 250 * time.Millisecond
	streamPauseMax = 10 * time.Second
	// streamSilence is the longest silence of a stream: a worker sends a
	// comment every 15 s.
	streamSilence = 45 * time.Second
	// eventLimit bounds one event, previewLimit one picture.
	eventLimit   = 4 << 20
	previewLimit = 16 << 20
)

var errNoEvents = errors.New("the worker tells no events")

// Watch reads the events of a worker of ours, once an answer of it showed that
// it is one. A reference worker is not asked for news, of which it has none: it
// is asked for its runs.
func (e *Executor) Watch(ctx context.Context, report func(sidecar.News)) error {
	pause, first := streamPause, true
	for epoch := 1; ; epoch++ {
		from, err := e.http.met.wait(ctx)
		if err != nil {
			return err
		}
		path := "/proxy/events"
		if first {
			path += fmt.Sprintf("?after=%d", from) // nothing was missed
		} else {
			e.wake("")
		}
		began := time.Now()
		err = e.listen(ctx, path, epoch, report)
		first = errors.Is(err, errNoEvents)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.opts.Logger.Debug("worker's events ended", "err", err)
		switch {
		case errors.Is(err, errNoEvents):
			e.http.met.forget()
			pause = streamPause
		case time.Since(began) > streamPauseMax:
			pause = streamPause
		default:
			pause = min(2*pause, streamPauseMax)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// listen reads one stream to its end.
func (e *Executor) listen(ctx context.Context, path string, epoch int, report func(sidecar.News)) (err error) {
	ctx, idle, stop := backend.Watched(ctx, streamSilence)
	defer stop()
	req, err := e.http.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	idle.Start()
	resp, err := e.http.files.Do(req)
	if err != nil {
		report(sidecar.News{Kind: sidecar.NewsAway})
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	kind := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusOK && !strings.HasPrefix(kind, "text/event-stream"):
		return errNoEvents
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: HTTP %d", req.URL.Path, resp.StatusCode)
	}
	l := &listener{Executor: e, ctx: ctx, epoch: epoch, report: report}
	report(sidecar.News{Kind: sidecar.NewsConnected, Epoch: epoch})
	defer report(sidecar.News{Kind: sidecar.NewsDisconnected, Epoch: epoch})
	return l.read(&backend.Paced{Reader: resp.Body, Idle: idle})
}

// listener turns events into news.
type listener struct {
	*Executor
	ctx    context.Context // of the stream
	epoch  int
	report func(sidecar.News)
}

func (l *listener) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, eventLimit)
	name, data := "", []byte(nil)
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case len(line) == 0:
			if name != "" {
				l.event(name, data)
			}
			name, data = "", nil
		case bytes.HasPrefix(line, []byte("event: ")):
			name = string(line[len("event: "):])
		case bytes.HasPrefix(line, []byte("data: ")):
			data = bytes.Clone(line[len("data: "):])
		}
	}
	return lines.Err()
}

// told is what is read of an event.
type told struct {
	Run     sidecar.RunID              `json:"run_id"`
	Targets map[string]json.RawMessage `json:"targets"`
	V       int64                      `json:"v"`
	Node    *toldNode                  `json:"node"`
	Value   float64                    `json:"value"`
	Max     float64                    `json:"max"`
	Done    int                        `json:"done"`
	Total   int                        `json:"total"`
	Stepped []sidecar.NodeID           `json:"stepped"`
}

type toldNode struct {
	ID         sidecar.NodeID `json:"id"`
	Class      string         `json:"class_type"`
	Title      string         `json:"title"`
	Parent     sidecar.NodeID `json:"parent"`
	Cached     bool           `json:"cached"`
	FinishedAt string         `json:"finishedAt"`
	Error      string         `json:"error"`
}

func (n toldNode) ref() sidecar.NodeRef {
	return sidecar.NodeRef{ID: n.ID, Class: n.Class, Title: n.Title, Parent: n.Parent, Error: n.Error}
}

func (l *listener) event(name string, data []byte) {
	if name == "reset" {
		l.wake("")
		l.tell(sidecar.News{Kind: sidecar.NewsConnected})
		return
	}
	var doc told
	if json.Unmarshal(data, &doc) != nil || sidecar.PromptOfRun(doc.Run) == "" {
		return
	}
	prompt := sidecar.PromptOfRun(doc.Run)
	switch name {
	case "progress":
		if doc.Node != nil {
			l.tell(sidecar.News{Kind: sidecar.NewsProgress, Prompt: prompt, Progress: sidecar.Progress{
				Node: doc.Node.ref(), Value: doc.Value, Max: doc.Max, Done: doc.Done, Total: doc.Total, Stepped: doc.Stepped,
			}})
		}
	case "preview":
		l.preview(prompt, doc.V)
	default:
		l.change(prompt, doc.Targets)
	}
}

func (l *listener) tell(n sidecar.News) {
	n.Epoch = l.epoch
	l.report(n)
}

// change tells of what an event of the log changed.
func (l *listener) change(prompt sidecar.PromptID, targets map[string]json.RawMessage) {
	var run struct {
		Status sidecar.Status `json:"status"`
		Phase  sidecar.Phase  `json:"phase"`
	}
	if json.Unmarshal(targets["run"], &run) != nil {
		return
	}
	if run.Phase == sidecar.PhaseExecuting {
		l.tell(sidecar.News{Kind: sidecar.NewsStarted, Prompt: prompt})
	}
	for name, raw := range targets {
		l.node(prompt, name, raw)
	}
	if run.Status.Terminal() {
		l.hasten(prompt)
		l.tell(sidecar.News{Kind: sidecar.NewsEnding, Prompt: prompt})
		l.tell(sidecar.News{Kind: sidecar.NewsQueue})
	}
}

func (l *listener) node(prompt sidecar.PromptID, name string, raw json.RawMessage) {
	id, ok := strings.CutPrefix(name, "nodes/")
	var node toldNode
	if !ok || json.Unmarshal(raw, &node) != nil {
		return
	}
	node.ID = sidecar.NodeID(id)
	if cut := strings.LastIndexByte(id, '/'); cut > 0 {
		node.ID = sidecar.NodeID(id[:cut])
	}
	switch {
	case node.Cached:
		l.tell(sidecar.News{Kind: sidecar.NewsCached, Prompt: prompt, Nodes: []sidecar.NodeRef{node.ref()}})
	case node.FinishedAt != "":
		l.tell(sidecar.News{Kind: sidecar.NewsNodeDone, Prompt: prompt, Node: node.ref()})
	default:
		l.tell(sidecar.News{Kind: sidecar.NewsNode, Prompt: prompt, Node: node.ref()})
	}
}

// preview brings the picture that a version names. One that is gone already
// was overtaken by a newer one.
func (l *listener) preview(prompt sidecar.PromptID, version int64) {
	ctx, stop := context.WithTimeout(l.ctx, l.opts.CallTimeout)
	defer stop()
	path := fmt.Sprintf("/proxy/runs/%s/preview?v=%d", url.PathEscape(string(prompt)), version)
	req, err := l.http.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return
	}
	a, err := l.http.send(l.http.api, req)
	if err != nil || a.Status != http.StatusOK || len(a.Body) > previewLimit {
		l.opts.Logger.Debug("no preview", "prompt", prompt, "status", a.Status, "err", err)
		return
	}
	kind := a.Header.Get("Content-Type")
	l.tell(sidecar.News{Kind: sidecar.NewsPreview, Prompt: prompt, Preview: sidecar.Preview{Type: kind, Data: a.Body}})
}
