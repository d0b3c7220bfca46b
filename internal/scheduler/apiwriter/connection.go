package apiwriter

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
	// bytes that the API server may send for one answer, and for all together, before it is granted
	// more
	receiveWindow = 1 << 20
	// silence, while answers are due, after which a ping is sent; after twice that the connection
	// counts as lost
	pingAfter         = 15 * time.Second
	initialFrameSize  = 16 << 10 // of frames, until the API server allows more
	initialBufferSize = 65535    // of windows (RFC 9113, 6.9.2)
	maxOpenCalls      = 100      // streams at once, until the API server says how many

	// whatever the API server allows: it turns away more than 200 writes at once of all
	// clients together, by default
	maxStreams = 160
)

// protobuf is the content type of answers, and of bodies that name no other.
const protobuf = "application/vnd.kubernetes.protobuf"

// call is one request.
type call struct {
	Request
	token    string
	sending  sendMode
	done     func(Response, error)
	response Response
}

// sendMode says when a call's frames are written, and which calls start before it while the API
// server allows no further stream.
type sendMode uint8

const (
	sendNow         sendMode = iota // at once, before calls of sendAfterOthers
	sendOnFlush                     // with the next flush, or sooner, before calls of sendAfterOthers
	sendAfterOthers                 // at once when no other call waits
)

// priority is the index in openCalls.waiting; 0 goes first.
func (m sendMode) priority() int {
	if m == sendAfterOthers {
		return 1
	}
	return 0
}

// commonHeaders is the same for all calls.
type commonHeaders struct{ authority, prefix, agent string }

// unreadInput tells whether bytes were read from the socket that nobody has asked for yet
// (batchedConn): answers to hand out before queued calls leave.
type unreadInput interface{ hasUnread() bool }

// connection is one HTTP/2 connection to the API server. Callers append frames to writeBuffer under
// mu; writeLoop writes them, responseReader reads answers and calls back, pingWhenIdle finds that
// the API server is gone. When the connection ends, by an error or closeWith, every call that has
// no answer ends with ErrLost or ErrNotSent.
type connection struct {
	conn         net.Conn
	unread       unreadInput // under conn
	headersOfAll commonHeaders
	wake         chan struct{} // capacity one: something is to be written
	closed       chan struct{} // closed when the connection has ended

	mu          sync.Mutex
	writeBuffer []byte
	writing     bool          // answers are being handed out; calls made meanwhile leave when that is done
	framer      *http2.Framer // writes into writeBuffer
	block       bytes.Buffer
	headers     *hpack.Encoder
	openCalls
	peerSettings
}

// openCalls are the calls without an answer. A call waits until the API server allows another
// stream, is active until its answer is complete, and is called back once.
type openCalls struct {
	nextStreamID uint32 // number of the next stream
	active       map[uint32]*call
	waiting      [2][]*call // for a stream, by sendMode.priority
	err          error      // why the connection takes no more calls; nil: it does
	idleWaiters  []chan struct{}
}

// peerSettings is what the API server allows and when it last sent something.
type peerSettings struct {
	maxStreams   int
	sendWindow   int64 // bytes that may be sent
	streamWindow int64 // of these for one call
	frameSize    int   // of a frame
	lastReadAt   time.Time
	pinged       bool
}

// newConnection starts HTTP/2 on conn and its goroutines, which end with closeWith. from tells
// whether conn holds input that was not read yet.
func newConnection(conn net.Conn, from unreadInput, same commonHeaders) (*connection, error) {
	l := &connection{conn: conn, unread: from, headersOfAll: same, wake: make(chan struct{}, 1),
		closed:    make(chan struct{}),
		openCalls: openCalls{nextStreamID: 1, active: map[uint32]*call{}},
		peerSettings: peerSettings{maxStreams: maxOpenCalls, sendWindow: initialBufferSize,
			streamWindow: initialBufferSize, frameSize: initialFrameSize, lastReadAt: time.Now()}}
	l.framer = http2.NewFramer((*bufferWriter)(l), nil)
	l.headers = hpack.NewEncoder(&l.block)
	l.writeBuffer = append(l.writeBuffer, http2.ClientPreface...)
	err := l.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: receiveWindow})
	if err = errors.Join(err, l.framer.WriteWindowUpdate(0, receiveWindow)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.wakeWriter()
	go l.writeLoop()
	go l.readLoop()
	go l.pingWhenIdle()
	return l, nil
}

// bufferWriter appends to writeBuffer; mu is held.
type bufferWriter connection

// Write appends.
func (s *bufferWriter) Write(b []byte) (int, error) {
	s.writeBuffer = append(s.writeBuffer, b...)
	return len(b), nil
}

func (l *connection) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *connection) isOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err == nil
}

// startOrQueue starts a call or lets it wait for a stream. It does not block; a call that the
// connection cannot take is called back with ErrNotSent at once.
func (l *connection) startOrQueue(c *call) {
	l.mu.Lock()
	err := l.err
	switch {
	case err != nil:
	case len(c.Body) > l.frameSize || int64(len(c.Body)) > l.streamWindow:
		err = fmt.Errorf("%d bytes are too many for one frame", len(c.Body))
	case len(l.waiting[0])+len(l.waiting[1]) >= maxWaitingCalls:
		err = errors.New("too many calls wait")
	default:
		k := c.sending.priority()
		l.waiting[k] = append(l.waiting[k], c)
		l.startQueued()
		if c.sending != sendOnFlush && !l.writing {
			l.wakeWriter()
		}
	}
	l.mu.Unlock()
	if err != nil {
		c.done(Response{}, fmt.Errorf("%w: %w", ErrNotSent, err))
	}
}

// startQueued starts waiting calls as far as the API server allows; mu is held.
func (l *connection) startQueued() {
	for k := range l.waiting {
		for len(l.waiting[k]) > 0 && len(l.active) < l.maxStreams && int64(len(l.waiting[k][0].Body)) <= l.sendWindow &&
			l.err == nil {
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
func (l *connection) start(c *call) {
	id := l.nextStreamID
	l.nextStreamID += 2
	l.active[id] = c
	l.sendWindow -= int64(len(c.Body))
	c.response.method = c.Method
	body := cmp.Or(c.Type, protobuf)
	l.block.Reset()
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: c.Method}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: l.headersOfAll.authority}, {Name: ":path", Value: l.headersOfAll.prefix + c.Path,
			Sensitive: true},
		{Name: "content-type", Value: body}, {Name: "accept", Value: protobuf},
		{Name: "user-agent", Value: l.headersOfAll.agent},
	} {
		_ = l.headers.WriteField(f)
	}
	if c.token != "" {
		_ = l.headers.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer " + c.token})
	}
	for from, size := 0, l.frameSize; from == 0 || from < l.block.Len(); from += size {
		part := l.block.Bytes()[from:min(from+size, l.block.Len())]
		end := from+size >= l.block.Len()
		if from == 0 {
			_ = l.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: part, EndHeaders: end})
		} else {
			_ = l.framer.WriteContinuation(id, end, part)
		}
	}
	_ = l.framer.WriteData(id, true, c.Body)
}

// flush has writeLoop write the frames that calls of sendOnFlush left in writeBuffer.
func (l *connection) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.writeBuffer) > 0 {
		l.wakeWriter()
	}
}

// writeLoop writes writeBuffer to the socket whenever it is woken, until the connection ends.
func (l *connection) writeLoop() {
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-l.closed:
			return
		}
		runtime.Gosched() // others that are about to call go along
		l.mu.Lock()
		spare, l.writeBuffer = l.writeBuffer, spare[:0]
		l.mu.Unlock()
		if len(spare) == 0 {
			continue
		}
		if _, err := l.conn.Write(spare); err != nil {
			l.closeWith(err)
			return
		}
	}
}

// closeWith ends the connection and all its calls: those under way with ErrLost, those not started
// with ErrNotSent. err is the reason; only the first call has an effect.
func (l *connection) closeWith(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	select {
	case <-l.closed:
		l.mu.Unlock()
		return
	default:
	}
	close(l.closed)
	active, waiting := l.active, l.waiting
	l.active, l.waiting = map[uint32]*call{}, [2][]*call{}
	l.mu.Unlock()
	_ = l.conn.Close()
	for _, c := range active {
		c.done(Response{}, fmt.Errorf("%w: %w", ErrLost, err))
	}
	failNotSent(waiting, err)
}

func failNotSent(waiting [2][]*call, err error) {
	for _, list := range waiting {
		for _, c := range list {
			c.done(Response{}, fmt.Errorf("%w: %w", ErrNotSent, err))
		}
	}
}

// idle gives a channel that is closed when no call is without an answer.
func (l *connection) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.idleWaiters = append(l.idleWaiters, c)
	l.signalIdle()
	return c
}

// signalIdle closes the channels of idle when every call has its answer; mu is held.
func (l *connection) signalIdle() {
	if len(l.active)+len(l.waiting[0])+len(l.waiting[1]) > 0 {
		return
	}
	for _, c := range l.idleWaiters {
		close(c)
	}
	l.idleWaiters = nil
}

// pingWhenIdle sends a ping when answers are due and nothing was read for pingAfter, and ends the
// connection when nothing was read for twice that.
func (l *connection) pingWhenIdle() {
	tick := time.NewTicker(pingAfter / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.closed:
			return
		}
		l.mu.Lock()
		silent := time.Since(l.lastReadAt)
		switch {
		case len(l.active) == 0:
			l.lastReadAt = time.Now()
			silent = 0
		case silent > pingAfter && !l.pinged:
			l.pinged = true
			_ = l.framer.WritePing(false, [8]byte{'g', 'a', 'n', 't', 'r', 'y'})
			l.wakeWriter()
		}
		l.mu.Unlock()
		if silent > 2*pingAfter {
			l.closeWith(fmt.Errorf("the API server has said nothing for %v", silent.Round(time.Second)))
			return
		}
	}
}
