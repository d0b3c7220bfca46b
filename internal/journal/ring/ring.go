package ring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// DefaultBytes bounds the encoded entries if Options.Bytes is 0.
const DefaultBytes = 16 << 20

// maxPending bounds the entries that wait for the writer; beyond it the oldest are dropped and
// counted.
const maxPending = 1 << 16

// Options configure a Ring.
type Options struct {
	Dir   string // directory of the segments; empty: memory only
	Bytes int    // bound of encoded entries; 0: DefaultBytes
}

// slot is one stored entry: the fields that queries compare, and the encoded rest.
type slot struct {
	header journal.Entry // Fact is nil
	raw    []byte
}

// Ring stores entries. It is safe for concurrent use.
type Ring struct {
	limit int

	mu      sync.Mutex
	seq     uint64
	pending []journal.Entry
	dropped uint64
	damaged uint64

	storeMu sync.Mutex // held while pending entries move into slots
	slots   []slot     // oldest first
	size    int
	disk    *disk

	wakeup chan struct{}
	done   chan struct{}
	end    sync.Once
}

// Open reads the entries that an earlier process stored in o.Dir and starts the writer. It fails if
// the directory cannot be used. The caller must Close the Ring.
func Open(o Options) (*Ring, error) {
	r := &Ring{limit: o.Bytes, wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	if r.limit <= 0 {
		r.limit = DefaultBytes
	}
	if o.Dir != "" {
		d, err := openDisk(o.Dir, r.limit/2)
		if err != nil {
			return nil, fmt.Errorf("journal folder %s: %w", o.Dir, err)
		}
		r.disk = d
		if err := d.replay(r.restore); err != nil {
			return nil, fmt.Errorf("journal folder %s: %w", o.Dir, err)
		}
	}
	go r.write()
	return r, nil
}

// SinkFor returns the Sink of component by; node may be empty.
func (r *Ring) SinkFor(by, node string) journal.Sink { return sink{r, by, node} }

type sink struct {
	ring     *Ring
	by, node string
}

// Put stores the fact with the current time.
func (s sink) Put(ref journal.Ref, fact journal.Fact) {
	s.ring.add(journal.Entry{At: time.Now(), Ref: ref, By: s.by, Node: s.node, Fact: fact})
}

// Append stores entries of another process with their time and component.
func (r *Ring) Append(entries []journal.Entry) { r.add(entries...) }

func (r *Ring) add(entries ...journal.Entry) {
	r.mu.Lock()
	for _, e := range entries {
		r.seq++
		e.Seq = r.seq
		r.pending = append(r.pending, e)
	}
	if excess := len(r.pending) - maxPending; excess > 0 {
		r.pending = append([]journal.Entry(nil), r.pending[excess:]...)
		r.dropped += uint64(excess)
	}
	r.mu.Unlock()
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// Read returns the entries that q selects, oldest first. It includes everything put before the
// call.
func (r *Ring) Read(q journal.Query) []journal.Entry {
	r.flush()
	r.storeMu.Lock()
	var picked []slot
	for i := len(r.slots) - 1; i >= 0; i-- {
		if q.Match(&r.slots[i].header) {
			picked = append(picked, r.slots[i])
			if q.Limit > 0 && len(picked) == q.Limit {
				break
			}
		}
	}
	r.storeMu.Unlock()
	out := make([]journal.Entry, 0, len(picked))
	for i := len(picked) - 1; i >= 0; i-- {
		var e journal.Entry
		if err := json.Unmarshal(picked[i].raw, &e); err == nil {
			out = append(out, e)
		}
	}
	return out
}

// Stats says how full the journal is and how many entries it lost.
type Stats struct {
	Entries, Bytes   int
	Dropped, Damaged uint64 // entries lost to a full queue; unreadable lines on disk
}

// Stats returns the current numbers.
func (r *Ring) Stats() Stats {
	r.flush()
	r.storeMu.Lock()
	s := Stats{Entries: len(r.slots), Bytes: r.size}
	r.storeMu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Dropped, s.Damaged = r.dropped, r.damaged
	return s
}

// Close writes pending entries and closes the files.
func (r *Ring) Close() error {
	var err error
	r.end.Do(func() {
		close(r.done)
		r.flush()
		r.storeMu.Lock()
		defer r.storeMu.Unlock()
		if r.disk != nil {
			err = r.disk.close()
		}
	})
	return err
}

func (r *Ring) write() {
	for {
		select {
		case <-r.wakeup:
			r.flush()
		case <-r.done:
			return
		}
	}
}

func (r *Ring) flush() {
	r.storeMu.Lock()
	defer r.storeMu.Unlock()
	r.mu.Lock()
	batch := r.pending
	r.pending = nil
	r.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	var lines bytes.Buffer
	for i := range batch {
		raw, err := json.Marshal(batch[i])
		if err != nil { // a fact that cannot be encoded is a bug in its type; store its line
			batch[i].Fact = journal.Foreign{Name: journal.Kind(batch[i].Fact), Text: batch[i].Fact.Line()}
			raw, _ = json.Marshal(batch[i])
		}
		r.store(batch[i], raw)
		lines.Write(raw)
		lines.WriteByte('\n')
	}
	if r.disk != nil {
		r.disk.append(lines.Bytes())
	}
}

// store stores an encoded entry and drops the oldest beyond the bound.
func (r *Ring) store(e journal.Entry, raw []byte) {
	e.Fact = nil
	r.slots = append(r.slots, slot{e, raw})
	r.size += len(raw)
	drop := 0
	for r.size > r.limit && drop < len(r.slots)-1 {
		r.size -= len(r.slots[drop].raw)
		r.slots[drop].raw = nil
		drop++
	}
	r.slots = r.slots[drop:]
}

// restore stores one line that an earlier process wrote.
func (r *Ring) restore(line []byte) {
	var e journal.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		r.damaged++
		return
	}
	r.seq = max(r.seq, e.Seq)
	r.store(e, bytes.Clone(line))
}
