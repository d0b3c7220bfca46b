package podinformer

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
	bufferedEvents = 256      // events that wait to be taken in, so that one wake-up takes in several
	maxMessageSize = 64 << 20 // of one event; the API server's objects are far smaller
)

// listWatcher lists and watches the objects of a resourceType.
type listWatcher struct {
	get rest.Interface
	decoder
}

func (s listWatcher) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	return s.request(o).Do(ctx).Get()
}

func (s listWatcher) request(o metav1.ListOptions) *rest.Request {
	return s.get.Get().Resource(s.resource).VersionedParams(&o, metav1.ParameterCodec)
}

// watch opens a watch from o.ResourceVersion; its goroutine ends with Stop. A connection that broke
// at once is an empty watch, which the reflector resumes.
func (s listWatcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	ctx, cancel := context.WithCancel(ctx)
	body, err := s.request(o).SetHeader("Accept", runtime.ContentTypeProtobuf).Stream(ctx)
	if err != nil {
		cancel()
		if utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
			return watch.NewEmptyWatch(), nil // as client-go has it: such a watch can be resumed where it was
		}
		return nil, err
	}
	w := &watchStream{body: body, decoder: s.decoder, events: make(chan watch.Event, bufferedEvents), done: ctx.Done(),
		cancel: cancel}
	go w.run()
	return w, nil
}

// watchStream is a watch.Interface: one goroutine reads and decodes its events.
type watchStream struct {
	body io.ReadCloser
	decoder
	events chan watch.Event
	done   <-chan struct{}
	cancel context.CancelFunc
	once   sync.Once
}

// ResultChan gives the events; it is closed when there are no more.
func (w *watchStream) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *watchStream) Stop() {
	w.once.Do(func() {
		w.cancel()
		_ = w.body.Close() // which ends the reader
	})
}

// run decodes events until the stream ends. An end that can be resumed closes the events; anything
// else is sent as an error event first.
func (w *watchStream) run() {
	defer close(w.events)
	defer w.Stop()
	var buffer []byte
	for {
		raw, err := readFrame(w.body, buffer)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !utilnet.IsProbableEOF(err) &&
				!utilnet.IsTimeout(err) {
				w.send(errorEvent(err))
			}
			return
		}
		buffer = raw
		e, err := w.decodeEvent(raw)
		if err != nil {
			w.send(errorEvent(err))
			return
		}
		if !w.send(e) {
			return
		}
	}
}

// send delivers an event; false: the watch was stopped.
func (w *watchStream) send(e watch.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-w.done:
		return false
	}
}

// errorEvent is the event that ends a watch that cannot be read, in client-go's words.
func errorEvent(err error) watch.Event {
	s := apierrors.NewInternalError(fmt.Errorf("unable to decode an event from the watch stream: %w", err)).ErrStatus
	return watch.Event{Type: watch.Error, Object: &s}
}

// readFrame reads one length-prefixed message, into room where it is large enough.
func readFrame(from io.Reader, buffer []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > maxMessageSize {
		return nil, fmt.Errorf("an event of %d bytes", size)
	}
	if cap(buffer) < size {
		buffer = make([]byte, max(size, 2*cap(buffer)))
	}
	_, err := io.ReadFull(from, buffer[:size])
	return buffer[:size], err
}

// decodeEvent decodes a metav1.WatchEvent and keeps no reference to raw.
func (w *watchStream) decodeEvent(raw []byte) (watch.Event, error) {
	var e watch.Event
	var object []byte
	err := eachField(raw, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
		switch n {
		case 1:
			e.Type = eventTypeOf(value)
		case 2: // RawExtension
			return eachField(value, func(n protowire.Number, _ protowire.Type, _, value []byte) error {
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

// eventTypeOf is the type of an event, without allocating a string.
func eventTypeOf(raw []byte) watch.EventType {
	for _, k := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(raw) == string(k) {
			return k
		}
	}
	return watch.EventType(raw)
}
