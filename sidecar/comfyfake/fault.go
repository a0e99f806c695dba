package comfyfake

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Kind is what a fault does.
type Kind int

const (
	// Delay lets the route act and answer after Fault.Delay, whether or not the
	// client still waits.
	Delay Kind = iota + 1
	// Refuse closes the connection without an answer.
	Refuse
	// Answer gives Status, Header and Body in place of the route's answer;
	// the route does not act.
	Answer
	// Cut lets the route answer and closes the connection after Bytes bytes
	// of its body.
	Cut
	// Hang holds the request until the fault is released, then closes.
	Hang
	// BrokenJSON lets the route act and sends the first half of its body as a
	// whole answer.
	BrokenJSON
	// ActThenAnswer lets the route act, throws its answer away and gives
	// Status (500 if zero) and Body: accepted, yet reported as failed.
	ActThenAnswer
	// ActThenRefuse lets the route act and closes the connection in place of
	// the answer.
	ActThenRefuse

	// MuteSocket makes a websocket opened meanwhile accept and send nothing.
	MuteSocket
	// DuplicateMessages sends each message of a run twice.
	DuplicateMessages
	// ReorderMessages swaps each pair of messages of a run.
	ReorderMessages
	// HistoryLag stores history only Delay after the run's last message.
	HistoryLag
	// LateMessages lets a run's messages reach its socket Delay late, previews
	// too, while the run itself, history and queue go on: the one send loop of
	// the real server falls behind like that under many previews. The order
	// stays, so whatever is sent after a late message waits with it. Times and
	// After count messages.
	LateMessages
	// IgnoreInterrupt takes interrupts and cancels and does nothing.
	IgnoreInterrupt
	// OldInterrupt makes every interrupt global, as builds before targeted
	// interrupts do.
	OldInterrupt
)

// Fault is one scripted misbehaviour. Kinds below MuteSocket act on requests
// that Method and Route match, the later ones on the server as a whole.
type Fault struct {
	Kind Kind
	// Method restricts the fault to one method; empty means all.
	Method string
	// Route is a path without /api; "/history" stands for itself and
	// "/history/" for everything below it. Empty means every route.
	Route string
	// After lets that many matching requests pass first.
	After int
	// Times ends the fault after that many uses; zero means until released.
	Times int
	// Delay is the time of Delay, HistoryLag and LateMessages.
	Delay time.Duration
	// Status, Header and Body are the answer of Answer and ActThenAnswer.
	Status int
	Header http.Header
	Body   string
	// Bytes is how much of the body Cut lets through.
	Bytes int64
}

// Fault arms a fault. Among faults for the same request the first armed wins.
// The returned release disarms it and lets its hung requests end; it may be
// called twice.
func (s *Server) Fault(f Fault) (release func()) {
	a := &armed{Fault: f, released: make(chan struct{})}
	s.faults.mu.Lock()
	s.faults.list = append(s.faults.list, a)
	s.faults.mu.Unlock()
	return a.release
}

// ClearFaults releases all faults.
func (s *Server) ClearFaults() {
	s.faults.mu.Lock()
	list := s.faults.list
	s.faults.list = nil
	s.faults.mu.Unlock()
	for _, a := range list {
		a.release()
	}
}

type armed struct {
	Fault
	seen, used int // guarded by faultList.mu
	released   chan struct{}
	once       sync.Once
}

func (a *armed) release() { a.once.Do(func() { close(a.released) }) }

func (a *armed) over() bool {
	select {
	case <-a.released:
		return true
	default:
		return a.Times > 0 && a.used >= a.Times
	}
}

func (a *armed) matches(r *http.Request) bool {
	if a.Method != "" && a.Method != r.Method {
		return false
	}
	path := r.URL.Path
	if bare, ok := strings.CutPrefix(path, "/api/"); ok {
		path = "/" + bare
	}
	if strings.HasSuffix(a.Route, "/") {
		return strings.HasPrefix(path, a.Route)
	}
	return a.Route == "" || a.Route == path
}

type faultList struct {
	mu   sync.Mutex
	list []*armed
}

// pick uses up and returns the fault for a request, or nil.
func (l *faultList) pick(r *http.Request) *armed {
	return l.use(func(a *armed) bool { return a.Kind < MuteSocket && a.matches(r) })
}

// take uses up a fault of one kind for a request.
func (l *faultList) take(r *http.Request, k Kind) bool {
	return l.use(func(a *armed) bool { return a.Kind == k && a.matches(r) }) != nil
}

// spend uses up a fault of one kind.
func (l *faultList) spend(k Kind) bool {
	return l.use(func(a *armed) bool { return a.Kind == k }) != nil
}

func (l *faultList) use(fits func(*armed) bool) *armed {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.list {
		if a.over() || !fits(a) {
			continue
		}
		a.seen++
		if a.seen > a.After {
			a.used++
			return a
		}
	}
	return nil
}

// active says whether a fault of that kind is armed, without using it up.
func (l *faultList) active(k Kind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.list {
		if a.Kind == k && !a.over() {
			return true
		}
	}
	return false
}

// lag uses up a fault of one kind and returns its delay.
func (l *faultList) lag(k Kind) time.Duration {
	if a := l.use(func(a *armed) bool { return a.Kind == k }); a != nil {
		return a.Delay
	}
	return 0
}
