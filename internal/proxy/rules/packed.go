package rules

import (
	"strconv"
	"strings"
)

// packed is a state as one text: a tenth of the memory that maps of small texts take. Names, keys and rules have no control characters.
type packed string

// Ends of a part and of a line in a packed text, and what its lines are, by their first part.
const (
	endOfPart, endOfLine               = "\x00", "\x01"
	packsChain, packsSet, packsElement = "c", "s", "e"
)

func pack(s State) packed {
	var b strings.Builder
	line := func(parts ...string) {
		for i, p := range parts {
			if i > 0 {
				b.WriteString(endOfPart)
			}
			b.WriteString(p)
		}
		b.WriteString(endOfLine)
	}
	for name, rules := range s.Chains {
		line(append([]string{packsChain, name}, rules...)...)
	}
	for name, timeout := range s.Affinity {
		line(packsSet, name, strconv.Itoa(int(timeout)))
	}
	for e, verdict := range s.Elements {
		line(packsElement, e.Set, e.Key, verdict)
	}
	return packed(strings.Clone(b.String()))
}

func (p packed) state() State {
	s := NewState()
	for line := range strings.SplitSeq(strings.TrimSuffix(string(p), endOfLine), endOfLine) {
		switch part := strings.Split(line, endOfPart); part[0] {
		case packsChain:
			s.Chains[part[1]] = part[2:]
		case packsSet:
			timeout, _ := strconv.ParseInt(part[2], 10, 32) // as pack wrote it
			s.Affinity[part[1]] = int32(timeout)
		case packsElement:
			s.Elements[Element{part[1], part[2]}] = part[3]
		}
	}
	return s
}
