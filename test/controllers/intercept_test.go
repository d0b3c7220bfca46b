package controllers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fate is what befalls the writes of a instance.
type fate string

const (
	undisturbed fate = "undisturbed"
	touched     fate = "touched" // another client changes the object before each first write
	lost        fate = "lost"    // the write is made, its answer is not received
	killed      fate = "killed"  // the controller is killed when the write is made
	forbidden   fate = "403"
	conflict    fate = "409"
	internal    fate = "500"
	unavailable fate = "503"
	timeout     fate = "504"
)

const (
	// refusedFor is how long tries of one write are refused, and at least twice.
	refusedFor = 120 * time.Millisecond
	// most tries of one write within refusedFor: with back-off from 5 ms there are five, each of at
	// most five quick ones after a conflict
	mostTries = 40
	// kills after writes of one sort, and of all
	killsEach, killsAll = 2, 12
	// touchedKey is the annotation that another client writes.
	touchedKey = "example.com/touched"
)

// refusal returns what a instance's API answers instead of writing; nil if it writes.
func (f fate) refusal() *apierrors.StatusError {
	why := errors.New("refused by the test")
	switch f {
	case forbidden:
		return apierrors.NewForbidden(schema.GroupResource{}, "it", why)
	case conflict:
		return apierrors.NewConflict(schema.GroupResource{}, "it", why)
	case internal:
		return apierrors.NewInternalError(why)
	case unavailable:
		return apierrors.NewServiceUnavailable(why.Error())
	case timeout:
		return apierrors.NewTimeoutError(why.Error(), 0)
	default:
		return nil
	}
}

// tries is what became of one write of a instance.
type tries struct {
	n     int
	first time.Time
}

// record is what is known of a controller's writes over all its lives. Safe for concurrent use.
type record struct {
	mu        sync.Mutex
	instances []*instance
	tries     map[*instance]map[string]*tries // by method and path
	kills     map[string]int
	lastWrite time.Time
	hurried   []string // writes that were tried again too often
}

// try counts a try of a write and reports how many there were and whether it is still refused.
func (r *record) try(w *instance, write string) (n int, early bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastWrite = time.Now()
	if r.tries[w] == nil {
		r.tries[w] = map[string]*tries{}
	}
	t := r.tries[w][write]
	if t == nil {
		t = &tries{first: time.Now()}
		r.tries[w][write] = t
	}
	t.n++
	early = time.Since(t.first) < refusedFor
	if early && t.n == mostTries {
		r.hurried = append(r.hurried, string(w.fate)+" "+write)
	}
	return t.n, early || t.n <= 2
}

// kill reports whether the controller is to be killed after this write.
func (r *record) kill(write string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := 0
	for _, n := range r.kills {
		all += n
	}
	if r.kills[write] >= killsEach || all >= killsAll {
		return false
	}
	r.kills[write]++
	return true
}

// instanceOf returns the instance that a write is about; nil: none.
func (r *record) instanceOf(req *http.Request, body []byte) *instance {
	for _, w := range r.instances {
		if strings.Contains(req.URL.Path, w.token) || bytes.Contains(body, []byte(w.token)) {
			return w
		}
	}
	return nil
}

// interceptor is the transport of one life of the controller under test.
type interceptor struct {
	base   http.RoundTripper
	record *record
	life   context.Context
	die    context.CancelFunc
	touch  func(path string) error
}

// RoundTrip sends a request, or does to it what its instance's fate is.
func (i *interceptor) RoundTrip(req *http.Request) (*http.Response, error) {
	dead := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	if i.life.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, dead
	}
	if req.Method == http.MethodGet || strings.Contains(req.URL.Path, "/events") ||
		strings.Contains(req.URL.Path, "/apis/authorization.k8s.io/") {
		return i.base.RoundTrip(req)
	}
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	w := i.record.instanceOf(req, body)
	if w == nil {
		return i.base.RoundTrip(req)
	}
	write := req.Method + " " + req.URL.Path
	if req.Method == http.MethodPost {
		write += " " + nameIn(body)
	}
	n, early := i.record.try(w, write)
	if refusal := w.fate.refusal(); refusal != nil && early {
		return answer(req, refusal.ErrStatus), nil
	}
	if w.fate == touched && n == 1 && (req.Method == http.MethodPut || req.Method == http.MethodPatch) {
		if err := i.touch(req.URL.Path); err != nil {
			return nil, err
		}
	}
	res, err := i.base.RoundTrip(req)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		return res, err
	}
	if w.fate == killed && i.record.kill(write) {
		i.die()
	}
	if w.fate == lost && n <= 2 || i.life.Err() != nil {
		_ = res.Body.Close()
		return nil, dead
	}
	return res, nil
}

// intercept returns what a transport of one life is wrapped in.
func (r *record) intercept(life context.Context, die context.CancelFunc,
	touch func(path string) error) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper { return &interceptor{base, r, life, die, touch} }
}

// readBody returns the body of a request, which can still be sent.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	req.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// nameIn returns the name of the object in a body, or the prefix of the name it will get.
func nameIn(body []byte) string {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(body, &o) != nil {
		return ""
	}
	return o.Name + o.GenerateName
}

func answer(req *http.Request, s metav1.Status) *http.Response {
	s.Kind, s.APIVersion = "Status", "v1"
	raw, _ := json.Marshal(s)
	return &http.Response{StatusCode: int(s.Code), Status: http.StatusText(int(s.Code)), Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)), Request: req}
}
