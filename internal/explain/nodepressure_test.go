package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/simulate/nodepressure"
)

const pressedMix = `
node: {capacity: {memory.available: 4Gi}}
pods:
- {name: batch, namespace: shop, use: {memory: 100Mi}}
- {name: web, namespace: shop, requests: {memory: 100Mi}, use: {memory: 300Mi}}
- {name: dns, namespace: shop, critical: true, use: {memory: 700Mi}}
`

// pressedNode has so many bytes of memory left, and a hard threshold of 100Mi.
func pressedNode(t *testing.T, available int64) *nodepressure.EvictionForecast {
	t.Helper()
	n, err := nodepressure.ReadScenario([]byte(pressedMix))
	if err != nil {
		t.Fatal(err)
	}
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "100Mi"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n.Config = eviction.Config{Thresholds: list, PressureTransition: time.Minute}
	n.Signals[eviction.MemoryAvailable] = nodepressure.Level{Available: available, Capacity: 4 << 30}
	return nodepressure.Forecast(n, 5)
}

func TestNodePressureWhereItIsNear(t *testing.T) {
	near, far := pressedNode(t, 210<<20), pressedNode(t, 2<<30)
	for _, c := range []struct {
		name string
		ask  PressureAsk
		of   *nodepressure.EvictionForecast
		want string // in the answer; empty: nothing is added
	}{
		{"a healthy node", PressureAsk{Kind: "node", Name: "n"}, far,
			"no eviction is near; the nearest threshold: memory.available: 2Gi of 4Gi available"},
		{"a healthy Pod", PressureAsk{Kind: "pod", Namespace: "shop", Name: "web"}, far, ""},
		{"a critical Pod", PressureAsk{Kind: "pod", Namespace: "shop", Name: "dns"}, near, ""},
		{"first", PressureAsk{Kind: "pod", Namespace: "shop", Name: "web"}, near,
			"would be evicted first for memory.available, at about 110Mi less (threshold 100Mi): before batch: takes " +
				"more than it requests by 200Mi, which is more than 100Mi; a request of 200Mi would put it " +
				"behind batch"},
		{"second", PressureAsk{Kind: "pod", Namespace: "shop", Name: "batch"}, near,
			"would be evicted second for memory.available, at about 410Mi less"},
		{"a node", PressureAsk{Kind: "node", Name: "n"}, near, "shop/web would be evicted first"},
		{"asked of a Pod", PressureAsk{Kind: "pod", Namespace: "shop", Name: "batch", Asked: true}, far,
			"evicted second"},
		{"asked of a critical Pod", PressureAsk{Kind: "pod", Namespace: "shop", Name: "dns", Asked: true}, far,
			"it would not be evicted for memory.available"},
		{"asked of a node", PressureAsk{Kind: "node", Name: "n", Asked: true}, far,
			"memory.available: 2Gi of 4Gi available, threshold 100Mi (hard): met at about 1.9Gi less"},
		{"nothing is known", PressureAsk{Kind: "node", Name: "n", Asked: true}, &nodepressure.EvictionForecast{}, ""},
	} {
		var a Answer
		WithNodePressure(&a, c.ask, c.of)
		var b strings.Builder
		if err := a.WriteText(&b, t0); err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(a.Facts)+len(a.Fixes) > 0 || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: got\n%s\nwant %q", c.name, b.String(), c.want)
		}
	}
}
