package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/client-go/rest"
)

const (
	// perConnection is how many watchers share a connection, as those of one client-go process do.
	perConnection = 10
	// roomEach and roomAll are the flow control windows of a stream and of a connection, as Go's
	// client has them.
	roomEach, roomAll = 4 << 20, 1 << 30
	// headLength is the length of an event's length prefix.
	headLength = 4
	// envelope is the length of the prefix of protobuf encoded objects.
	envelope = 4
)

// arrived is an event that a watcher received: when its write was sent, in Unix nanoseconds, and
// how much later it arrived.
type arrived struct {
	sent  int64
	after time.Duration
}

// watchers are all watchers of a server, and what they received.
type watchers struct {
	got    chan []arrived // of one connection, some at a time
	failed chan error
	cut    atomic.Int32 // watchers that were cut off

	verified chan error // by client-go
}

// watchConn is a connection with its watchers, which stand for clients on other machines and must
// cost little on this one: one goroutine reads HTTP/2 frames and takes from each event its
// revision, which must rise, and when its write was sent; nothing is decoded, and the windows are
// those of client-go.
type watchConn struct {
	*watchers
	conn    *tls.Conn
	frames  *http2.Framer
	answers *hpack.Decoder
	request request
	streams map[uint32]*stream // by stream id
	next    uint32             // stream
	open    int                // watchers that got a response
	used    uint32             // bytes received since the last window update
	own     []arrived
}

// request is the watch request of all watchers of a connection.
type request struct{ authority, path, token string }

// stream is a watcher.
type stream struct {
	status    string
	from      uint64 // the revision of its last event
	startedAt []byte // an incomplete event
	used      uint32
}

// connect opens a connection with watchers from a revision on, and returns when all have responses.
func (a *watchers) connect(ctx context.Context, cfg *rest.Config, path string, from uint64) error {
	at, err := url.Parse(cfg.Host)
	if err != nil {
		return err
	}
	trust, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return err
	}
	trust.NextProtos = []string{http2.NextProtoTLS}
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return err
	}
	r := &watchConn{
		watchers: a, conn: conn.(*tls.Conn), request: request{at.Host, path, cfg.BearerToken},
		streams: map[uint32]*stream{}, next: 1,
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	r.frames = http2.NewFramer(conn, bufio.NewReaderSize(conn, 64<<10))
	r.frames.SetReuseFrames()
	r.answers = hpack.NewDecoder(4096, nil)
	_, err = conn.Write([]byte(http2.ClientPreface))
	noPush := http2.Setting{ID: http2.SettingEnablePush}
	window := http2.Setting{ID: http2.SettingInitialWindowSize, Val: roomEach}
	err = errors.Join(err, r.frames.WriteSettings(noPush, window), r.frames.WriteWindowUpdate(0, roomAll))
	for range perConnection {
		err = errors.Join(err, r.ask(&stream{from: from}))
	}
	for err == nil && r.open < perConnection {
		err = r.read()
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	go func() {
		for {
			if err := r.read(); err != nil {
				a.failed <- err
				return
			}
		}
	}()
	return nil
}

// ask requests a watch on a new stream.
func (r *watchConn) ask(s *stream) error {
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	headers.SetMaxDynamicTableSize(0)
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: r.request.authority},
		{Name: ":path", Value: fmt.Sprintf("%s?watch=1&resourceVersion=%d", r.request.path, s.from)},
		{Name: "accept", Value: "application/vnd.kubernetes.protobuf;stream=watch"},
	}
	if r.request.token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + r.request.token})
	}
	for _, f := range fields {
		_ = headers.WriteField(f) // into memory
	}
	s.startedAt, s.status, s.used = s.startedAt[:0], "", 0
	r.streams[r.next] = s
	r.next += 2
	return r.frames.WriteHeaders(http2.HeadersFrameParam{
		StreamID: r.next - 2, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true,
	})
}

// read reads one frame.
func (r *watchConn) read() error {
	f, err := r.frames.ReadFrame()
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return r.data(f)
	case *http2.HeadersFrame:
		return r.answer(f)
	case *http2.RSTStreamFrame:
		return r.again(f.StreamID)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return r.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return r.frames.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("the server ended the connection: %s", f.ErrCode)
	}
	return nil
}

// answer handles a response's headers.
func (r *watchConn) answer(f *http2.HeadersFrame) error {
	s := r.streams[f.StreamID]
	if !f.HeadersEnded() {
		return errors.New("the head of an answer came in pieces")
	}
	fields, err := r.answers.DecodeFull(f.HeaderBlockFragment())
	if err != nil || s == nil {
		return err
	}
	for _, h := range fields {
		if h.Name == ":status" {
			s.status = h.Value
			r.open++
		}
	}
	if s.status != "200" {
		return fmt.Errorf("a watch from %d is answered with %s", s.from, s.status)
	}
	if f.StreamEnded() {
		return r.again(f.StreamID)
	}
	return nil
}

// data handles a piece of a watcher's stream.
func (r *watchConn) data(f *http2.DataFrame) error {
	s := r.streams[f.StreamID]
	if s == nil {
		return nil
	}
	now := time.Now()
	s.startedAt = append(s.startedAt, f.Data()...)
	rest := s.startedAt
	for len(rest) >= headLength {
		end := headLength + int(binary.BigEndian.Uint32(rest))
		if len(rest) < end {
			break
		}
		if err := r.event(s, rest[headLength:end], now); err != nil {
			return err
		}
		rest = rest[end:]
	}
	s.startedAt = append(s.startedAt[:0], rest...)
	r.pass(len(rest) == 0)
	if f.StreamEnded() {
		return r.again(f.StreamID)
	}
	return r.updateWindow(s, f)
}

// updateWindow updates flow control windows now and then.
func (r *watchConn) updateWindow(s *stream, f *http2.DataFrame) error {
	n := f.Header().Length
	var err error
	if s.used += n; s.used > roomEach/2 {
		err = r.frames.WriteWindowUpdate(f.StreamID, s.used)
		s.used = 0
	}
	if r.used += n; r.used > roomEach {
		err = errors.Join(err, r.frames.WriteWindowUpdate(0, r.used))
		r.used = 0
	}
	return err
}

// event records when an event arrived. Revisions rise from event to event; collect counts
// duplicates and wrong order.
func (r *watchConn) event(s *stream, raw []byte, now time.Time) error {
	revision, ok := revisionOf(raw)
	if !ok || revision <= s.from {
		return fmt.Errorf("an event of revision %d after one of %d (readable: %t)", revision, s.from, ok)
	}
	s.from = revision
	if sent, ok := sentTime(raw); ok {
		r.own = append(r.own, arrived{sent, now.Sub(time.Unix(0, sent))})
	}
	return nil
}

// pass sends the recorded events to the collector.
func (r *watchConn) pass(atEnd bool) {
	const batch = 500
	if len(r.own) >= batch || atEnd && len(r.own) > 0 {
		r.got <- r.own
		r.own = nil
	}
}

// again restarts a watcher that was cut off from its last event, as clients do.
func (r *watchConn) again(number uint32) error {
	s := r.streams[number]
	if s == nil {
		return nil
	}
	delete(r.streams, number)
	r.cut.Add(1)
	return r.ask(s)
}

// revisionOf returns the resourceVersion of the object in an event.
func revisionOf(event []byte) (uint64, bool) {
	const ( // numbers of fields
		eventObject, rawExtension, unknownRaw, metadata, resourceVersion = 2, 1, 2, 1, 6
	)
	raw, ok := within(event, eventObject, rawExtension)
	if !ok || len(raw) < envelope {
		return 0, false
	}
	version, ok := within(raw[envelope:], unknownRaw, metadata, resourceVersion)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(version), 10, 64)
	return n, err == nil
}

// within returns the field at a path of field numbers in an encoded message.
func within(message []byte, path ...protowire.Number) ([]byte, bool) {
	for _, want := range path {
		found := false
		for len(message) > 0 && !found {
			number, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				return nil, false
			}
			message = message[n:]
			if number == want && kind == protowire.BytesType {
				inner, n := protowire.ConsumeBytes(message)
				if n < 0 {
					return nil, false
				}
				message, found = inner, true
				continue
			}
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return nil, false
			}
			message = message[n:]
		}
		if !found {
			return nil, false
		}
	}
	return message, true
}

var sentAtBytes = []byte(sentAt)

// sentTime returns when an event's write was sent: the annotation's value follows its name, after
// two bytes of protobuf.
func sentTime(event []byte) (int64, bool) {
	const digits = 19
	i := bytes.Index(event, sentAtBytes)
	if i < 0 || len(event) < i+len(sentAtBytes)+2+digits {
		return 0, false
	}
	n, err := strconv.ParseInt(string(event[i+len(sentAtBytes)+2:i+len(sentAtBytes)+2+digits]), 10, 64)
	return n, err == nil
}

// collect waits for a number of events.
func (a *watchers) collect(ctx context.Context, n int) ([]arrived, error) {
	all := make([]arrived, 0, n)
	deadline := time.NewTimer(10 * time.Minute)
	defer deadline.Stop()
	for len(all) < n {
		select {
		case some := <-a.got:
			all = append(all, some...)
		case err := <-a.failed:
			return nil, fmt.Errorf("a watcher lost its stream after %d of %d events: %w", len(all), n, err)
		case <-deadline.C:
			return nil, fmt.Errorf("the watchers got %d of %d events", len(all), n)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case err := <-a.verified:
		return all, err
	case <-deadline.C:
		return nil, errors.New("client-go did not see all events")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
