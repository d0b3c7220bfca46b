package journal

import "time"

// Query selects entries. Zero fields select everything.
type Query struct {
	Kind      string // object kind; empty: Pod
	Namespace string
	Name      string
	UID       string    // empty: all objects of the name
	Since     time.Time // entries at or after this time
	After     uint64    // entries with a greater Seq
	Limit     int       // the newest entries only; 0: all
}

// Match reports whether the query selects e.
func (q Query) Match(e *Entry) bool {
	switch {
	case q.Kind != e.Ref.Kind && !(isPod(q.Kind) && isPod(e.Ref.Kind)),
		q.Namespace != "" && q.Namespace != e.Ref.Namespace,
		q.Name != "" && q.Name != e.Ref.Name,
		q.UID != "" && e.Ref.UID != "" && q.UID != e.Ref.UID,
		e.At.Before(q.Since),
		e.Seq <= q.After && q.After > 0:
		return false
	}
	return true
}

func isPod(kind string) bool { return kind == "" || kind == "Pod" }

// Reader returns the entries that q selects, oldest first.
type Reader interface{ Read(q Query) []Entry }

// Appender stores entries of another journal with their time and component.
type Appender interface{ Append(entries []Entry) }
