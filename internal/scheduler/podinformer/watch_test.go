package podinformer

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// framed is an event as the API server sends it.
func framed(t *testing.T, kind watch.EventType, raw []byte) []byte {
	t.Helper()
	e := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
	body, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func read(t *testing.T, bytesOf []byte) []watch.Event {
	t.Helper()
	w := &watchStream{body: io.NopCloser(bytes.NewReader(bytesOf)), decoder: newDecoder(),
		events: make(chan watch.Event), done: t.Context().Done(), cancel: func() {}}
	go w.run()
	var out []watch.Event
	for e := range w.ResultChan() {
		out = append(out, e)
	}
	return out
}

func TestAStreamIsReadEventByEvent(t *testing.T) {
	var all []byte
	kinds := []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}
	for i, kind := range kinds {
		all = append(all,
			framed(t, kind, encoded(t, podNamed([]string{"a", "a-longer-name-than-before", "b", ""}[i], "7"),
				"Pod"))...)
	}
	got := read(t, all)
	if len(got) != len(kinds) {
		t.Fatalf("%d events, want %v", len(got), len(kinds))
	}
	for i, e := range got {
		if p, ok := e.Object.(*v1.Pod); !ok || e.Type != kinds[i] || p.ResourceVersion != "7" {
			t.Errorf("event %d: %v %v", i, e.Type, e.Object)
		}
	}
	if got[1].Object.(*v1.Pod).Name != "a-longer-name-than-before" || got[0].Object.(*v1.Pod).Name != "a" {
		t.Errorf("events share memory: got %q and %q, want a and a-longer-name-than-before",
			got[0].Object.(*v1.Pod).Name,
			got[1].Object.(*v1.Pod).Name)
	}
}

// What breaks off just ends, so that the watch is taken up again; what cannot be read says so.
func TestABrokenStreamEnds(t *testing.T) {
	whole := framed(t, watch.Added, encoded(t, podNamed("a", "7"), "Pod"))
	for _, size := range []int{0, 3, 4, len(whole) - 1} {
		if got := read(t, whole[:size]); len(got) != 0 {
			t.Errorf("after %d of %d bytes: %v, want none", size, len(whole), got)
		}
	}
	for name, raw := range map[string][]byte{
		"an object that is none": framed(t, watch.Added, []byte("nonsense")),
		"no event":               {0, 0, 0, 2, 0xff, 0xff},
		"too long":               {0xff, 0xff, 0xff, 0xff, 1},
	} {
		if got := read(t, raw); len(got) != 1 || got[0].Type != watch.Error {
			t.Errorf("%s: got %v, want 1 in got and Type Error", name, got)
		}
	}
	status := &metav1.Status{Status: metav1.StatusFailure, Code: 410}
	status.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Status"))
	raw := encoded(t, status, "Status")
	if got := read(t, framed(t, watch.Error, raw)); len(got) != 1 || got[0].Type != watch.Error ||
		got[0].Object.(*metav1.Status).Code != 410 {
		t.Errorf("got %v, want 1 in got, Type Error and Code 410", got)
	}
}
