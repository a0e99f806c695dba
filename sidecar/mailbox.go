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
	run RunID

	mu    sync.Mutex
	scope Scope
	news  []News
	ready chan struct{} // holds one token while news is not empty
}

// mailboxMax bounds what a stalled follower piles up; node news beyond it is
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
func (m *mailboxes) address(prompt PromptID, scope Scope, box *mailbox) {
	m.mu.Lock()
	m.byPrompt[prompt] = box
	m.mu.Unlock()
	box.mu.Lock()
	box.scope = scope
	box.mu.Unlock()
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
		box.put(News{})
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
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() []News {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := b.news
	b.news = nil
	return news
}

func (b *mailbox) owner() Scope {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scope
}

// hear sorts news: progress and previews are latest values, the rest goes to
// the follower that it concerns, or to all.
func (s *Studio) hear(n News) {
	switch n.Kind {
	case NewsConnected, NewsDisconnected:
		s.live.connected(n.Kind == NewsConnected, n.Epoch)
		s.health.heard(n.Kind == NewsConnected)
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
	switch n.Kind {
	case NewsProgress:
		s.live.progress(box.run, box.owner(), n.Progress)
	case NewsPreview:
		s.live.preview(box.run, box.owner(), n.Preview)
	default:
		box.put(n)
	}
}

// bells is a Bell for each run that somebody waits for.
type bells struct {
	mu    sync.Mutex
	byRun map[RunID]chan struct{}
}

func (b *bells) wait(id RunID) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch, ok := b.byRun[id]
	if !ok {
		ch = make(chan struct{})
		if b.byRun == nil {
			b.byRun = map[RunID]chan struct{}{}
		}
		b.byRun[id] = ch
	}
	return ch
}

func (b *bells) ring(id RunID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch, ok := b.byRun[id]; ok {
		close(ch)
		delete(b.byRun, id)
	}
}
