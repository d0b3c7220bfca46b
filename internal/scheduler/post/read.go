package post

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

// errLeaving ends a line whose other side wants no more calls.
var errLeaving = errors.New("the API server takes no more calls on this connection")

// reader hands out answers.
type reader struct {
	*line
	decoder *hpack.Decoder
	now     *call // whose headers are read; nil: nobody waits for them
	last    bool  // the answer has nothing but headers
	used    int   // bytes received since the other side was told of room
	over    []ended
}

// ended is a call that has its answer, or never will.
type ended struct {
	*call
	err error
}

func (l *line) read() {
	r := &reader{line: l}
	r.decoder = hpack.NewDecoder(4096, r.header)
	from := bufio.NewReaderSize(l.conn, 64<<10)
	frames := http2.NewFramer(nil, from)
	frames.SetReuseFrames()
	for {
		if from.Buffered() == 0 && !l.from.more() {
			r.pass()
		}
		f, err := frames.ReadFrame()
		if err == nil {
			err = r.frame(f)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// pass lets leave what was called for while answers were handed out: all that came in has been.
func (r *reader) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	if len(r.out) > 0 {
		r.ring()
	}
}

// frame takes in one frame and tells whose call ended with it; an error ends the line.
func (r *reader) frame(f http2.Frame) error {
	r.mu.Lock()
	r.heard, r.asked, r.busy = time.Now(), false, true
	err := r.heed(f)
	if len(r.over) > 0 {
		r.pump()
		r.rest()
	}
	if r.err != nil && len(r.active) == 0 {
		err = errors.Join(err, r.err)
	}
	r.mu.Unlock()
	for i, e := range r.over {
		e.then(e.answer, e.err)
		r.over[i] = ended{}
	}
	r.over = r.over[:0]
	return err
}

func (r *reader) heed(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		r.now, r.last = r.active[f.StreamID], f.StreamEnded()
		return r.headersOf(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return r.headersOf(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return r.data(f)
	case *http2.RSTStreamFrame:
		why := ErrLost
		if f.ErrCode == http2.ErrCodeRefusedStream {
			why = ErrNotSent
		}
		r.end(f.StreamID, fmt.Errorf("%w: the API server ended the call: %v", why, f.ErrCode))
	case *http2.GoAwayFrame:
		r.leave(f)
	case *http2.SettingsFrame:
		return r.settings(f)
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			r.window += int64(f.Increment)
			r.pump()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			r.ring()
			return r.frames.WritePing(true, f.Data)
		}
	}
	return nil
}

func (r *reader) headersOf(id uint32, part []byte, complete bool) error {
	if _, err := r.decoder.Write(part); err != nil {
		return err
	}
	if !complete {
		return nil
	}
	if r.last {
		r.end(id, nil)
	}
	return r.decoder.Close()
}

func (r *reader) header(f hpack.HeaderField) {
	if r.now == nil {
		return
	}
	switch f.Name {
	case ":status":
		r.now.answer.Code, _ = strconv.Atoi(f.Value) // 0 is no success either
	case "retry-after":
		r.now.answer.After = f.Value
	}
}

func (r *reader) data(f *http2.DataFrame) error {
	if c := r.active[f.StreamID]; c != nil {
		c.answer.Body = append(c.answer.Body, f.Data()...)
	}
	var err error
	if n := f.Header().Length; n > 0 {
		if r.used += int(n); r.used > ownWindow/2 {
			err = r.frames.WriteWindowUpdate(0, uint32(r.used))
			r.used = 0
			r.ring()
		}
		if !f.StreamEnded() {
			err = errors.Join(err, r.frames.WriteWindowUpdate(f.StreamID, n))
			r.ring()
		}
	}
	if f.StreamEnded() {
		r.end(f.StreamID, nil)
	}
	return err
}

// end takes a call out that has its answer.
func (r *reader) end(id uint32, err error) {
	if c := r.active[id]; c != nil {
		delete(r.active, id)
		r.over = append(r.over, ended{c, err})
	}
}

// leave keeps the calls that the other side still answers.
func (r *reader) leave(f *http2.GoAwayFrame) {
	if r.err == nil {
		r.err = errLeaving
	}
	err := fmt.Errorf("%w: %w", ErrNotSent, errLeaving)
	for id := range r.active {
		if id > f.LastStreamID {
			r.end(id, err)
		}
	}
	for _, c := range slices.Concat(r.waiting[0], r.waiting[1]) {
		r.over = append(r.over, ended{c, err})
	}
	r.waiting = [2][]*call{}
}

func (r *reader) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			r.streams = int(min(s.Val, mostStreams))
		case http2.SettingInitialWindowSize:
			r.each = int64(s.Val)
		case http2.SettingMaxFrameSize:
			r.size = int(s.Val)
		case http2.SettingHeaderTableSize:
			r.headers.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return nil
	})
	r.ring()
	r.pump()
	return errors.Join(err, r.frames.WriteSettingsAck())
}
