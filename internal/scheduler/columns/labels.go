package columns

// Labels is the column of one label key: numbers in place of values, 0 where a node has no such
// label.
type Labels struct {
	Numbers []int32
	Values  []string // by number; Values[0] stands for "no such label"
	rows    []int32  // by number: how many have the value
	numbers map[string]int32
	version int64
}

// Labels returns the column of a label key, made at its first use and kept up to date from then on.
// It is not safe for concurrent use: the scheduling goroutine owns Rows.
func (t *Rows) Labels(key string) *Labels {
	l := t.labels[key]
	if l == nil {
		l = &Labels{Numbers: make([]int32, t.Len()), Values: []string{""}, rows: []int32{int32(t.Len())},
			numbers: map[string]int32{}}
		for i, n := range t.NodeObjects {
			l.set(int32(i), n.Labels, key)
		}
		t.labels[key] = l
	}
	return l
}

func (l *Labels) set(row int32, labels map[string]string, key string) {
	value, has := labels[key]
	id := int32(0)
	if has {
		id = l.Number(value)
	}
	if was := l.Numbers[row]; was != id {
		l.rows[was]--
		l.rows[id]++
		l.Numbers[row] = id
		l.version++
	}
}

// Find gives a value's number, if it has one.
func (l *Labels) Find(value string) (int32, bool) {
	id, known := l.numbers[value]
	return id, known
}

// Version grows whenever a row gets another value.
func (l *Labels) Version() int64 { return l.version }

// Unique tells whether the row has a value, not the empty one, that no other row has.
func (l *Labels) Unique(row int32) bool {
	id := l.Numbers[row]
	return id != 0 && l.rows[id] == 1 && l.Values[id] != ""
}

// Number gives a value's number; values not met yet get one.
func (l *Labels) Number(value string) int32 {
	id, known := l.numbers[value]
	if !known {
		id = int32(len(l.Values))
		l.Values, l.rows, l.numbers[value] = append(l.Values, value), append(l.rows, 0), id
	}
	return id
}
