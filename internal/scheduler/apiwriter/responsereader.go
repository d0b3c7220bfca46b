package apiwriter

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errGoAway ends a connection on which the API server takes no more calls.
var errGoAway = errors.New("the API server takes no more calls on this connection")

// responseReader reads the answers of a connection and calls the callers back. One goroutine runs
// it (readLoop); what it changes of the connection it changes under the connection's mu.
type responseReader struct {
	conn      *connection
	decoder   *hpack.Decoder
	current   *call // whose headers are read; nil: of a call that has ended
	endStream bool  // the answer has nothing but headers
	bytesRead int   // bytes received since the API server was granted more
	ended     []endedCall
}

// endedCall is a call that has its answer, or never will.
type endedCall struct {
	*call
	err error
}

// readLoop reads frames until the connection fails, and calls back the callers on its goroutine. It
// is the only reader.
func (l *connection) readLoop() {
	r := &responseReader{conn: l}
	r.decoder = hpack.NewDecoder(4096, r.readHeader)
	from := bufio.NewReaderSize(l.conn, 64<<10)
	frames := http2.NewFramer(nil, from)
	frames.SetReuseFrames()
	for {
		if from.Buffered() == 0 && !l.unread.hasUnread() {
			r.flushQueued()
		}
		f, err := frames.ReadFrame()
		if err == nil {
			err = r.handleFrame(f)
		}
		if err != nil {
			l.closeWith(err)
			return
		}
	}
}

// flushQueued has the calls written that were made while answers were handed out. It is called when
// everything that came in has been handed out.
func (r *responseReader) flushQueued() {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	r.conn.writing = false
	if len(r.conn.writeBuffer) > 0 {
		r.conn.wakeWriter()
	}
}

// handleFrame takes in one frame and calls back the callers whose calls ended with it; an error
// ends the connection.
func (r *responseReader) handleFrame(f http2.Frame) error {
	r.conn.mu.Lock()
	r.conn.lastReadAt, r.conn.pinged, r.conn.writing = time.Now(), false, true
	err := r.handleControlFrame(f)
	if len(r.ended) > 0 {
		r.conn.startQueued()
		r.conn.signalIdle()
	}
	if r.conn.err != nil && len(r.conn.active) == 0 {
		err = errors.Join(err, r.conn.err)
	}
	r.conn.mu.Unlock()
	for i, e := range r.ended {
		e.done(e.response, e.err)
		r.ended[i] = endedCall{}
	}
	r.ended = r.ended[:0]
	return err
}

// handleControlFrame takes in one frame; calls that it ends go to r.ended. mu is held.
func (r *responseReader) handleControlFrame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		r.current, r.endStream = r.conn.active[f.StreamID], f.StreamEnded()
		return r.readHeaders(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return r.readHeaders(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return r.readData(f)
	case *http2.RSTStreamFrame:
		why := ErrLost
		if f.ErrCode == http2.ErrCodeRefusedStream {
			why = ErrNotSent
		}
		r.endCall(f.StreamID, fmt.Errorf("%w: the API server ended the call: %v", why, f.ErrCode))
	case *http2.GoAwayFrame:
		r.handleGoAway(f)
	case *http2.SettingsFrame:
		return r.handleSettings(f)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			r.conn.sendWindow += int64(f.Increment)
			r.conn.startQueued()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			r.conn.wakeWriter()
			return r.conn.framer.WritePing(true, f.Data)
		}
	}
	return nil
}

// readHeaders decodes a part of a header block; complete ends the block, and the call if the frame
// ended its stream.
func (r *responseReader) readHeaders(id uint32, part []byte, complete bool) error {
	if _, err := r.decoder.Write(part); err != nil {
		return err
	}
	if !complete {
		return nil
	}
	if r.endStream {
		r.endCall(id, nil)
	}
	return r.decoder.Close()
}

// readHeader takes the status and Retry-After of the current call; the decoder calls it per field.
func (r *responseReader) readHeader(f hpack.HeaderField) {
	if r.current == nil {
		return
	}
	switch f.Name {
	case ":status":
		r.current.response.Code, _ = strconv.Atoi(f.Value) // 0 is no success either
	case "retry-after":
		r.current.response.RetryAfter = f.Value
	}
}

// readData appends to the response body, and grants the API server as many bytes again.
func (r *responseReader) readData(f *http2.DataFrame) error {
	if c := r.conn.active[f.StreamID]; c != nil {
		c.response.Body = append(c.response.Body, f.Data()...)
	}
	var err error
	if n := f.Header().Length; n > 0 {
		if r.bytesRead += int(n); r.bytesRead > receiveWindow/2 {
			err = r.conn.framer.WriteWindowUpdate(0, uint32(r.bytesRead))
			r.bytesRead = 0
			r.conn.wakeWriter()
		}
		if !f.StreamEnded() {
			err = errors.Join(err, r.conn.framer.WriteWindowUpdate(f.StreamID, n))
			r.conn.wakeWriter()
		}
	}
	if f.StreamEnded() {
		r.endCall(f.StreamID, nil)
	}
	return err
}

// endCall ends a call: with its answer when err is nil. mu is held.
func (r *responseReader) endCall(id uint32, err error) {
	if c := r.conn.active[id]; c != nil {
		delete(r.conn.active, id)
		r.ended = append(r.ended, endedCall{c, err})
	}
}

// handleGoAway keeps the calls that the API server still answers; the others end with ErrNotSent.
func (r *responseReader) handleGoAway(f *http2.GoAwayFrame) {
	if r.conn.err == nil {
		r.conn.err = errGoAway
	}
	err := fmt.Errorf("%w: %w", ErrNotSent, errGoAway)
	for id := range r.conn.active {
		if id > f.LastStreamID {
			r.endCall(id, err)
		}
	}
	for _, c := range slices.Concat(r.conn.waiting[0], r.conn.waiting[1]) {
		r.ended = append(r.ended, endedCall{c, err})
	}
	r.conn.waiting = [2][]*call{}
}

// handleSettings takes over the API server's limits, acknowledges them, and starts calls that they
// now allow.
func (r *responseReader) handleSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			r.conn.maxStreams = int(min(s.Val, maxStreams))
		case http2.SettingInitialWindowSize:
			r.conn.streamWindow = int64(s.Val)
		case http2.SettingMaxFrameSize:
			r.conn.frameSize = int(s.Val)
		case http2.SettingHeaderTableSize:
			r.conn.headers.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return nil
	})
	r.conn.wakeWriter()
	r.conn.startQueued()
	return errors.Join(err, r.conn.framer.WriteSettingsAck())
}
