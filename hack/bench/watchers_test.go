package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// encoded is an event as a server sends it, without its length.
func encoded(t *testing.T, p *v1.Pod) []byte {
	t.Helper()
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	object := runtime.RawExtension{Raw: append([]byte("k8s\x00"), inner...)}
	event, err := (&metav1.WatchEvent{Type: "ADDED", Object: object}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// The cheap watchers read the revision of an event and when its write was sent; a truncated event
// is unreadable, without panic.
func TestRevisionAndSentTimeOfAnEvent(t *testing.T) {
	p := gated(1, "p")
	p.ResourceVersion = "4711"
	p.Annotations = map[string]string{sentAt: "1700000000000000123"}
	event := encoded(t, p)
	if got, ok := revisionOf(event); got != 4711 || !ok {
		t.Errorf("revision %d, %t", got, ok)
	}
	if got, ok := sentTime(event); got != 1700000000000000123 || !ok {
		t.Errorf("sent at %d, %t", got, ok)
	}
	for n := range event {
		revisionOf(event[:n])
		sentTime(event[:n])
	}
	p.ResourceVersion, p.Annotations = "", nil
	if got, ok := revisionOf(encoded(t, p)); ok {
		t.Errorf("revision %d where there is none", got)
	}
	if got, ok := sentTime(encoded(t, p)); ok {
		t.Errorf("sent at %d where nothing says so", got)
	}
}

// The decoding watcher requires each Pod to be added once, then modified once.
func TestAddedThenModified(t *testing.T) {
	c := writers{pace: pace{pods: 2}}
	for name, e := range map[string]struct {
		events []string
		good   bool
	}{
		"all":             {[]string{"+a", "+b", "~b", "~a"}, true},
		"one is missing":  {[]string{"+a", "+b", "~b"}, false},
		"one comes twice": {[]string{"+a", "+b", "~b", "~b", "~a"}, false},
		"out of turn":     {[]string{"~a", "+a", "+b", "~b"}, false},
	} {
		ch := make(chan watch.Event, len(e.events))
		for _, x := range e.events {
			kind := map[byte]watch.EventType{'+': watch.Added, '~': watch.Modified}[x[0]]
			ch <- watch.Event{Type: kind, Object: gated(1, x[1:])}
		}
		close(ch)
		if err := c.addedThenModified(ch); (err == nil) != e.good {
			t.Errorf("%s: got error %v, want it accepted: %t", name, err, e.good)
		}
	}
}
