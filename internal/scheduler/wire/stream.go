package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	inHand    = 256      // events that wait to be taken in, so that several are taken in at one waking
	mostBytes = 64 << 20 // of one event; the API server's objects are far smaller
)

// source lists and watches objects of a row.
type source struct {
	get rest.Interface
	decoder
}

func (s source) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return s.request(o).Do(ctx).Get()
}

func (s source) request(o metav1.ListOptions) *rest.Request {
	return s.get.Get().Resource(s.resource).VersionedParams(&o, metav1.ParameterCodec)
}

func (s source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	body, err := s.request(o).SetHeader("Accept", runtime.ContentTypeProtobuf).Stream(ctx)
	if err != nil {
		cancel()
		if utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
			return watch.NewEmptyWatch(), nil // as client-go has it: such a watch can be begun again where it was
		}
		return nil, err
	}
	w := &stream{body: body, decoder: s.decoder, out: make(chan watch.Event, inHand), done: ctx.Done(), cancel: cancel}
	go w.run()
	return w, nil
}

// stream is a watch: one goroutine reads and decodes.
type stream struct {
	body io.ReadCloser
	decoder
	out    chan watch.Event
	done   <-chan struct{}
	cancel context.CancelFunc
	once   sync.Once
}

// ResultChan gives the events; it is closed when there are no more.
func (w *stream) ResultChan() <-chan watch.Event { return w.out }

// Stop ends the watch.
func (w *stream) Stop() {
	w.once.Do(func() {
		w.cancel()
		_ = w.body.Close() // its reader sees that it ended
	})
}

func (w *stream) run() {
	defer close(w.out)
	defer w.Stop()
	var buffer []byte
	for {
		raw, err := frame(w.body, buffer)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !utilnet.IsProbableEOF(err) && !utilnet.IsTimeout(err) {
				w.tell(broken(err))
			}
			return
		}
		buffer = raw
		e, err := w.event(raw)
		if err != nil {
			w.tell(broken(err))
			return
		}
		if !w.tell(e) {
			return
		}
	}
}

func (w *stream) tell(e watch.Event) bool {
	select {
	case w.out <- e:
		return true
	case <-w.done:
		return false
	}
}

// broken is the event that ends a watch which cannot be read, worded as client-go words it.
func broken(err error) watch.Event {
	s := apierrors.NewInternalError(fmt.Errorf("unable to decode an event from the watch stream: %w", err)).ErrStatus
	return watch.Event{Type: watch.Error, Object: &s}
}

// frame reads one message with its length before it, into room where that is enough.
func frame(from io.Reader, room []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > mostBytes {
		return nil, fmt.Errorf("an event of %d bytes", size)
	}
	if cap(room) < size {
		room = make([]byte, max(size, 2*cap(room)))
	}
	_, err := io.ReadFull(from, room[:size])
	return room[:size], err
}

// event decodes a metav1.WatchEvent. Nothing of it stays in raw.
func (w *stream) event(raw []byte) (watch.Event, error) {
	var e watch.Event
	var object []byte
	err := each(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			e.Type = kindOf(value)
		case 2: // RawExtension
			return each(value, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
				if n == 1 {
					object = value
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	e.Object, _, err = w.Decode(object, nil, nil)
	return e, err
}

// kindOf names the kind of an event without making a string.
func kindOf(raw []byte) watch.EventType {
	for _, k := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(raw) == string(k) {
			return k
		}
	}
	return watch.EventType(raw)
}
