package routes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// readSubmission reads a graph to run: JSON, or a form that brings files along.
func (c *call) readSubmission() (sidecar.PromptRequest, error) {
	if !c.isForm() {
		fields, err := c.readPayload("Invalid JSON body: ")
		if err != nil {
			return sidecar.PromptRequest{}, err
		}
		return decodeSubmission(fields)
	}
	s := submission{call: c, files: map[string]*sidecar.Upload{}, staged: map[string]bool{}}
	err := c.readForm(s.part)
	if err == nil {
		err = s.complete()
	}
	s.req.Files = s.files
	return s.req, err
}

func (c *call) isForm() bool {
	return strings.HasPrefix(strings.ToLower(c.r.Header.Get("Content-Type")), "multipart/")
}

func (c *call) readPayload(leadIn string) (manifest.Values, error) {
	raw, err := c.readBody()
	if err != nil {
		return nil, err
	}
	return parsePayload(raw, leadIn, "Request body must be a JSON object.")
}

// parsePayload reads a JSON object that may be as deep as a graph; an empty
// text and null are an empty one.
func parsePayload(raw []byte, leadIn, notObject string) (manifest.Values, error) {
	plain := bytes.TrimSpace(raw)
	if len(plain) == 0 || string(plain) == "null" {
		return nil, nil
	}
	fields, err := manifest.ParseObject(raw, manifest.Limits{Depth: payloadDepth})
	switch {
	case errors.Is(err, manifest.ErrNotObject):
		return nil, badRequest(notObject, "Send one JSON object.")
	case err != nil:
		return nil, &fault{code: sidecar.CodeBadRequest, message: leadIn + plainly(err), hint: "Correct the JSON at that place.", cause: err}
	}
	return fields, nil
}

// formPartsMax is how many parts a form may have: ComfyUI's largest batch, and
// the payload.
const formPartsMax = 4096 + 1

// readForm hands each part of a form to take, which reads it and bounds its
// size.
func (c *call) readForm(take func(*multipart.Part) error) error {
	_, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return badRequest("No multipart boundary was given.", "Send 'Content-Type: multipart/form-data; boundary=…'.")
	}
	body := &uploadBody{c.r.Body, c.control(), c.r.Context()}
	stop := context.AfterFunc(body.ctx, body.cut)
	defer stop()
	form := multipart.NewReader(body, params["boundary"])
	for n := 1; ; n++ {
		part, err := form.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return c.liftDeadline()
		case err == nil && n > formPartsMax:
			err = tooManyFiles()
		case err == nil:
			err = take(part)
		}
		if err != nil {
			c.drain(body)
			return formFault(err)
		}
	}
}

func tooManyFiles() *fault {
	return &fault{
		code: sidecar.CodeTooLarge, message: fmt.Sprintf("The form brings too many files. At most %d are taken.", formPartsMax-1),
		hint: "Send fewer files with one run.",
	}
}

// drainLimit is how much of a refused body is read: a client that is still
// sending hears no answer.
const drainLimit = 1 << 20

// drain reads what is left of a refused body, or else has the connection
// closed: it would be read as the next request.
func (c *call) drain(body io.Reader) {
	if n, err := io.CopyN(io.Discard, body, drainLimit); err == nil || !errors.Is(err, io.EOF) {
		c.w.Header().Set("Connection", "close")
		c.log.Debug("a refused body was cut", "read", n, "err", err, "request_id", c.id)
	}
}

// liftDeadline: an answer may take as long as it wants again.
func (c *call) liftDeadline() error {
	if err := c.control().SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("lift the read deadline: %w", err)
	}
	return nil
}

func formFault(err error) error {
	var own *fault
	var refusal *sidecar.Error
	if errors.As(err, &own) || errors.As(err, &refusal) {
		return err
	}
	return &fault{code: sidecar.CodeBadRequest, message: "The form did not arrive whole.", hint: "Send it again, as multipart/form-data.", cause: err}
}

// readField reads a part that is kept in memory, which is bounded like the body
// of other requests.
func (c *call) readField(part io.Reader) ([]byte, error) {
	return io.ReadAll(c.boundPart(part, c.tooLarge(c.opts.MaxRequestBytes)))
}

// boundedPart is a part of a form that is too large beyond a limit.
type boundedPart struct {
	io.Reader
	left  int64
	large *fault
}

// boundPart bounds a part like the body of other requests.
func (c *call) boundPart(part io.Reader, large *fault) *boundedPart {
	return &boundedPart{part, c.opts.MaxRequestBytes, large}
}

// Read tells of a byte too many in place of it.
func (b *boundedPart) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.Reader.Read(p)
	if int64(n) > b.left {
		return int(b.left), b.large
	}
	b.left -= int64(n)
	return n, err
}

// submission is a form that is being read: the payload, then its files.
type submission struct {
	*call
	req     sidecar.PromptRequest
	decoded bool
	uploads []announced
	files   map[string]*sidecar.Upload // by the names that the graph uses
	staged  map[string]bool            // fields that came
}

// announced is a file that the payload speaks of.
type announced struct {
	field, name, kind string
	size              int64 // -1 when it is not told
}

func (s *submission) part(part *multipart.Part) error {
	if part.FormName() == "payload" {
		return s.payload(part)
	}
	if !s.decoded {
		return badRequest("Proxy multipart payload must be sent before file parts.", "Send the part 'payload' first.")
	}
	i := slices.IndexFunc(s.uploads, func(a announced) bool { return a.field == part.FormName() })
	if i < 0 {
		return badRequest(fmt.Sprintf("Unexpected proxy upload field '%s'.", part.FormName()), "List each file under 'uploads' of the payload.")
	}
	name := s.uploads[i].name
	if name == "" {
		name = part.FileName()
	}
	kind := s.uploads[i].kind
	if kind == "" {
		kind = part.Header.Get("Content-Type")
	}
	if s.staged[part.FormName()] {
		return badRequest(fmt.Sprintf("Proxy upload field '%s' came twice.", part.FormName()), "Send one part for each entry of 'uploads'.")
	}
	limit := s.opts.MaxRequestBytes
	large := badRequest(fmt.Sprintf("Proxy upload '%s' is too large. Limit: %d bytes.", name, limit), "Raise the worker's --max-request-mb.")
	if s.uploads[i].size > limit {
		return large
	}
	file, err := s.studio.TakeInput(s.r.Context(), sidecar.InputRequest{
		Owner: workerSession, Name: name, Type: kind, Limit: limit, Body: part,
	})
	var refusal *sidecar.Error
	if errors.As(err, &refusal) && refusal.Code == sidecar.CodeTooLarge {
		return large
	}
	if err != nil {
		return err
	}
	s.files[name], s.staged[part.FormName()] = file, true
	return nil
}

func (s *submission) payload(part io.Reader) error {
	raw, err := s.readField(part)
	if err != nil {
		return err
	}
	fields, err := parsePayload(raw, "Invalid proxy payload JSON: ", "Proxy payload must be a JSON object.")
	if err != nil {
		return err
	}
	if s.req, err = decodeSubmission(fields); err != nil {
		return err
	}
	s.decoded = true
	list, _ := fields.Get("uploads")
	listed := elementsOf(list)
	if len(listed) >= formPartsMax {
		return tooManyFiles()
	}
	for _, one := range listed {
		members, err := manifest.ParseObject(one, manifest.Limits{Depth: payloadDepth})
		if err != nil {
			continue // no object: names no file
		}
		s.uploads = append(s.uploads, announced{
			looseText(members, "field_name"), looseText(members, "comfyui_filename"), looseText(members, "content_type"),
			looseSize(members, "size"),
		})
	}
	return nil
}

func (s *submission) complete() error {
	if !s.decoded {
		return badRequest("Proxy run request is missing a payload field.", "Send the part 'payload' first.")
	}
	var missing []string
	for _, a := range s.uploads {
		if a.field != "" && !s.staged[a.field] && !slices.Contains(missing, a.field) {
			missing = append(missing, a.field)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return badRequest("Proxy run request is missing upload file part(s): "+strings.Join(missing, ", ")+".", "Send a part for each entry of 'uploads'.")
}
