package routes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/textproto"
	"time"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	keyLimit       = 255 // characters
	// loneKey is how long a key has to be that stands for itself: nobody is to
	// guess it.
	loneKey = 16
	// answerLimit is how much of an answer is kept with its command; what is
	// longer is rendered from the run again.
	answerLimit = 256 << 10 // bytes
	cookieSet   = "Set-Cookie"
)

const (
	// codeKeyReused is the code of a key that came with another request before,
	// codeCarriedOut of a request whose answer is lost for good.
	codeKeyReused  sidecar.Code = "idempotency_key_reused"
	codeCarriedOut sidecar.Code = "command_carried_out"
)

// changes tells whether the route changes what If-Match and Idempotency-Key
// are about: all but those that read, sign in and out, take files under a
// token of their own, and hear from workers.
func (r Route) changes() bool {
	return !r.open && (r.Method == http.MethodPost || r.Method == http.MethodDelete || r.Method == http.MethodPatch)
}

// perform lets the route answer. What comes with a key is carried out once,
// what comes with If-Match for the revisions alone that it names: both are
// brought to the store by the context of the request.
func (c *call) perform(r Route) error {
	if !r.stream {
		defer c.waitOut()()
	}
	if !r.changes() || c.opts.Role == RoleProxy {
		return r.handle(c)
	}
	expect, err := c.expected()
	if err != nil {
		return err
	}
	given := c.r.Header.Values(keyHeader)
	if len(given) == 0 {
		c.bring(&sidecar.Order{Expect: expect})
		return r.handle(c)
	}
	command, err := c.readCommand(r, given)
	if err != nil {
		return err
	}
	return c.once(r, &sidecar.Order{Command: command, Expect: expect})
}

// bring gives the order to what the call is about to change.
func (c *call) bring(o *sidecar.Order) {
	c.order = o
	c.r = c.r.WithContext(sidecar.WithOrder(c.r.Context(), o))
}

func (c *call) readCommand(r Route, given []string) (*sidecar.Command, error) {
	owner := sidecar.SessionID(c.givenSession())
	key, err := readKey(given, owner != "")
	if err != nil {
		return nil, err
	}
	limit := c.opts.MaxRequestBytes
	if r.terse {
		limit = editBytes
	}
	if c.raw, err = c.readUpTo(limit); err != nil {
		return nil, err
	}
	command := &sidecar.Command{
		Owner: owner, Key: key, Hash: c.hash(c.raw), Session: owner, Kind: r.Name, At: time.Now().UTC().Truncate(time.Millisecond),
	}
	if owner == "" {
		c.assigned = newSession()
		command.Session = sidecar.SessionID(c.assigned)
	}
	return command, nil
}

// readKey takes a key as it is, or as the text in quotes that the draft of the
// header has.
func readKey(given []string, sessionGiven bool) (string, error) {
	key := given[0]
	if n := len(key); n > 1 && key[0] == '"' && key[n-1] == '"' {
		key = key[1 : n-1]
	}
	valid := len(given) == 1 && key != "" && len(key) <= keyLimit
	for i := range len(key) {
		valid = valid && key[i] >= ' ' && key[i] <= '~'
	}
	if !valid {
		return "", badRequest("'Idempotency-Key' must be one text of 1 to 255 printable ASCII characters.", "Send a new UUID for each new request.")
	}
	if !sessionGiven && len(key) < loneKey {
		return "", badRequest("An 'Idempotency-Key' without a session must have 16 characters or more.",
			"Send a UUID, or name your session in "+sessionHeader+".")
	}
	return key, nil
}

// hash stands for what is asked for: the same key has to come with the same.
func (c *call) hash(body []byte) []byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s?%s\n", c.r.Method, c.r.URL.EscapedPath(), c.r.URL.RawQuery)
	sum.Write(body)
	return sum.Sum(nil)
}

// once answers as the command was answered before, or carries it out.
func (c *call) once(r Route, order *sidecar.Order) error {
	ctx, command := c.r.Context(), order.Command
	turn, err := c.turns.take(ctx, turnKey{command.Owner, command.Key})
	if err != nil {
		return err
	}
	c.turn = turn
	defer turn.release()
	stored, err := c.asked(ctx, command)
	switch {
	case err != nil:
		return err
	case stored == nil:
		return c.carryOut(r, order)
	case !bytes.Equal(stored.Hash, command.Hash):
		return &fault{
			code: codeKeyReused, message: "This Idempotency-Key came with another request before.",
			hint: "Send a new key with a new request; repeat a request with the same path and body.",
		}
	}
	c.w.Header().Set(replayedHeader, "true")
	c.assigned = string(stored.Session)
	if stored.Answer != nil {
		c.replay(stored.Answer)
		return nil
	}
	// The change was made, of the revision that was meant, but nobody was told:
	// that is left to do.
	c.resumed = stored
	r.handle = retelling(r.handle)
	return c.carryOut(r, &sidecar.Order{Command: stored})
}

// asked finds what was asked for under the key before: by this session, or by
// whoever had none and was given this one.
func (c *call) asked(ctx context.Context, command *sidecar.Command) (*sidecar.Command, error) {
	stored, err := c.studio.Command(ctx, command.Owner, command.Key)
	if err != nil || stored != nil || command.Owner == "" {
		return stored, err
	}
	lone, err := c.studio.Command(ctx, "", command.Key)
	if err != nil || lone == nil || lone.Session != command.Owner {
		return nil, err
	}
	return lone, nil
}

// retelling lets a handler answer for what was done before. Where it refuses to
// do so twice, the answer is the run that it changed, as that is now.
func retelling(handle handler) handler {
	return func(c *call) error {
		err := handle(c)
		if err == nil || statusOf(c.faultOf(err).code) >= http.StatusInternalServerError || c.relaunched || c.resumed.Run == "" {
			return err
		}
		run, err := c.studio.Lookup(c.r.Context(), c.session().Scope, c.resumed.Run)
		if err != nil {
			return err
		}
		s, t := c.shape(), text{}
		t.open('{')
		t.str("status", string(run.Status))
		t.str("run_id", string(run.ID))
		s.run(&t, "run", run)
		s.slots(&t, run)
		s.items(&t, run)
		t.close('}')
		c.json(http.StatusOK, t.b)
		return nil
	}
}

// carryOut lets the route answer, keeps the answer and sends it. While two wait
// for one run, the answer of whoever is first is everybody's.
func (c *call) carryOut(r Route, order *sidecar.Order) error {
	c.bring(order)
	rec, err := c.record(r.handle)
	answer := rec.answer()
	foretold := order.Settled() && order.Command.Answer != nil
	if !foretold && len(answer.Body) <= answerLimit && c.keeps(order, err) {
		command := *order.Command
		command.Answer = answer
		stored, err := c.studio.AnswerCommand(c.r.Context(), &command)
		switch {
		case err != nil:
			c.log.Error("keep an answer", "err", err, "request_id", c.id)
		case bytes.Equal(stored.Hash, command.Hash):
			answer = stored.Answer
		}
	}
	c.replay(answer)
	return nil
}

// keeps decides whether an answer is for ever. That of a call which changed
// nothing is not, nor is a failure of ours, the end of a wait, or what nobody
// was there to hear.
func (c *call) keeps(order *sidecar.Order, err error) bool {
	if err != nil && statusOf(c.faultOf(err).code) >= http.StatusInternalServerError || c.r.Context().Err() != nil {
		return false
	}
	return order.Settled() || c.resumed != nil
}

// foretell keeps an answer together with the change that it tells of, which
// cannot be told of later.
func (c *call) foretell(status int, body []byte) {
	if c.order.Command == nil {
		return
	}
	c.jsonHeaders()
	c.order.Command.Answer = &sidecar.Answer{Status: status, Header: kept(c.w.Header()), Body: body}
}

// replay sends an answer that was rendered before.
func (c *call) replay(a *sidecar.Answer) {
	h := c.w.Header()
	for name, values := range a.Header {
		if name == cookieSet {
			c.session()
			continue
		}
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	if a.Status == http.StatusNoContent || a.Status == http.StatusNotModified {
		c.w.WriteHeader(a.Status)
		return
	}
	c.body(a.Status, a.Body)
}

// passing are headers of one answer, not of what it says.
var passing = []string{"X-Request-Id", "Content-Length", "Connection", "Date", replayedHeader}

func kept(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range passing {
		h.Del(name)
	}
	if h.Get(cookieSet) != "" {
		h[cookieSet] = []string{} // the command has the session: it opens more than this answer
	}
	return h
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

// record lets a handler, or the refusal that it returns, answer a recorder.
func (c *call) record(handle handler) (*recorder, error) {
	out := c.w
	defer func() { c.w = out }()
	rec := &recorder{ResponseWriter: out.ResponseWriter, header: http.Header{}}
	c.w = &answer{ResponseWriter: rec}
	err := handle(c)
	if err != nil {
		c.fail(err)
	}
	return rec, err
}

// Header is of the answer that is kept.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the final status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write keeps what is written.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) answer() *sidecar.Answer {
	r.WriteHeader(http.StatusOK)
	return &sidecar.Answer{Status: r.status, Header: kept(r.header), Body: r.body.Bytes()}
}
