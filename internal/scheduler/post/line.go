package post

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	ownWindow = 1 << 20          // bytes that the other side may send for one answer, and for all together without being told of room
	quiet     = 15 * time.Second // without a word while answers are due, after which it is asked whether anybody is there; twice that, and the connection counts as lost
	firstSize = 16 << 10         // of frames, until the other side allows more
	firstRoom = 65535            // of windows (RFC 9113, 6.9.2)
	mostOpen  = 100              // streams at once, until the other side says how many

	mostStreams = 160 // whatever the other side says: API servers turn away more than 200 writes at once of all clients together, by default
)

// protobuf is the type of bodies that say nothing else, and of answers.
const protobuf = "application/vnd.kubernetes.protobuf"

// call is one request.
type call struct {
	Request
	token  string
	first  bool // goes before those that are not
	lazy   bool // leaves with others
	then   func(Answer, error)
	answer Answer
}

// fixed is the same for all calls.
type fixed struct{ authority, prefix, agent string }

// line is one connection: callers add frames to out, one goroutine writes them, one reads answers.
type line struct {
	conn net.Conn
	from *gathering // under conn
	same fixed
	wake chan struct{} // capacity one: something is to be written
	dead chan struct{} // closed when the connection has ended

	mu      sync.Mutex
	out     []byte
	busy    bool          // answers are being handed out; what is called for meanwhile leaves when that is done
	frames  *http2.Framer // writes into out
	block   bytes.Buffer
	headers *hpack.Encoder
	calls
	peer
}

// calls are those without an answer.
type calls struct {
	next    uint32 // number of the next stream
	active  map[uint32]*call
	waiting [2][]*call // for a stream; those that go first, then the others
	err     error      // why the line takes no more
	emptied []chan struct{}
}

// peer is what the other side allows and when it was last heard of.
type peer struct {
	streams int
	window  int64 // bytes that may be sent
	each    int64 // of these for one call
	size    int   // of a frame
	heard   time.Time
	asked   bool
}

func newLine(conn net.Conn, from *gathering, same fixed) (*line, error) {
	l := &line{conn: conn, from: from, same: same, wake: make(chan struct{}, 1), dead: make(chan struct{}),
		calls: calls{next: 1, active: map[uint32]*call{}}, peer: peer{streams: mostOpen, window: firstRoom, each: firstRoom, size: firstSize, heard: time.Now()}}
	l.frames = http2.NewFramer((*sink)(l), nil)
	l.headers = hpack.NewEncoder(&l.block)
	l.out = append(l.out, http2.ClientPreface...)
	err := l.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: ownWindow})
	if err = errors.Join(err, l.frames.WriteWindowUpdate(0, ownWindow)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.ring()
	go l.write()
	go l.read()
	go l.listen()
	return l, nil
}

// sink appends to out; mu is held.
type sink line

// Write appends.
func (s *sink) Write(b []byte) (int, error) {
	s.out = append(s.out, b...)
	return len(b), nil
}

func (l *line) ring() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *line) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil
}

// take starts a call or lets it wait for a stream.
func (l *line) take(c *call) {
	l.mu.Lock()
	err := l.err
	switch {
	case err != nil:
	case len(c.Body) > l.size || int64(len(c.Body)) > l.each:
		err = fmt.Errorf("%d bytes are too many for one frame", len(c.Body))
	case len(l.waiting[0])+len(l.waiting[1]) >= mostWait:
		err = errors.New("too many calls wait")
	default:
		k := 1
		if c.first {
			k = 0
		}
		l.waiting[k] = append(l.waiting[k], c)
		l.pump()
		if !c.lazy && !l.busy {
			l.ring()
		}
	}
	l.mu.Unlock()
	if err != nil {
		c.then(Answer{}, fmt.Errorf("%w: %w", ErrNotSent, err))
	}
}

// pump starts what waits, as far as the other side allows; mu is held.
func (l *line) pump() {
	for k := range l.waiting {
		for len(l.waiting[k]) > 0 && len(l.active) < l.streams && int64(len(l.waiting[k][0].Body)) <= l.window && l.err == nil {
			c := l.waiting[k][0]
			l.waiting[k][0] = nil
			if l.waiting[k] = l.waiting[k][1:]; len(l.waiting[k]) == 0 {
				l.waiting[k] = nil
			}
			l.start(c)
		}
	}
}

// start writes a call's frames; mu is held. Writing into memory does not fail.
func (l *line) start(c *call) {
	id := l.next
	l.next += 2
	l.active[id] = c
	l.window -= int64(len(c.Body))
	c.answer.method = c.Method
	body := cmp.Or(c.Type, protobuf)
	l.block.Reset()
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: c.Method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: l.same.authority}, {Name: ":path", Value: l.same.prefix + c.Path, Sensitive: true},
		{Name: "content-type", Value: body}, {Name: "accept", Value: protobuf}, {Name: "user-agent", Value: l.same.agent},
	} {
		_ = l.headers.WriteField(f)
	}
	if c.token != "" {
		_ = l.headers.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer " + c.token})
	}
	for from, size := 0, l.size; from == 0 || from < l.block.Len(); from += size {
		part := l.block.Bytes()[from:min(from+size, l.block.Len())]
		end := from+size >= l.block.Len()
		if from == 0 {
			_ = l.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndHeaders: end})
		} else {
			_ = l.frames.WriteContinuation(id, end, part)
		}
	}
	_ = l.frames.WriteData(id, true, c.Body)
}

// flush lets leave what has been gathered.
func (l *line) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.out) > 0 {
		l.ring()
	}
}

// write puts on the wire what has been gathered.
func (l *line) write() {
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.dead:
			return
		}
		runtime.Gosched() // others that are about to call go along
		l.mu.Lock()
		spare, l.out = l.out, spare[:0]
		l.mu.Unlock()
		if len(spare) == 0 {
			continue
		}
		if _, err := l.conn.Write(spare); err != nil {
			l.fail(err)
			return
		}
	}
}

// fail ends the line. Calls that were not started may be made elsewhere.
func (l *line) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	select {
	case <-l.dead:
		l.mu.Unlock()
		return
	default:
	}
	close(l.dead)
	active, waiting := l.active, l.waiting
	l.active, l.waiting = map[uint32]*call{}, [2][]*call{}
	l.mu.Unlock()
	_ = l.conn.Close()
	for _, c := range active {
		c.then(Answer{}, fmt.Errorf("%w: %w", ErrLost, err))
	}
	unsent(waiting, err)
}

func unsent(waiting [2][]*call, err error) {
	for _, list := range waiting {
		for _, c := range list {
			c.then(Answer{}, fmt.Errorf("%w: %w", ErrNotSent, err))
		}
	}
}

// idle is closed when no call is without an answer.
func (l *line) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.emptied = append(l.emptied, c)
	l.rest()
	return c
}

// rest tells who waits for it that there is nothing left to do; mu is held.
func (l *line) rest() {
	if len(l.active)+len(l.waiting[0])+len(l.waiting[1]) > 0 {
		return
	}
	for _, c := range l.emptied {
		close(c)
	}
	l.emptied = nil
}

// listen asks whether anybody is there when answers are due and nothing was heard for a while.
func (l *line) listen() {
	tick := time.NewTicker(quiet / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.dead:
			return
		}
		l.mu.Lock()
		silent := time.Since(l.heard)
		switch {
		case len(l.active) == 0:
			l.heard = time.Now()
			silent = 0
		case silent > quiet && !l.asked:
			l.asked = true
			_ = l.frames.WritePing(false, [8]byte{'g', 'a', 'n', 't', 'r', 'y'})
			l.ring()
		}
		l.mu.Unlock()
		if silent > 2*quiet {
			l.fail(fmt.Errorf("the API server has said nothing for %v", silent.Round(time.Second)))
			return
		}
	}
}
