package forecast

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Load is what became of the load of a workload: what its ready Pods take together, thousandths of
// a core and bytes.
type Load struct {
	Object       string `json:"object"`
	Measured     bool   `json:"measured"` // by the metrics API; otherwise requests were taken
	CPUBefore    int64  `json:"cpuBefore"`
	CPU          int64  `json:"cpu"`
	MemoryBefore int64  `json:"memoryBefore"`
	Memory       int64  `json:"memory"`
	PodsBefore   int32  `json:"podsBefore"` // ready ones
	Pods         int32  `json:"pods"`       // at the end
	Ready        int32  `json:"ready"`
	Autoscaler   string `json:"autoscaler,omitempty"` // that scales it
}

func (l Load) text() string {
	amount := func(cpu, memory int64) string {
		return fmt.Sprintf("%s of cores and %s", resource.NewMilliQuantity(cpu, resource.DecimalSI),
			resource.NewQuantity(memory, resource.BinarySI))
	}
	return fmt.Sprintf("%s: %s in %d Pods before, %s in %d (%d ready) at the end", l.Object,
		amount(l.CPUBefore, l.MemoryBefore), l.PodsBefore, amount(l.CPU, l.Memory), l.Pods, l.Ready)
}

func (f *Forecast) writeLoads(b *strings.Builder) {
	for _, l := range f.Loads {
		fmt.Fprintln(b, l.text())
	}
}
