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

// errGoAway ends a line whose other side wants no more calls.
var errGoAway = errors.New("the API server takes no more calls on this connection")

// responseReader hands out answers.
type responseReader struct {
	*connection
	decoder   *hpack.Decoder
	current   *call // whose headers are read; nil: nobody waits for them
	endStream bool  // the answer has nothing but headers
	bytesRead int   // bytes received since the other side was told of room
	ended     []endedCall
}

// endedCall is a call that has its answer, or never will.
type endedCall struct {
	*call
	err error
}

func (l *connection) readLoop() {
	r := &responseReader{connection: l}
	r.decoder = hpack.NewDecoder(4096, r.readHeader)
	from := bufio.NewReaderSize(l.conn, 64<<10)
	frames := http2.NewFramer(nil, from)
	frames.SetReuseFrames()
	for {
		if from.Buffered() == 0 && !l.batchedConn.hasUnread() {
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

// flushQueued lets leave what was called for while answers were handed out: all that came in has
// been.
func (r *responseReader) flushQueued() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = false
	if len(r.writeBuffer) > 0 {
		r.wakeWriter()
	}
}

// handleFrame takes in one frame and tells whose call ended with it; an error ends the line.
func (r *responseReader) handleFrame(f http2.Frame) error {
	r.mu.Lock()
	r.lastReadAt, r.pinged, r.writing = time.Now(), false, true
	err := r.handleControlFrame(f)
	if len(r.ended) > 0 {
		r.startQueued()
		r.signalIdle()
	}
	if r.err != nil && len(r.active) == 0 {
		err = errors.Join(err, r.err)
	}
	r.mu.Unlock()
	for i, e := range r.ended {
		e.done(e.response, e.err)
		r.ended[i] = endedCall{}
	}
	r.ended = r.ended[:0]
	return err
}

func (r *responseReader) handleControlFrame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		r.current, r.endStream = r.active[f.StreamID], f.StreamEnded()
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
			r.sendWindow += int64(f.Increment)
			r.startQueued()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			r.wakeWriter()
			return r.framer.WritePing(true, f.Data)
		}
	}
	return nil
}

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

func (r *responseReader) readData(f *http2.DataFrame) error {
	if c := r.active[f.StreamID]; c != nil {
		c.response.Body = append(c.response.Body, f.Data()...)
	}
	var err error
	if n := f.Header().Length; n > 0 {
		if r.bytesRead += int(n); r.bytesRead > receiveWindow/2 {
			err = r.framer.WriteWindowUpdate(0, uint32(r.bytesRead))
			r.bytesRead = 0
			r.wakeWriter()
		}
		if !f.StreamEnded() {
			err = errors.Join(err, r.framer.WriteWindowUpdate(f.StreamID, n))
			r.wakeWriter()
		}
	}
	if f.StreamEnded() {
		r.endCall(f.StreamID, nil)
	}
	return err
}

// endCall takes a call out that has its answer.
func (r *responseReader) endCall(id uint32, err error) {
	if c := r.active[id]; c != nil {
		delete(r.active, id)
		r.ended = append(r.ended, endedCall{c, err})
	}
}

// handleGoAway keeps the calls that the other side still answers.
func (r *responseReader) handleGoAway(f *http2.GoAwayFrame) {
	if r.err == nil {
		r.err = errGoAway
	}
	err := fmt.Errorf("%w: %w", ErrNotSent, errGoAway)
	for id := range r.active {
		if id > f.LastStreamID {
			r.endCall(id, err)
		}
	}
	for _, c := range slices.Concat(r.waiting[0], r.waiting[1]) {
		r.ended = append(r.ended, endedCall{c, err})
	}
	r.waiting = [2][]*call{}
}

func (r *responseReader) handleSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			r.maxStreams = int(min(s.Val, maxStreams))
		case http2.SettingInitialWindowSize:
			r.streamWindow = int64(s.Val)
		case http2.SettingMaxFrameSize:
			r.frameSize = int(s.Val)
		case http2.SettingHeaderTableSize:
			r.headers.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return nil
	})
	r.wakeWriter()
	r.startQueued()
	return errors.Join(err, r.framer.WriteSettingsAck())
}
