package sidecar

import "sync"

// mailboxes bring news from the backend to the followers of runs.
type mailboxes struct {
	mu       sync.Mutex
	byRun    map[RunID]*mailbox
	byPrompt map[PromptID]*mailbox
}

// mailbox collects news for one follower. It holds hints only: losing one
// costs time, never a result.
type mailbox struct {
	run   RunID
	ready chan struct{} // holds one token while there is something to take

	mu    sync.Mutex
	news  []News
	poked bool // somebody changed the run
}

// mailboxMax bounds what a stalled follower piles up; news beyond it is
// dropped, and history tells in the end.
const mailboxMax = 4096

func (m *mailboxes) open(id RunID) *mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byRun == nil {
		m.byRun, m.byPrompt = map[RunID]*mailbox{}, map[PromptID]*mailbox{}
	}
	box := &mailbox{run: id, ready: make(chan struct{}, 1)}
	m.byRun[id] = box
	return box
}

// address makes news about prompt reach box.
func (m *mailboxes) address(prompt PromptID, box *mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byPrompt[prompt] = box
}

func (m *mailboxes) close(id RunID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	box := m.byRun[id]
	delete(m.byRun, id)
	for prompt, b := range m.byPrompt {
		if b == box {
			delete(m.byPrompt, prompt)
		}
	}
}

func (m *mailboxes) of(prompt PromptID) *mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byPrompt[prompt]
}

// poke wakes the follower of a run, if there is one.
func (m *mailboxes) poke(id RunID) {
	m.mu.Lock()
	box := m.byRun[id]
	m.mu.Unlock()
	if box != nil {
		box.poke()
	}
}

func (m *mailboxes) all() []*mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	boxes := make([]*mailbox, 0, len(m.byRun))
	for _, box := range m.byRun {
		boxes = append(boxes, box)
	}
	return boxes
}

func (b *mailbox) put(n News) {
	b.mu.Lock()
	if len(b.news) < mailboxMax {
		b.news = append(b.news, n)
	}
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) poke() {
	b.mu.Lock()
	b.poked = true
	b.mu.Unlock()
	b.wake()
}

func (b *mailbox) wake() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take empties the box. poked tells that somebody else changed the run.
func (b *mailbox) take() (news []News, poked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	news, poked = b.news, b.poked
	b.news, b.poked = nil, false
	return news, poked
}

// hear sorts news: progress and previews are latest values, the rest goes to
// the follower that it concerns, or to all.
func (s *Studio) hear(n News) {
	switch n.Kind {
	case NewsAway:
		s.live.unreached()
		s.health.ask()
		return
	case NewsConnected, NewsDisconnected:
		s.live.connected(n.Kind == NewsConnected, n.Epoch)
		s.health.ask()
		s.connected.Ring()
	}
	if n.Prompt == "" {
		for _, box := range s.boxes.all() {
			box.put(n)
		}
		return
	}
	box := s.boxes.of(n.Prompt)
	if box == nil {
		return
	}
	s.live.heard(box.run, n.Epoch)
	switch n.Kind {
	case NewsProgress:
		s.live.progress(box.run, n.Progress)
	case NewsPreview:
		s.live.preview(box.run, n.Preview)
	default:
		box.put(n)
	}
}

// bells is a Bell for each run that somebody waits for.
type bells struct {
	mu    sync.Mutex
	byRun map[RunID]*runBell
}

type runBell struct {
	Bell
	waiting int
}

// open returns the bell of a run; whoever opens it closes it.
func (b *bells) open(id RunID) *runBell {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byRun == nil {
		b.byRun = map[RunID]*runBell{}
	}
	bell, ok := b.byRun[id]
	if !ok {
		bell = &runBell{}
		b.byRun[id] = bell
	}
	bell.waiting++
	return bell
}

func (b *bells) close(id RunID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bell := b.byRun[id]
	bell.waiting--
	if bell.waiting == 0 {
		delete(b.byRun, id)
	}
}

func (b *bells) ring(id RunID) {
	b.mu.Lock()
	bell := b.byRun[id]
	b.mu.Unlock()
	if bell != nil {
		bell.Ring()
	}
}
