package comfyfake

import (
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// hub keeps the sockets and the one send loop. The registry maps an id to the
// newest socket that came under it; the clean-up of an older one removes the
// newer one's entry, as in the real server.
type hub struct {
	p *process

	mu       sync.Mutex
	registry map[string]*socket
	open     map[*socket]struct{}
	out      []message
	held     *message
	sending  bool
	dead     bool
}

type socket struct {
	conn  atomic.Pointer[websocket.Conn] // nil until the handshake is answered
	ended atomic.Bool
	sid   string
	muted bool

	mu       sync.Mutex // held during the handshake and while a frame is written
	previews bool       // asked for preview metadata; guarded by hub.mu
}

// message is one frame for the socket of an id, or for all.
type message struct {
	to     string
	all    bool
	binary bool
	data   []byte
	due    time.Time // not to be sent earlier
}

func newHub(p *process) *hub {
	return &hub{p: p, registry: map[string]*socket{}, open: map[*socket]struct{}{}}
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// target is who a run's messages go to; none means everybody.
type target struct {
	id   string
	none bool
	odd  bool // a client id that is no text: it names no socket
}

// send queues one event. Events to a target without socket vanish.
func (h *hub) send(event string, data any, to target) {
	h.push(message{to: to.id, all: to.none, data: appendJSON(nil, obj("type", event, "data", data))}, to)
}

func (h *hub) sendBinary(event uint32, data []byte, to target) {
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), event)
	h.push(message{to: to.id, all: to.none, binary: true, data: append(frame, data...)}, to)
}

func (h *hub) status() {
	h.send("status", obj("status", h.p.execInfo()), target{none: true})
}

func (h *hub) push(m message, to target) {
	if to.odd {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return
	}
	h.queueLocked(m)
	if !h.sending && len(h.out) > 0 {
		h.sending = h.p.spawn(h.sendLoop)
	}
}

// queueLocked applies the message faults: late ones, doubles, and neighbours
// swapped.
func (h *hub) queueLocked(m message) {
	if !m.all {
		m.due = time.Now().Add(h.p.s.faults.lag(LateMessages))
	}
	if h.held != nil {
		h.out = append(h.out, m, *h.held)
		h.held = nil
		return
	}
	if !m.all && h.p.s.faults.active(ReorderMessages) {
		h.held = &m
		return
	}
	h.out = append(h.out, m)
	if !m.all && h.p.s.faults.active(DuplicateMessages) {
		h.out = append(h.out, m)
	}
}

// sendLoop writes frames one after the other until none is left: a client
// that does not read stops everybody.
func (h *hub) sendLoop() {
	for {
		h.mu.Lock()
		if h.dead || len(h.out) == 0 {
			h.sending = false
			h.mu.Unlock()
			return
		}
		m := h.out[0]
		if wait := time.Until(m.due); wait > 0 {
			h.mu.Unlock()
			if sleep(h.p.ctx, wait) != nil {
				return // the process ends, and nothing is sent any more
			}
			continue
		}
		h.out = h.out[1:]
		targets := h.targetsLocked(m)
		h.mu.Unlock()
		for _, s := range targets {
			h.write(s, m)
		}
	}
}

func (h *hub) targetsLocked(m message) []*socket {
	if !m.all {
		if s := h.registry[m.to]; s != nil {
			return []*socket{s}
		}
		return nil
	}
	list := make([]*socket, 0, len(h.registry))
	for _, s := range h.registry {
		list = append(list, s)
	}
	return list
}

func (h *hub) write(s *socket, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.writeLocked(h.p.ctx, s, m)
}

func (h *hub) writeLocked(ctx context.Context, s *socket, m message) {
	conn := s.conn.Load()
	if s.muted || conn == nil {
		return
	}
	kind := websocket.MessageText
	if m.binary {
		kind = websocket.MessageBinary
	}
	if err := conn.Write(ctx, kind, m.data); err != nil {
		h.p.s.opts.Log.Debug("socket write", "sid", s.sid, "err", err)
	}
}

// wantsPreviewData says whether the target asked for preview metadata.
func (h *hub) wantsPreviewData(to target) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.registry[to.id]
	return !to.none && !to.odd && s != nil && s.previews
}

func (h *hub) add(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registry[s.sid] = s
	h.open[s] = struct{}{}
}

func (h *hub) remove(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.registry, s.sid)
	delete(h.open, s)
}

// kill ends all sockets without a close frame, and sends nothing from now on.
func (h *hub) kill() {
	h.mu.Lock()
	h.dead = true
	h.out, h.held = nil, nil
	h.mu.Unlock()
	h.drop()
}

func (h *hub) drop() {
	h.mu.Lock()
	open := slices.Collect(maps.Keys(h.open))
	h.mu.Unlock()
	for _, s := range open {
		s.end(h.p.s.opts.Log)
		h.mu.Lock()
		delete(h.open, s)
		h.mu.Unlock()
	}
}

// end ends a socket without a close frame; one whose handshake is not answered
// yet, as soon as it is.
func (s *socket) end(log *slog.Logger) {
	s.ended.Store(true)
	if conn := s.conn.Load(); conn != nil {
		if err := conn.CloseNow(); err != nil {
			log.Debug("socket close", "sid", s.sid, "err", err)
		}
	}
}

// DropSockets ends every open websocket without a close frame; the process
// lives on.
func (s *Server) DropSockets() { s.current().hub.drop() }
