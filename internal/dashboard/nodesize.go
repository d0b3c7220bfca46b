package dashboard

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/sizing"
)

// sizeCalculator is gantry size for a node.
func sizeCalculator() Calculator {
	return Calculator{Name: "size", Title: "Node size",
		About: "What a node of a size keeps from Pods: reservations and eviction thresholds (gantry size).",
		Fields: []Field{
			{Name: "cpu", Label: "Cores", Kind: kindRange, Min: 1, Max: 128, Step: 1, Default: "4"},
			{Name: "memory", Label: "Memory", Unit: "Gi", Kind: kindRange, Min: 1, Max: 512, Step: 1, Default: "16"},
			{Name: "disk", Label: "Disk (0: not known)", Unit: "Gi", Kind: kindRange, Max: 2048, Step: 10,
				Default: "100"},
		},
		answer: func(_ context.Context, _ question, values map[string]string) (Forecast, error) {
			return forecastSize(values)
		}}
}

func forecastSize(values map[string]string) (Forecast, error) {
	sizes := map[string]int64{}
	for _, name := range []string{"cpu", "memory", "disk"} {
		n, err := number(values, name, 0, 1e6)
		if err != nil {
			return Forecast{}, err
		}
		sizes[name] = int64(n)
	}
	size := sizing.NodeSize{MilliCPU: sizes["cpu"] * 1000, Memory: sizes["memory"] << 30, Disk: sizes["disk"] << 30}
	if err := sizing.CheckSize(size); err != nil {
		return Forecast{}, cli.UsageError(err)
	}
	a := sizing.Node(size)
	raw, err := yaml.Marshal(a.Settings())
	if err != nil {
		return Forecast{}, err
	}
	t := Table{Caption: "What is left for Pods", Head: []string{"Resource", "The node has", "kubeReserved",
		"systemReserved", "Allocatable"}, Marked: -1}
	capacity := size.Capacity()
	for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
		for resourceName, has := range capacity {
			if left := a.Allocatable[resourceName]; string(resourceName) == name {
				t.Rows = append(t.Rows, []string{name, has.String(), a.Kube[name], a.System[name], left.String()})
			}
		}
	}
	return Forecast{
		Lines: []string{fmt.Sprintf("the hard threshold of memory, %s, is kept from Pods too",
			a.Hard["memory.available"])},
		Troubles: a.Warnings, Tables: []Table{t}, Copy: string(raw)}, nil
}
