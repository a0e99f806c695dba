package routes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	bodyDepth = 64
	// bodyPause is how long a client may send nothing of its body.
	bodyPause = 30 * time.Second
	// longest is the longest time that a client may name: the rest would not
	// fit a time.Duration.
	longest = 100 * 365 * 24 * time.Hour
)

// runRequest is a decoded request to run a contract.
type runRequest struct {
	values manifest.Values
	wait   bool
	limit  time.Duration // of the wait, or of the run that nobody waits for; 0: none
	poll   time.Duration // how often a backend is to be asked; 0: as it likes
	holds
}

var controlKeys = []string{"wait", "timeout_seconds", "poll_interval_seconds"}

// readRun reads a request to run a contract; inputs tells which names are
// inputs of it.
func (c *call) readRun(inputs func(string) bool) (runRequest, error) {
	raw, err := c.readBody()
	if err != nil {
		return runRequest{}, err
	}
	fields, err := parseBody(raw, `Send {"inputs": {"name": value, …}}.`)
	if err != nil {
		return runRequest{}, err
	}
	return decodeRun(fields, inputs)
}

// readBody reads a bounded body. A client may take its time as long as
// something comes.
func (c *call) readBody() ([]byte, error) { return c.readUpTo(c.opts.MaxRequestBytes) }

func (c *call) readUpTo(limit int64) ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	if err := checkCharset(c.r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	body := &pacedReader{http.MaxBytesReader(c.w.ResponseWriter, c.r.Body, limit), c.control()}
	if c.r.ContentLength > limit {
		return nil, c.tooLarge(limit)
	}
	raw, err := readSaid(body, c.r.ContentLength)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, c.tooLarge(limit)
	case err != nil:
		return nil, &fault{code: "bad_request", message: "The request body did not arrive whole.", hint: "Send it again.", cause: err}
	}
	// An answer may take as long as it wants again.
	if err := c.control().SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, fmt.Errorf("lift the read deadline: %w", err)
	}
	return raw, nil
}

// readSaid is io.ReadAll for what is said to be of a length, or -1: memory for
// all of it is taken when an eighth is there.
func readSaid(body io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 {
		if _, err := io.CopyN(&b, body, length/8); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		b.Grow(int(length) - b.Len() + bytes.MinRead)
	}
	_, err := b.ReadFrom(body)
	return b.Bytes(), err
}

type pacedReader struct {
	io.Reader
	control *http.ResponseController
}

// Read gives the client its time for the next bytes.
func (p *pacedReader) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(bodyPause)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("set the read deadline: %w", err)
	}
	return p.Reader.Read(b)
}

// tooLarge tells of a limit, and of the flag that raises it if one does.
func (c *call) tooLarge(limit int64) *fault {
	if limit != c.opts.MaxRequestBytes {
		return &fault{
			code: sidecar.CodeTooLarge, message: fmt.Sprintf("Request body is too large. At most %d KiB are read here.", limit>>10),
			hint: "Send what the route takes, and nothing more.",
		}
	}
	return &fault{
		code: sidecar.CodeTooLarge,
		message: fmt.Sprintf("Request body is too large. This cg serve instance accepts contract requests up to %d MiB.",
			limit>>20),
		hint: "Upload files first and name them in the inputs, or raise --max-request-mb.",
	}
}

func checkCharset(contentType string) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil // types are not looked at, as in the reference
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return nil
	}
	return badRequest("The request body has to be UTF-8, not "+params["charset"]+".", "Send the JSON as UTF-8.")
}

// parseBody reads a JSON object; an empty body and null are an empty one. What is
// none is answered with form, which says what to send.
func parseBody(raw []byte, form string) (manifest.Values, error) {
	plain := bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if len(plain) == 0 || string(plain) == "null" {
		return nil, nil
	}
	fields, err := manifest.ParseObject(raw, manifest.Limits{Depth: bodyDepth})
	switch {
	case errors.Is(err, manifest.ErrNotObject):
		return nil, badRequest("Request body must be a JSON object.", form)
	case err != nil:
		return nil, &fault{code: "bad_request", message: "Invalid JSON body: " + plainly(err), hint: "Correct the JSON at that place.", cause: err}
	}
	return fields, nil
}

// plainly says what is wrong with a JSON text, and where.
func plainly(err error) string {
	var twice *manifest.DuplicateError
	var syntax *manifest.SyntaxError
	switch {
	case errors.As(err, &twice):
		return fmt.Sprintf("%q is given twice", twice.Name)
	case errors.As(err, &syntax):
		return syntax.Error()
	}
	return err.Error()
}

func decodeRun(fields manifest.Values, inputs func(string) bool) (runRequest, error) {
	var req runRequest
	var err error
	fields, asked := splitHolds(fields, inputs)
	if req.holds, err = decodeHolds(asked); err != nil {
		return req, err
	}
	if req.values, err = inputsOf(fields); err != nil {
		return req, err
	}
	if req.wait, err = waitOf(fields); err != nil {
		return req, err
	}
	if req.limit, err = secondsOf(fields, "timeout_seconds"); err != nil {
		return req, err
	}
	// For other sidecars alone: here runs are followed as they move.
	req.poll, err = secondsOf(fields, "poll_interval_seconds")
	return req, err
}

// inputsOf are the inputs: those under "inputs", or else all members but the
// control keys.
func inputsOf(fields manifest.Values) (manifest.Values, error) {
	raw, ok := fields.Get("inputs")
	if !ok {
		return fields.Without(controlKeys...), nil
	}
	values, err := manifest.ParseObject(raw, manifest.Limits{Depth: bodyDepth})
	if err != nil {
		return nil, badRequest("'inputs' must be a JSON object.", `Send {"inputs": {"name": value, …}}.`)
	}
	return values, nil
}

func waitOf(fields manifest.Values) (bool, error) { return flagOf(fields, "wait") }

func flagOf(fields manifest.Values, name string) (bool, error) {
	raw, ok := fields.Get(name)
	switch {
	case !ok:
		return false, nil
	case string(raw) == "true", string(raw) == `"true"`:
		return true, nil
	case string(raw) == "false", string(raw) == `"false"`:
		return false, nil
	}
	return false, badRequest("'"+name+"' must be true or false.", "Send it as a JSON boolean, or leave it out.")
}

var plainDecimal = regexp.MustCompile(`^"[0-9]{1,40}(\.[0-9]{1,40})?"$`)

// secondsOf reads a time in seconds above 0.
func secondsOf(fields manifest.Values, name string) (time.Duration, error) {
	raw, ok := fields.Get(name)
	if !ok {
		return 0, nil
	}
	number := string(raw)
	if plainDecimal.Match(raw) {
		number = strings.Trim(number, `"`)
	}
	seconds, err := strconv.ParseFloat(number, 64)
	if err != nil || !(seconds > 0) || math.IsInf(seconds, 0) || raw[0] != '"' && strings.Trim(number[:1], "0123456789") != "" {
		return 0, badRequest(fmt.Sprintf("'%s' must be a number of seconds above 0.", name), "Send a JSON number such as 30, or leave it out.")
	}
	if seconds > longest.Seconds() {
		return longest, nil
	}
	return max(time.Duration(seconds*float64(time.Second)), time.Nanosecond), nil
}
