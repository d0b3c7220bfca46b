package forecast

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Load is what became of the load of a workload: what its ready Pods take together, thousandths of
// a core and bytes.
type Load struct {
	Namespace    string `json:"namespace"`
	Object       string `json:"object"`
	Measured     bool   `json:"measured"` // by the metrics API; otherwise requests were taken
	CPUBefore    int64  `json:"cpuBefore"`
	CPU          int64  `json:"cpu"`
	CPUTaken     int64  `json:"cpuTaken"` // of CPU, what the limits of the Pods at the end allow
	MemoryBefore int64  `json:"memoryBefore"`
	Memory       int64  `json:"memory"`
	PodsBefore   int32  `json:"podsBefore"` // ready ones
	Pods         int32  `json:"pods"`       // at the end
	Ready        int32  `json:"ready"`
	Autoscaler   string `json:"autoscaler,omitempty"` // that scales it
}

func (l Load) text() string {
	return fmt.Sprintf("%s: %s in %d Pods before, %s in %d (%d ready) at the end", l.Object,
		amount(l.CPUBefore, l.MemoryBefore), l.PodsBefore, amount(l.CPU, l.Memory), l.Pods, l.Ready)
}

func amount(cpu, memory int64) string {
	return fmt.Sprintf("%s of cores and %s", resource.NewMilliQuantity(cpu, resource.DecimalSI),
		resource.NewQuantity(memory, resource.BinarySI))
}

func (f *Forecast) writeLoads(b *strings.Builder) {
	for _, l := range f.Loads {
		fmt.Fprintln(b, l.text())
	}
}

// LoadScore is how right a forecast of the load of one workload was.
type LoadScore struct {
	Object string `json:"object"`
	// Came says that the load changed as was asked about: what is taken is nearer to what was
	// foretold than half of the change. It is nil if nothing tells what the Pods take.
	Came     *bool `json:"came,omitempty"`
	CPU      int64 `json:"cpu"` // what the ready Pods take together now, thousandths of a core
	Memory   int64 `json:"memory"`
	Pods     int32 `json:"pods"` // that there are now, without those that leave
	Ready    int32 `json:"ready"`
	Foretold Load  `json:"foretold"`
}

// right tells whether there are as many Pods as was foretold.
func (s LoadScore) right() bool { return s.Pods == s.Foretold.Pods && s.Ready == s.Foretold.Ready }

// loads scores the loads of a forecast by the Pods that are there.
func (f *Forecast) loads(there []Seen) []LoadScore {
	var out []LoadScore
	for _, l := range f.Loads {
		s := LoadScore{Object: l.Object, Foretold: l}
		measured := true
		for _, p := range there {
			if p.Leaving || p.ownerOr() != ownerOr(l.Namespace, l.Object, "") {
				continue
			}
			s.Pods++
			if p.Ready.IsZero() {
				continue
			}
			s.Ready++
			measured = measured && p.Measured
			s.CPU, s.Memory = s.CPU+p.CPU, s.Memory+p.Memory
		}
		if measured && s.Ready > 0 {
			s.Came = new(s.came())
		}
		out = append(out, s)
	}
	return out
}

// came compares cores where they were to change, otherwise memory.
func (s LoadScore) came() bool {
	was, asked, is := s.Foretold.CPUBefore, s.Foretold.CPUTaken, s.CPU
	if was == s.Foretold.CPU {
		was, asked, is = s.Foretold.MemoryBefore, s.Foretold.Memory, s.Memory
	}
	off, change := is-asked, asked-was
	return 2*max(off, -off) <= max(change, -change)
}

// loadsCame tells whether the loads changed as was asked about; where nothing tells what Pods take,
// whether the number of Pods is another than before and the one that was foretold.
func loadsCame(all []LoadScore) bool {
	for _, s := range all {
		if s.Came != nil && !*s.Came ||
			s.Came == nil && (!s.right() || s.Foretold.Pods == s.Foretold.PodsBefore) {
			return false
		}
	}
	return len(all) > 0
}

// line says what was foretold of one load, and what came.
func (s LoadScore) line() string {
	take := "nothing tells what they take"
	if s.Came != nil {
		take = fmt.Sprintf("they take %s, foretold %s", amount(s.CPU, s.Memory),
			amount(s.Foretold.CPUTaken, s.Foretold.Memory))
	}
	return fmt.Sprintf("%s has %d Pods (%d ready), foretold %d (%d ready); %s", s.Object, s.Pods, s.Ready,
		s.Foretold.Pods, s.Foretold.Ready, take)
}
