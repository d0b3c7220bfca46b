package journal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Ref names the Pod (or other object, see Kind) a fact is about. UID tells one life of a name from
// the next.
type Ref struct {
	Kind      string `json:"kind,omitempty"` // empty means Pod
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Fact is something that became true. Its type is its meaning; Line prints it for a person in one
// line without a trailing stop.
type Fact interface{ Line() string }

// Entry is a fact with its circumstances.
type Entry struct {
	Seq  uint64    `json:"seq"`            // position in the journal that holds it, growing
	At   time.Time `json:"at"`             // when the fact was put
	Ref  Ref       `json:"ref"`            // whom it is about
	By   string    `json:"by"`             // component: apiserver, scheduler, kubelet, controllers
	Node string    `json:"node,omitempty"` // node whose component spoke, if any
	Fact Fact      `json:"-"`
}

// Sink takes facts. Put never blocks and never fails towards the caller: a journal that is full
// forgets its oldest entries.
type Sink interface{ Put(ref Ref, fact Fact) }

// Discard is the Sink of components that run without a journal.
type Discard struct{}

// Put forgets the fact.
func (Discard) Put(Ref, Fact) {}

// Kind returns the wire name of a fact, its Go type name.
func Kind(f Fact) string {
	t := reflect.TypeOf(f)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

type wireEntry struct {
	entryFields
	Kind string          `json:"kind"`
	Line string          `json:"line,omitempty"`
	Fact json.RawMessage `json:"fact"`
}

// entryFields drops Entry's methods so that it can be embedded in the wire form.
type entryFields Entry

// MarshalJSON writes the entry with its fact's kind, line and fields.
func (e Entry) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(e.Fact)
	if err != nil {
		return nil, fmt.Errorf("fact %T: %w", e.Fact, err)
	}
	return json.Marshal(wireEntry{entryFields(e), Kind(e.Fact), e.Fact.Line(), raw})
}

// UnmarshalJSON reads an entry. A fact of an unknown kind (written by a newer version) becomes
// Foreign and keeps its line.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var w wireEntry
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Entry(w.entryFields)
	proto, ok := byKind[w.Kind]
	if !ok {
		e.Fact = Foreign{Name: w.Kind, Text: w.Line}
		return nil
	}
	v := reflect.New(reflect.TypeOf(proto))
	if err := json.Unmarshal(w.Fact, v.Interface()); err != nil {
		return fmt.Errorf("fact %s: %w", w.Kind, err)
	}
	e.Fact = v.Elem().Interface().(Fact)
	return nil
}

// Foreign is a fact this version does not know.
type Foreign struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Line prints what the writer of the fact printed.
func (f Foreign) Line() string { return f.Text }
