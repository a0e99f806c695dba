package comfy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

const (
	// frameLimit bounds a message: execution_error prints whole tensors.
	frameLimit = 64 << 20
	// pongWithin is how long a ping may go unanswered.
	pongWithin = 20 * time.Second
	// keepEvery is how often the socket is looked after.
	keepEvery = time.Second
	// backOff is the pause before the first reconnect; it doubles up to
	// backOffMax. A connection that held for steadyAfter starts it anew.
	backOff     = 100 * time.Millisecond
	backOffMax  = 5 * time.Second
	steadyAfter = 5 * time.Second
)

// features must be the first message on a socket: it makes ComfyUI name the
// prompt and the node with each preview.
const features = `{"type":"feature_flags","data":{"supports_preview_metadata":true}}`

var (
	errDeaf     = errors.New("the socket says nothing although the queue moved")
	errSilent   = errors.New("the socket does not answer a ping")
	errWatching = errors.New("watch: somebody watches already")
)

// Watch listens on one socket at a time, each under a client id of its own,
// until ctx ends. A second Watch beside it is refused.
func (e *Executor) Watch(ctx context.Context, report func(sidecar.News)) error {
	if !e.watching.TryLock() {
		return errWatching
	}
	defer e.watching.Unlock()
	told := false // that it is down, since it stood for a while
	for pause := backOff; ; {
		began := time.Now()
		err := e.listen(ctx, report)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		held := time.Since(began)
		if held >= steadyAfter {
			pause, told = backOff, false
		}
		level := slog.LevelInfo
		if told {
			level = slog.LevelDebug
		}
		e.opts.Logger.Log(ctx, level, "ComfyUI's socket is down", "err", err, "held", held.Round(time.Millisecond))
		told = true
		if wait(ctx, jittered(pause)) != nil {
			return ctx.Err()
		}
		pause = min(2*pause, backOffMax)
	}
}

func jittered(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))/2
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen keeps one connection until it breaks.
func (e *Executor) listen(ctx context.Context, report func(sidecar.News)) (err error) {
	defer e.abilities.forget() // another ComfyUI may come up there
	defer e.link.down()
	conn, err := e.dial(ctx, e.link.dialing())
	if err != nil {
		report(sidecar.News{Kind: sidecar.NewsAway})
		return err
	}
	defer func() {
		if shut := conn.CloseNow(); !errors.Is(shut, io.EOF) {
			e.opts.Logger.Debug("close socket", "err", shut)
		}
	}()
	e.link.opened()
	s := &session{e: e, conn: conn, report: report}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.read(ctx) })
	g.Go(func() error { return s.keep(ctx) })
	err = g.Wait()
	if s.decoder != nil {
		report(sidecar.News{Kind: sidecar.NewsDisconnected, Epoch: s.decoder.epoch})
	}
	return err
}

func (e *Executor) dial(ctx context.Context, client string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	address := e.opts.URL + "/ws?clientId=" + url.QueryEscape(client)
	conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: e.http.socket})
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	conn.SetReadLimit(frameLimit)
	if err := conn.Write(ctx, websocket.MessageText, []byte(features)); err != nil {
		return nil, errors.Join(fmt.Errorf("open socket: %w", err), conn.CloseNow())
	}
	return conn, nil
}

// session is one connection.
type session struct {
	e       *Executor
	conn    *websocket.Conn
	report  func(sidecar.News)
	decoder *decoder // set with the first message: then ComfyUI knows the socket
}

func (s *session) read(ctx context.Context) error {
	for {
		kind, r, err := s.conn.Reader(ctx)
		if err != nil {
			return fmt.Errorf("read socket: %w", err)
		}
		data, err := io.ReadAll(&counted{r: r, link: s.e.link})
		if err != nil {
			return fmt.Errorf("read socket: %w", err)
		}
		s.e.link.message()
		if s.decoder == nil {
			s.decoder = newDecoder(s.e, s.e.link.up(), s.report)
			s.report(sidecar.News{Kind: sidecar.NewsConnected, Epoch: s.decoder.epoch})
		}
		if kind == websocket.MessageText {
			s.decoder.text(data)
		} else {
			s.decoder.binary(data)
		}
	}
}

// counted notes the bytes of a long message as signs of life.
type counted struct {
	r    io.Reader
	link *link
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.link.bytes()
	return n, err
}

// keep pings a silent socket and gives up one that is dead or deaf: one that
// answers a ping and still owes a message a moment later.
func (s *session) keep(ctx context.Context) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for doubted := false; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		quiet, deaf := s.e.link.silence()
		if deaf && doubted {
			return errDeaf
		}
		doubted = deaf
		if !deaf && quiet < s.e.opts.PingEvery {
			continue
		}
		if err := s.ping(ctx); err != nil {
			return err
		}
	}
}

func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pongWithin)
	defer cancel()
	err := s.conn.Ping(ctx)
	if err == nil {
		s.e.link.bytes()
		return nil
	}
	// A pong waits behind a long message that is still coming in.
	if quiet, _ := s.e.link.silence(); quiet < pongWithin {
		return nil
	}
	return fmt.Errorf("%w: %w", errSilent, err)
}
