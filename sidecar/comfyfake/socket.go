package comfyfake

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// maxClientMessage is the longest message a client may send; longer ones
// close the socket with 1009.
const maxClientMessage = 4 << 20

// handleSocket registers the socket before the handshake is answered: who has
// a socket gets the messages of whatever it posts next.
func (p *process) handleSocket(w http.ResponseWriter, r *http.Request, _ string) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	sid := r.URL.Query().Get("clientId")
	if sid == "" {
		sid = randomHex(16)
	}
	s := &socket{sid: sid, muted: p.s.faults.take(r, MuteSocket)}
	defer p.hub.remove(s)
	if !p.greet(w, r, s) {
		return
	}
	if !s.ended.Load() {
		p.listen(s)
	}
	s.end(p.s.opts.Log)
}

// greet answers the handshake and sends what a new socket gets before
// anything else.
func (p *process) greet(w http.ResponseWriter, r *http.Request, s *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.hub.add(s)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		p.s.opts.Log.Debug("socket handshake", "err", err)
		return false
	}
	conn.SetReadLimit(maxClientMessage)
	s.conn.Store(conn)
	p.first(s, "status", obj("status", p.execInfo(), "sid", s.sid))
	if node := p.runningNode(s.sid); node != "" {
		p.first(s, "executing", obj("node", node))
	}
	return true
}

func (p *process) first(s *socket, event string, data *object) {
	p.hub.writeLocked(p.ctx, s, message{data: appendJSON(nil, obj("type", event, "data", data))})
}

// listen reads until the socket ends. Only the first message that is an
// object may carry feature flags.
func (p *process) listen(s *socket) {
	for first := true; ; {
		kind, data, err := s.conn.Load().Read(p.ctx)
		if err != nil {
			return
		}
		if kind != websocket.MessageText || !first {
			continue
		}
		v, err := parseJSON(data)
		m, ok := v.(*object)
		if err != nil || !ok {
			continue
		}
		first = false
		if m.text("type") == "feature_flags" {
			p.takeFlags(s, m.object("data"))
		}
	}
}

func (p *process) takeFlags(s *socket, flags *object) {
	p.hub.mu.Lock()
	s.previews = flags != nil && flags.at["supports_preview_metadata"] == true
	p.hub.mu.Unlock()
	p.hub.send("feature_flags", p.s.features(), target{id: s.sid})
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // crypto/rand never fails
	return hex.EncodeToString(b)
}
